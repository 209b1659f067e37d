"""Value and gradient of a loss: ours (graph, XLA), the same loss in pytorch-metric-learning, three matrix products.

The three products (the similarities, and their two gradients) are the least that any loss over pairs has to do.

    python benchmarks/losses.py            # all sizes, a quarter of an hour on two cores
    python benchmarks/losses.py --quick    # one small size; --no-peers leaves PyTorch out
"""

import tensorflow as tf
from _peers import OURS, PEER_PACKAGES, arguments_of, batch, check, peer_value_and_gradient
from _report import hardware, median_seconds, print_table, versions, write_csv


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


def measure(name, size, dim, *, repeats, with_peer):
    """One row of the table."""
    labels, x = batch(size, dim)
    tf_labels, tf_x = tf.constant(labels), tf.constant(x)
    graph, xla = (value_and_gradient(OURS[name], jit_compile=jit) for jit in (False, True))
    functions = {
        "graph": lambda: graph(tf_labels, tf_x)[1].numpy(),
        "xla": lambda: xla(tf_labels, tf_x)[1].numpy(),
        "three_products": lambda: [part.numpy() for part in three_products(tf_x)],
    }
    if with_peer:
        functions["peer"] = peer_value_and_gradient(name, labels, x)
        check(name, float(graph(tf_labels, tf_x)[0]), float(functions["peer"]()[0]))
    seconds = median_seconds(functions, repeats=repeats)
    ratios = {
        "graph_over_three_products": seconds["graph"] / seconds["three_products"],
        "xla_over_three_products": seconds["xla"] / seconds["three_products"],
    }
    if with_peer:
        ratios |= {f"peer_over_{ours}": seconds["peer"] / seconds[ours] for ours in ("graph", "xla")}
    times = {f"{column}_ms": 1e3 * value for column, value in seconds.items()}
    return {"loss": name, "batch": size, "dim": dim, **times, **ratios}


def main():
    """Measure every loss at every size and write the table."""
    options = arguments_of(__doc__, "losses.csv")
    packages = PEER_PACKAGES if options.peers else []
    about = {"versions": versions(*packages), "hardware": hardware()}
    rows = []
    for name in OURS:
        for size in options.sizes:
            for dim in options.dims:
                repeats = 3 if options.quick else min(50, max(5, 20_000 // size))
                rows.append(measure(name, size, dim, repeats=repeats, with_peer=options.peers) | about)
                print_table(rows[-1:], list(rows[0])[:-2])
    write_csv(options.output, rows)
    print_table(rows, list(rows[0])[:-2])


if __name__ == "__main__":
    main()
