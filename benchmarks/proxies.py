"""CosFace over proxies and a contrastive loss over a memory against the peer, and training steps with many proxies.

The three products (the similarities to all proxies, and their two gradients) are the least that any loss over all
proxies has to do. Each way runs in its own process, and they take turns.

    python benchmarks/proxies.py            # up to a million classes, ten minutes on two cores
    python benchmarks/proxies.py --quick    # small; --no-peers leaves the peer out
"""

from pathlib import Path

from _peers import arguments_of
from _report import ratio, write_table
from losses import PATIENCE, Way, seconds_of

WORKER = Path(__file__).with_name("_proxy_worker.py")
OURS = ["eager", "graph", "xla"]
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
    for row in timed_rows(ways, request, PEER):
        yield row | {"mib": first[row["way"]]["mebibytes"]}


def over_a_memory(ways, request):
    """Rows of a contrastive loss over a memory and the batch, with the writing of the batch."""
    for way in ways.values():
        way.ask(request, 2 * PATIENCE)
    return timed_rows(ways, request, f"memory_{PEER}")


def timed_rows(ways, request, peer):
    """Rows of the time of each way, beside its products and the peer."""
    seconds = seconds_of(ways)
    for name in ways:
        ms = {"way": name, **request, "ms": 1e3 * seconds[name]}
        products = "three_products_xla" if name.endswith("xla") else "three_products"
        over = {"over_three_products": ratio(seconds[name], seconds[products])}
        yield ms | over | {"peer_over": ratio(seconds.get(peer), seconds[name])}


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


def main():
    """Measure and write the tables."""
    options = arguments_of(__doc__, "proxies.csv", peers=("torch", PEER))
    packages = ["torch", "pytorch-metric-learning"] if options.peers else []
    products, output = ["three_products", "three_products_xla"], options.output
    size = {"batch": 64, "dim": 16, "classes": 100} if options.quick else {"batch": 256, "dim": 512, "classes": 10_000}
    memory = size | {"classes": 128 if options.quick else 65_536}
    for rows_of, names, peer, request, ending in (
        (against_the_peer, [*OURS, *products], PEER, size, ""),
        (over_a_memory, ["memory_graph", "memory_xla", *products], f"memory_{PEER}", memory, "_memory"),
    ):
        ways = started([*names, *([peer] if options.peers else [])])
        write_table(output.with_stem(f"{output.stem}{ending}"), rows_of(ways, request), *packages)
        for way in ways.values():
            way.close()
    many = [100] if options.quick else [10_000, 100_000, 1_000_000]
    steps = (row for classes in many for row in training_steps(classes, 16 if options.quick else 128, size["batch"]))
    write_table(output.with_stem(f"{output.stem}_steps"), steps, *packages)


if __name__ == "__main__":
    main()
