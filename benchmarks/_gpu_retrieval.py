"""Retrieval numbers of a whole test set on an accelerator, by JAX.

Every row is compared with all others in float32 products of full precision. The rank of each relevant item is one more
than the number of items with a higher score, which XLA counts in the same pass over a block of scores. All numbers
follow from these ranks. `gpu.py` measures it.

Scores here are float32 products, whose last bits depend on the device, so that near ties may rank in another order.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

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
