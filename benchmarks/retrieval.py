"""Retrieval numbers of a whole test set: ours, pytorch-metric-learning with faiss, and the matrix product alone.

Each way runs in its own process, in turns, so that its peak memory can be measured. Times leave out imports and the
making of the data. Ours computes Recall@1, 10, 100 and 1000, R-Precision, MAP@R and MRR. The peer computes Precision@1,
R-Precision and MAP@R, for which it needs fewer neighbors; `over_ours` is its time divided by ours. In leave-one-out the
scores are symmetric, so that half of the product of all rows with all rows is enough.

    python benchmarks/retrieval.py            # fifteen minutes on two cores, 8 GiB for the peer
    python benchmarks/retrieval.py --quick    # small sizes; --no-peers leaves PyTorch and faiss out
    python benchmarks/retrieval.py --data "many small classes, 512" --ways tfdml pytorch-metric-learning --repeats 5
"""

import csv
import statistics
from functools import partial

import numpy as np
from _report import facts, of_process, options_of, peak_mib, require_peers, timed, write_table

import tfdml

DATA = {
    "many small classes": {"rows": 60_000, "dim": 128, "classes": 11_316},
    "separated classes": {"rows": 60_000, "dim": 128, "classes": 11_316, "spread": 1.0},
    "overlapping classes": {"rows": 60_000, "dim": 128, "classes": 11_316, "spread": 2.25},
    "many small classes, 512": {"rows": 60_000, "dim": 512, "classes": 11_316},
    "ten large classes": {"rows": 10_000, "dim": 64, "classes": 10},
}
QUICK = {"many small classes": {"rows": 2_000, "dim": 32, "classes": 380}}
PEERS = ("faiss", "pytorch_metric_learning", "torch")
PEER_PACKAGES = ("pytorch-metric-learning", "torch", "faiss-cpu")
KS = (1, 10, 100, 1000)
TIMES = ["seconds", "cpu_seconds", "over_ours", "peak_mib", "above_start_mib"]
NUMBERS = [*(f"recall@{k}" for k in KS), "r_precision", "map@r"]


def make_data(rows, dim, classes, spread=1.8):
    """Unit vectors around the center of their class: `(rows, dim)` float32 and `(rows,)` labels in mixed order.

    `spread` is the standard deviation around the centers, whose own is 1. 2.25 gives Recall@1 of about 0.04, as in the
    first epochs of training: most relevant items then have thousands of others above them. Many classes have 2 to 12
    members each, as in a set of product photos; ten share the rows evenly.
    """
    rng = np.random.default_rng(0)
    if classes > 10:
        places = rng.permutation(np.repeat(np.arange(classes), 10))
        labels = np.concatenate([np.repeat(np.arange(classes), 2), places[: rows - 2 * classes]])
    else:
        labels = np.arange(rows) % classes
    labels = rng.permutation(labels)
    x = rng.standard_normal((classes, dim))[labels] + spread * rng.standard_normal((rows, dim))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype("float32"), labels


def ranks(x):
    """The ranks of recall@k that so many rows allow."""
    return [k for k in KS if k < len(x)]


def product(x, labels):
    """The matrix product alone, 512 rows at a time."""
    block = np.empty((512, len(x)), "float32")
    for start in range(0, len(x), 512):
        part = x[start : start + 512]
        np.matmul(part, x.T, out=block[: len(part)])
    return {}


def exact(x, labels, *, full_map):
    """tfdml.metrics.retrieval; for map, every relevant item is ranked."""
    return tfdml.metrics.retrieval(x, labels, k=ranks(x), full_map=full_map)


def from_neighbors(x, labels, *, method):
    """The numbers from 20 neighbors that ScaNN finds, too few for R-Precision in large classes."""
    found, _ = tfdml.search.Scann(x, method=method).search(x, 20)
    at_r = np.bincount(labels).max() <= 20
    return tfdml.metrics.retrieval(None, labels, neighbors=found, k=(1, 10), at_r=at_r)


