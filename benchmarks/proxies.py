"""CosFace over proxies and a contrastive loss over a memory against the peer, and training steps with many proxies.

The three products (the similarities to all proxies, and their two gradients) are the least that any loss over all
proxies has to do. Each way runs in its own process, and they take turns.

    python benchmarks/proxies.py            # up to a million classes, ten minutes on two cores
    python benchmarks/proxies.py --quick    # small; --no-peers leaves the peer out
"""

from pathlib import Path

from _peers import arguments_of
from _report import print_table, write_csv
from losses import PATIENCE, Way, ratio, seconds_of

import tfdml

WORKER = Path(__file__).with_name("_proxy_worker.py")
OURS = ["eager", "graph", "xla"]
PRODUCTS = {"eager": "three_products", "graph": "three_products", "xla": "three_products_xla"}
PEER = "pytorch_metric_learning"


def started(names):
    """A process per way."""
    return {name: Way(name, worker=WORKER) for name in names}


def against_the_peer(ways, request):
    """Rows of value and gradient of each way at one size."""
    first = {name: way.ask(request, 2 * PATIENCE) for name, way in ways.items()}
    values = [first[name]["value"] for name in (*OURS, PEER) if name in first]
    if max(values) - min(values) > 1e-4 * max(values):
        raise SystemExit(f"The ways disagree: {values}. The timing would mean nothing.")
    seconds = seconds_of(ways)
    for name in [*OURS, *(way for way in ways if way not in OURS)]:
        products = PRODUCTS.get(name, "three_products")
        yield {
            "way": name,
            **request,
            "ms": 1e3 * seconds[name],
            "over_three_products": ratio(seconds[name], seconds[products]),
            "peer_over": ratio(seconds.get(PEER), seconds[name]),
            "mib": first[name]["mebibytes"],
        }


def over_a_memory(ways, request):
    """Rows of a contrastive loss over a memory and the batch, with the writing of the batch."""
    for way in ways.values():
        way.ask(request, 2 * PATIENCE)
    seconds = seconds_of(ways)
    for name in ways:
        products = "three_products_xla" if name.endswith("xla") else "three_products"
        yield {
            "way": name,
            **request,
            "ms": 1e3 * seconds[name],
            "over_three_products": ratio(seconds[name], seconds[products]),
            "peer_over": ratio(seconds.get(f"memory_{PEER}"), seconds[name]),
        }


def training_steps(classes, dim, batch):
    """Rows of a training step with all proxies and with a tenth of them, by mode and optimizer."""
    requests = [
        {"batch": batch, "dim": dim, "classes": classes, "sampled": sampled, "optimizer": optimizer}
        for sampled in (0, classes // 10)
        for optimizer in ("sgd", "adam")
    ]
    for request in requests:
        row = dict(request)
        for name in ("step_graph", "step_xla"):  # one after the other: a million classes need several GiB
            ways = started([name])
            answer = ways[name].ask(request, 4 * PATIENCE)
            (seconds,) = seconds_of(ways).values()
            row[f"{name}_ms"] = 1e3 * seconds if isinstance(seconds, float) else seconds
            row[f"{name}_mib"] = answer["mebibytes"] if answer else ""
            ways[name].close()
        yield row


def measured(rows, about):
    """The rows with the machine, printed as they come."""
    found = []
    for row in rows:
        found.append(row | about)
        print_table(found[-1:], list(row))
    return found


def main():
    """Measure and write both tables."""
    options = arguments_of(__doc__, "proxies.csv", peers=("torch", PEER))
    about = tfdml.environment(*(["torch", "pytorch-metric-learning"] if options.peers else []))
    ways = started([*OURS, *sorted(set(PRODUCTS.values())), *([PEER] if options.peers else [])])
    size = {"batch": 64, "dim": 16, "classes": 100} if options.quick else {"batch": 256, "dim": 512, "classes": 10_000}
    write_csv(options.output, measured(against_the_peer(ways, size), about))
    for way in ways.values():
        way.close()
    ways = started(["memory_graph", "memory_xla", *sorted(set(PRODUCTS.values()))])
    ways |= started([f"memory_{PEER}"] if options.peers else [])
    size["classes"] = 128 if options.quick else 65_536
    output = Path(options.output)
    write_csv(output.with_name(f"{output.stem}_memory.csv"), measured(over_a_memory(ways, size), about))
    for way in ways.values():
        way.close()
    many = [100] if options.quick else [10_000, 100_000, 1_000_000]
    steps = (row for classes in many for row in training_steps(classes, 16 if options.quick else 128, size["batch"]))
    write_csv(output.with_name(f"{output.stem}_steps.csv"), measured(steps, about))


if __name__ == "__main__":
    main()
