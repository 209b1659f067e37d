"""Value and gradient of losses on PyTorch tensors: ours, eager and under torch.compile, and pytorch-metric-learning.

All ways run in one process and take turns. Times are processor seconds of one thread, so that other work on the machine
changes them little. The limit is the three products that any loss over pairs has to do.

    KERAS_BACKEND=torch python benchmarks/torch_losses.py            # eager
    KERAS_BACKEND=torch python benchmarks/torch_losses.py --compiled # and torch.compile, a minute more per row
"""

import statistics
import time

import torch
from _peers import NOTES, batch, check, ours, pytorch_metric_learning, size, torch_value_and_gradient
from _report import facts, options_of, require_peers, timed, write_table

SIZES = [(64, 128), (256, 128), (1024, 512), (4096, 512)]
LOSSES = (
    "contrastive",
    "multi-similarity",
    "multi-similarity, mined",
    "circle",
    "generalized lifted",
    "NT-Xent",
    "SupCon",
    "batch hard",
    "triplet, all",
    "angular",
    "n-pairs",
    "NCA",
    "FastAP",
)

# The peer compares each positive pair with all negative pairs of the batch: 13 GB at 1,024 rows.
LARGEST_BATCH = {"NT-Xent": 256}


def three_products(x):
    """The similarities, and the two products with their gradient."""

    def run():
        with torch.no_grad():
            s = x @ x.T
            return s @ x, s.T @ x

    return run


def milliseconds(functions, seconds):
    """The median processor time of each function; they take turns for so many seconds each, at least three times."""
    times = {name: [] for name in functions}
    for function in functions.values():
        function()
    begin = time.process_time()
    while len(times[next(iter(times))]) < 3 or time.process_time() - begin < seconds * len(functions):
        for name, function in functions.items():
            times[name].append(timed(function)[2])
    return {name: 1000 * statistics.median(values) for name, values in times.items()}


def row(name, rows, dim, *, compiled, seconds):
    """The times of one loss at one size."""
    labels, x = batch(rows, dim, examples_per_class=2 if name == "n-pairs" else 4)
    loss, peer = ours()[name], pytorch_metric_learning()[name]
    functions = {
        "eager": torch_value_and_gradient(loss, labels, x),
        "peer": torch_value_and_gradient(peer, labels, x),
        "three_products": three_products(torch.tensor(x)),
    }
    check(name, functions["eager"](), functions["peer"]())
    if compiled:
        torch._dynamo.reset()
        functions["compiled"] = torch_value_and_gradient(torch.compile(lambda y, x: loss(y, x)), labels, x)
    ms = milliseconds(functions, seconds)
    ratios = {"peer_over_eager": ms["peer"] / ms["eager"]}
    if compiled:
        ratios["peer_over_compiled"] = ms["peer"] / ms["compiled"]
    times = {f"{way}_ms": value for way, value in ms.items()}
    return {"loss": name, "batch": rows, "dim": dim, **times, **ratios, "note": NOTES.get(name, "")}


def main():
    """Time all losses and sizes."""
    settings = {"compiled": False, "losses": list(LOSSES), "seconds": 2.0}
    sizes = {"nargs": "+", "type": size, "default": SIZES}
    options = options_of(__doc__, "torch_losses.csv", **settings, sizes=sizes)
    require_peers("torch", "pytorch_metric_learning")
    torch.set_num_threads(1)
    about = facts("torch", "pytorch-metric-learning")
    about["hardware"] += ", one thread"
    rows = []
    for rows_of_batch, dim in options.sizes:
        for name in (x for x in options.losses if rows_of_batch <= LARGEST_BATCH.get(x, rows_of_batch)):
            rows.append(row(name, rows_of_batch, dim, compiled=options.compiled, seconds=options.seconds) | about)
            write_table(options.output, rows)


if __name__ == "__main__":
    main()
