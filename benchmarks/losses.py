"""Value and gradient of every loss and their memory: ours (graph, XLA), pytorch-metric-learning, TensorFlow Addons.

The three products (the similarities, and their two gradients) are the least that any loss over pairs has to do. Each
way runs in its own process, and they take turns, so that the machine is equally loaded and none pays for another's
memory.

    python benchmarks/losses.py            # all losses and sizes, half an hour on two cores
    python benchmarks/losses.py --quick    # two losses, one small size; --no-peers leaves the peers out
    python benchmarks/losses.py --no-peers --sizes 16384x512    # a large batch; the other rows of the file stay
"""

import csv
import json
import select
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _peers import NOTES, OF_ADDONS, PEER_PACKAGES, arguments_of, check, ours
from _report import facts, print_table, ratio, write_table

WORKER = Path(__file__).with_name("_loss_worker.py")
# A call that takes longer than this many seconds, and its way is left out of that size and of larger ones.
PATIENCE = 60.0


class Way:
    """One way to compute a loss, in its own process; see `_loss_worker.py`."""

    def __init__(self, *words, worker=WORKER):
        self.words = tempfile.TemporaryFile("w+")  # noqa: SIM115, as `close` closes it
        self.process = subprocess.Popen(
            [sys.executable, str(worker), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.words,
            text=True,
        )
        self.gave_up = None

    def ask(self, request, patience=PATIENCE):
        """The answer, or None once the process has ended; `gave_up` says why."""
        if self.gave_up:
            return None
        try:
            print(json.dumps(request), file=self.process.stdin, flush=True)
            if not select.select([self.process.stdout], [], [], patience)[0]:
                self.gave_up = f"over {PATIENCE:.0f} s"
            elif line := self.process.stdout.readline():
                return json.loads(line)
        except BrokenPipeError:
            pass
        self.process.kill()
        self.gave_up = self.gave_up or self._how_it_ended()
        return None

    def _how_it_ended(self):
        """ "out of memory", where that is what its last words say."""
        self.words.seek(0)
        words = self.words.read()
        if any(sign in words for sign in ("bad_alloc", "allocate memory", "MemoryError", "OOM", "exhausted")):
            return "out of memory"
        raise SystemExit(f"A process ended:\n{words[-2000:]}")

    def close(self):
        """End the process."""
        with self.process:
            self.process.kill()
        self.words.close()


def seconds_of(ways):
    """Median seconds of a call of each way, in turns: 3 to 30 calls each, fewer where they are slow."""
    seconds = {name: [] for name in ways}
    for _ in range(30):
        for name, way in ways.items():
            spent = seconds[name]
            if (len(spent) >= 3 and sum(spent) > 2.0) or sum(spent) > PATIENCE / 2:
                continue
            answer = way.ask("call")
            if answer is not None:
                spent.append(answer)
    return {name: statistics.median(spent) if spent else ways[name].gave_up for name, spent in seconds.items()}


def measure(name, size, dim, ways):
    """One row of the table."""
    first = {way: process.ask({"batch": size, "dim": dim}, 2 * PATIENCE) for way, process in ways.items()}
    for way in ("graph", "xla", "three_products"):
        if first[way] is None:
            raise SystemExit(f"{name} at {size} x {dim}: {way} is {ways[way].gave_up}.")
    if first.get("peer"):
        check(name, first["graph"]["value"], first["peer"]["value"])
    seconds = seconds_of(ways)
    row = {"loss": name, "batch": size, "dim": dim}
    row |= {f"{way}_ms": 1e3 * s if isinstance(s, float) else s for way, s in seconds.items()}
    row |= {f"{way}_over_three_products": ratio(seconds[way], seconds["three_products"]) for way in ("graph", "xla")}
    if "peer" in ways:
        row |= {f"peer_over_{way}": ratio(seconds["peer"], seconds[way]) for way in ("graph", "xla")}
    row |= {f"{way}_mib": answer["mebibytes"] if answer else "" for way, answer in first.items()}
    return row


def merged(rows, path):
    """The rows, and what the file has of other losses and sizes, in the order of the losses."""

    def key(row):
        return list(ours()).index(row["loss"]), int(row["batch"]), int(row["dim"])

    before = csv.DictReader(path.read_text().splitlines()) if path.exists() else []
    of_key = {key(row): row for row in [*before, *rows] if row["loss"] in ours()}
    return [of_key[each] for each in sorted(of_key)]


def rows_of(name, options):
    """Rows of a loss at every size."""
    peer = "tensorflow_addons" if name in OF_ADDONS else "pytorch_metric_learning"
    ways = {way: Way(way, name) for way in ("graph", "xla", "three_products")}
    ways |= {"peer": Way(peer, name)} if options.peers else {}
    notes = {"peer": peer.replace("_", "-"), "note": NOTES.get(name, "")} if options.peers else {}
    for size, dim in options.sizes:
        yield measure(name, size, dim, ways) | notes | facts(*(PEER_PACKAGES if options.peers else []))
    for way in ways.values():
        way.close()


def main():
    """Measure every loss at every size and write the table."""
    options = arguments_of(__doc__, "losses.csv")
    names = options.losses or (["multi-similarity"] if options.quick else list(ours()))
    rows = []
    for name in names:
        rows += rows_of(name, options)
        print_table(rows[-1:], list(rows[-1])[:-3])
    write_table(options.output, rows if options.quick else merged(rows, options.output))


if __name__ == "__main__":
    main()
