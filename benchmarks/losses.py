"""Value and gradient of a loss: ours (graph, XLA), the same loss in pytorch-metric-learning, three matrix products.

The three products (the similarities, and their two gradients) are the least that any loss over pairs has to do.

    python benchmarks/losses.py            # all sizes, a quarter of an hour on two cores
    python benchmarks/losses.py --quick    # one small size
"""

import argparse
import functools

import tensorflow as tf
from _peers import OURS, batch, check, peers
from _report import RESULTS, hardware, median_seconds, print_table, require_peers, versions, write_csv


def value_and_gradient(loss, *, jit_compile):
    """A compiled function of labels and embeddings."""

    @tf.function(jit_compile=jit_compile)
    def run(labels, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = loss(labels, x)
        return value, tape.gradient(value, x)

    return run


@tf.function
def three_products(x):
    """The similarities of a batch, and two products of their size with it."""
    s = tf.matmul(x, x, transpose_b=True)
    return tf.matmul(s, x), tf.matmul(s, x, transpose_a=True)


def torch_value_and_gradient(loss, labels, x):
    """One forward and backward pass in PyTorch."""
    x = x.detach().requires_grad_(True)
    value = loss(labels, x)
    value.backward()
    return value.item(), x.grad


def measure(name, size, dim, repeats):
    """One row of the table."""
    import torch

    labels, x = batch(size, dim)
    tf_labels, tf_x = tf.constant(labels), tf.constant(x)
    torch_labels, torch_x = torch.tensor(labels, dtype=torch.int64), torch.tensor(x)
    graph, xla = (value_and_gradient(OURS[name], jit_compile=jit) for jit in (False, True))
    peer = functools.partial(torch_value_and_gradient, peers()[name], torch_labels, torch_x)
    check(name, float(graph(tf_labels, tf_x)[0]), peer()[0])
    seconds = median_seconds(
        {
            "graph": lambda: graph(tf_labels, tf_x)[1].numpy(),
            "xla": lambda: xla(tf_labels, tf_x)[1].numpy(),
            "peer": peer,
            "three_products": lambda: [part.numpy() for part in three_products(tf_x)],
        },
        repeats=repeats,
    )
    best = min(seconds["graph"], seconds["xla"])
    return {
        "loss": name,
        "batch": size,
        "dim": dim,
        **{f"{column}_ms": 1e3 * value for column, value in seconds.items()},
        "peer_over_graph": seconds["peer"] / seconds["graph"],
        "peer_over_xla": seconds["peer"] / seconds["xla"],
        "best_over_three_products": best / seconds["three_products"],
    }


def main():
    """Measure every loss at every size and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", default=RESULTS / "losses.csv")
    arguments = parser.parse_args()
    require_peers("torch", "pytorch_metric_learning")
    sizes = [64] if arguments.quick else [64, 256, 1024, 4096]
    dims = [16] if arguments.quick else [128, 512]
    about = {
        "versions": versions("tensorflow", "keras", "torch", "pytorch-metric-learning"),
        "hardware": hardware(),
    }
    rows = []
    for name in OURS:
        for size in sizes:
            for dim in dims:
                repeats = 3 if arguments.quick else max(5, 20_000 // size)
                rows.append(measure(name, size, dim, min(repeats, 50)) | about)
                print_table(rows[-1:], list(rows[0])[:-2])
    write_csv(arguments.output, rows)
    print_table(rows, list(rows[0])[:-2])


if __name__ == "__main__":
    main()
