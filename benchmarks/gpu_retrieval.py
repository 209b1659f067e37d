"""Retrieval numbers of a whole test set on an accelerator, by JAX.

Every row is compared with all others in float32 products of full precision. The rank of each relevant item is one more
than the number of items with a higher score, which XLA counts in the same pass over a block of scores. All numbers
follow from these ranks. They are checked against tfdml.metrics.retrieval, which runs on the CPU and takes longer.

Scores here are float32 products, whose last bits depend on the device, so that near ties may rank in another order.

    python benchmarks/gpu_retrieval.py            # 60,000 x 512, 11,316 classes
    python benchmarks/gpu_retrieval.py --quick    # 2,000 x 32, on any device
"""

import argparse
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from _report import RESULTS, hardware, median_seconds, print_table, versions, write_csv
from retrieval import DATA, KS, NUMBERS, QUICK, make_data

import tfdml

COLUMNS = ["rows", "dim", "classes", "device", "seconds", "product_s", "over_product", *NUMBERS]
BLOCK = 2048


def relevant_rows(labels):
    """The other rows of each row's class, `(n, most)`, -1 where there are fewer."""
    order = np.argsort(labels, kind="stable")
    _, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
    code = np.unique(labels, return_inverse=True)[1]
    place = starts[code][:, None] + np.arange(counts.max())
    rows = np.where(np.arange(counts.max()) < counts[code][:, None], order[np.minimum(place, len(labels) - 1)], -1)
    return np.where(rows == np.arange(len(labels))[:, None], -1, rows).astype(np.int32)


def scores_of(x, start):
    """Cosines of a block of rows with all rows, -2 with themselves."""
    block = jax.lax.dynamic_slice_in_dim(x, start, BLOCK)
    with jax.default_matmul_precision("float32"):
        s = block @ x.T
    return jnp.where(jnp.arange(len(x)) == start + jnp.arange(BLOCK)[:, None], -2.0, s)


@jax.jit
def sum_of_products(x):
    """The products alone, reduced so that nothing is kept."""
    return jax.lax.map(lambda start: scores_of(x, start).max(axis=1), jnp.arange(0, len(x), BLOCK))


@partial(jax.jit, static_argnames="n")
def ranks_of_relevant(x, relevant, n):
    """Ranks of the relevant items of each row, `(rows, most)`, infinity where there are fewer; n rows count."""

    def of_block(start):
        s = jnp.where(jnp.arange(len(x)) < n, scores_of(x, start), -2.0)
        rows = jax.lax.dynamic_slice_in_dim(relevant, start, BLOCK)
        own = jnp.take_along_axis(s, jnp.maximum(rows, 0), axis=1)
        above = [(s > own[:, i : i + 1]).sum(axis=1) for i in range(rows.shape[1])]
        return jnp.where(rows < 0, jnp.inf, 1.0 + jnp.stack(above, axis=1))

    return jax.lax.map(of_block, jnp.arange(0, len(relevant), BLOCK)).reshape(len(relevant), -1)


@partial(jax.jit, static_argnames="ks")
def numbers_of(ranks, ks):
    """Means over the rows with a relevant item, as tfdml.metrics.retrieval defines them."""
    ranks = jnp.sort(ranks, axis=1)
    counts = jnp.isfinite(ranks).sum(axis=1)
    total = jnp.maximum(counts, 1)
    within = ranks <= counts[:, None]
    precision = jnp.arange(1, ranks.shape[1] + 1) / ranks
    values = {f"recall@{k}": ranks[:, 0] <= k for k in ks}
    values |= {"r_precision": within.sum(axis=1) / total, "map@r": (precision * within).sum(axis=1) / total}
    return {name: jnp.where(counts > 0, value, 0).sum() / (counts > 0).sum() for name, value in values.items()}


def measure(data, repeats):
    """One row of the table."""
    x, labels = make_data(**data)
    padding = -len(x) % BLOCK
    on_device = jax.device_put(np.pad(x, ((0, padding), (0, 0))))
    relevant = jax.device_put(np.pad(relevant_rows(labels), ((0, padding), (0, 0)), constant_values=-1))
    ks = tuple(k for k in KS if k < len(x))

    def evaluate():
        return jax.block_until_ready(numbers_of(ranks_of_relevant(on_device, relevant, len(x)), ks))

    times = median_seconds(
        {"seconds": evaluate, "product_s": lambda: jax.block_until_ready(sum_of_products(on_device))}, repeats=repeats
    )
    found = {name: float(value) for name, value in evaluate().items()}
    check(found, tfdml.metrics.retrieval(x, labels, k=ks, full_map=False))
    over = times["seconds"] / times["product_s"]
    about = {"device": jax.devices()[0].device_kind, "hardware": hardware(), "versions": versions("jax")}
    return {**data, **times, "over_product": over, **{name: found.get(name, "") for name in NUMBERS}, **about}


def check(found, expected):
    """Stop where the numbers disagree, for then the time would mean nothing."""
    for name, value in found.items():
        if abs(value - expected[name]) > 1e-4:
            raise SystemExit(f"{name}: JAX {value}, tfdml.metrics {expected[name]}; they should agree to 1e-4.")


def main():
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", choices=DATA, default="many small classes, 512")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", default=RESULTS / "gpu_retrieval.csv")
    options = parser.parse_args()
    data = QUICK["many small classes"] if options.quick else DATA[options.data]
    rows = [measure(data, 1 if options.quick else options.repeats)]
    print_table(rows, COLUMNS)
    write_csv(options.output, rows)


if __name__ == "__main__":
    main()
