"""Value and gradient of a loss on an accelerator: ours on JAX with XLA, the same loss in pytorch-metric-learning.

Both run on the same card; every call is waited for, and the first ones do not count.

    KERAS_BACKEND=jax python benchmarks/gpu_losses.py            # on a machine with a GPU
    KERAS_BACKEND=jax python benchmarks/gpu_losses.py --quick    # one small size; --no-peers leaves PyTorch out
"""

import os

os.environ["KERAS_BACKEND"] = "jax"

import jax
from _peers import OURS, PEER_PACKAGES, arguments_of, batch, check, peer_value_and_gradient
from _report import hardware, median_seconds, print_table, versions, write_csv


def three_products(x):
    """The similarities of a batch, and two products of their size with it, in full float32."""
    with jax.default_matmul_precision("float32"):
        s = x @ x.T
        return s @ x, s.T @ x


def measure(name, size, dim, *, repeats, with_peer):
    """One row of the table."""
    labels, x = batch(size, dim)
    jax_labels, jax_x = jax.device_put(labels), jax.device_put(x)
    loss = OURS[name]
    ours = jax.jit(jax.value_and_grad(lambda v: loss(jax_labels, v)))
    products = jax.jit(three_products)
    functions = {
        "ours": lambda: jax.block_until_ready(ours(jax_x)),
        "three_products": lambda: jax.block_until_ready(products(jax_x)),
    }
    if with_peer:
        functions["peer"] = peer_value_and_gradient(name, labels, x)
        check(name, float(ours(jax_x)[0]), float(functions["peer"]()[0]))
    seconds = median_seconds(functions, repeats=repeats)
    ratios = {"ours_over_three_products": seconds["ours"] / seconds["three_products"]}
    if with_peer:
        ratios["peer_over_ours"] = seconds["peer"] / seconds["ours"]
    times = {f"{column}_ms": 1e3 * value for column, value in seconds.items()}
    return {"loss": name, "batch": size, "dim": dim, **times, **ratios, "device": jax.devices()[0].device_kind}


def main():
    """Measure every loss at every size and write the table."""
    options = arguments_of(__doc__, "gpu_losses.csv")
    packages = PEER_PACKAGES if options.peers else []
    about = {"versions": versions("jax", *packages), "hardware": hardware()}
    rows = []
    for name in OURS:
        for size in options.sizes:
            for dim in options.dims:
                repeats = 3 if options.quick else 50
                rows.append(measure(name, size, dim, repeats=repeats, with_peer=options.peers) | about)
                print_table(rows[-1:], list(rows[0])[:-2])
    write_csv(options.output, rows)
    print_table(rows, list(rows[0])[:-2])


if __name__ == "__main__":
    main()
