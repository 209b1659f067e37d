"""Value and gradient of a loss on an accelerator: ours on JAX with XLA, the same loss in pytorch-metric-learning.

Both run on the same card; every call is waited for, and the first ones do not count.

    KERAS_BACKEND=jax python benchmarks/gpu_losses.py            # on a machine with a GPU
    KERAS_BACKEND=jax python benchmarks/gpu_losses.py --quick    # one small size; --no-peers leaves PyTorch out
"""

import os

os.environ["KERAS_BACKEND"] = "jax"

import jax
from _peers import OF_ADDONS, PEER_PACKAGES, arguments_of, batch, check, ours, peer_value_and_gradient
from _report import hardware, median_seconds, print_table, versions, write_csv


def three_products(x):
    """The similarities of a batch, and two products of their size with it, in full float32."""
    with jax.default_matmul_precision("float32"):
        s = x @ x.T
        return s @ x, s.T @ x


def measure(name, loss, size, dim, *, repeats, with_peer):
    """One row of the table."""
    labels, x = batch(size, dim)
    jax_labels, jax_x = jax.device_put(labels), jax.device_put(x)
    value_and_gradient = jax.jit(jax.value_and_grad(lambda v: loss(jax_labels, v)))
    products = jax.jit(three_products)
    functions = {
        "ours": lambda: jax.block_until_ready(value_and_gradient(jax_x)),
        "three_products": lambda: jax.block_until_ready(products(jax_x)),
    }
    if with_peer:
        functions["peer"] = peer_value_and_gradient(name, labels, x)
        check(name, float(value_and_gradient(jax_x)[0]), float(functions["peer"]()[0]))
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
    names = options.losses or (
        ["triplet, all"] if options.quick else [name for name in ours() if name not in OF_ADDONS]
    )
    for name in names:
        for size, dim in options.sizes:
            repeats = 3 if options.quick else 50
            rows.append(measure(name, ours()[name], size, dim, repeats=repeats, with_peer=options.peers) | about)
            print_table(rows[-1:], list(rows[0])[:-2])
    write_csv(options.output, rows)
    print_table(rows, list(rows[0])[:-2])


if __name__ == "__main__":
    main()