def peer(x, labels):
    """pytorch-metric-learning's AccuracyCalculator with faiss and enough neighbors for the largest class."""
    import torch
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    names = {
        "precision_at_1": "precision@1",
        "r_precision": "r_precision",
        "mean_average_precision_at_r": "map@r",
    }
    calculator = AccuracyCalculator(include=tuple(names), k="max_bin_count", device=torch.device("cpu"))
    found = calculator.get_accuracy(torch.from_numpy(x), torch.from_numpy(labels))
    return {ours: found[theirs] for theirs, ours in names.items()}


WAYS = {
    "matrix product alone": product,
    "tfdml": partial(exact, full_map=False),
    "tfdml, map too": partial(exact, full_map=True),
    "scann brute force": partial(from_neighbors, method="exact"),
    "scann default": partial(from_neighbors, method="auto"),
    "pytorch-metric-learning": peer,
}


CHOICES = {"data": DATA, "ways": WAYS}


def measure(data, way):
    """Numbers, seconds and memory of one way."""
    x, labels = make_data(**data)
    small = slice(0, 200)
    WAYS[way](x[small], labels[small] % 10)  # imports, thread pools
    start = peak_mib()
    numbers, wall, cpu = timed(lambda: WAYS[way](x, labels))
    row = {"seconds": wall, "cpu_seconds": cpu, "peak_mib": peak_mib(), "above_start_mib": peak_mib() - start}
    return {**row, **{name: float(value) for name, value in numbers.items()}}


def run(data, way):
    """What `measure` returns for one way, in a new process."""
    return of_process(__file__, data, way)


def check(found):
    """Stop where the exact ways disagree, for then their times would mean nothing."""
    ours = found.get("tfdml", {})
    for way in ("pytorch-metric-learning", "scann brute force"):
        for name in ("precision@1", "r_precision", "map@r"):
            if name in found.get(way, {}) and name in ours and abs(ours[name] - found[way][name]) > 1e-4:
                raise SystemExit(f"{name}: tfdml {ours[name]}, {way} {found[way][name]}; they should agree to 1e-4.")


def main():
    """Measure every way on every data set and write the table."""
    choices = {name: {"nargs": "+", "choices": all_of, "default": list(all_of)} for name, all_of in CHOICES.items()}
    options = options_of(__doc__, "retrieval.csv", case=measure, peers=True, **choices, repeats=3, quick={"repeats": 1})
    if options.peers:
        require_peers(*PEERS)
    ways = [way for way in options.ways if options.peers or way != "pytorch-metric-learning"]
    about = facts("scann", *(PEER_PACKAGES if options.peers else ()))
    rows = []
    for name, data in QUICK.items() if options.quick else ((name, DATA[name]) for name in options.data):
        runs = {way: [] for way in ways}
        for _ in range(options.repeats):
            for way in ways:
                runs[way].append(run(data, way))
        check({way: found[0] for way, found in runs.items()})
        rows += [{"data": name, "spread": 1.8, **data, **row, **about} for row in summaries(runs)]
    if len(options.data) < len(DATA) and options.output.exists():  # the other data stay as they were measured
        before = csv.DictReader(options.output.read_text().splitlines())
        rows += [{"spread": 1.8, **row} for row in before if row["data"] not in options.data]
        rows.sort(key=lambda row: list(DATA).index(row["data"]))
    write_table(options.output, rows)


def summaries(runs):
    """Medians of the times and memory of each way, and its numbers."""
    seconds = {way: statistics.median(one["seconds"] for one in found) for way, found in runs.items()}
    for way, found in runs.items():
        middle = {name: statistics.median(one[name] for one in found) for name in TIMES if name != "over_ours"}
        over = seconds[way] / seconds["tfdml"] if "tfdml" in seconds else ""
        numbers = {name: found[0].get(name, "") for name in NUMBERS}
        yield {"way": way, "over_ours": over, **middle, **numbers}


if __name__ == "__main__":
    main()
