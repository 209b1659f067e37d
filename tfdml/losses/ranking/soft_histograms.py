"""Histograms of each row of a matrix, with linear interpolation between evenly spaced nodes.

Three methods find the same counts, without a cube of anchors, references and nodes. For few nodes, one pass per node
over a block is the fastest. For many nodes, a CPU adds each value to its segment. Other devices are slow at sums of
many values: they take products of two short one-hot codes of a node.
"""

import math
from collections.abc import Sequence
from functools import partial

from tfdml._core.backends import custom_gradient, ops
from tfdml.pairs.base import Tensor
from tfdml.pairs.products import full_precision, only_cpus

# Up to this number of intervals, a pass for each of them takes less time than segments or products of codes.
_FEW_BINS = 20
# Up to this number of pairs, one operation over all nodes takes less time than a call for each.
_FEW_PAIRS = 2**16
# Entries of a block, which stay in the cache of a CPU, and of its codes on other devices.
_ENTRIES_PER_BLOCK = 2**17
_CODES_PER_BLOCK = 2**24


def soft_histogram(values: Tensor, weights: Tensor, bins: int, low: float, high: float) -> Tensor:
    """Histogram of each row on evenly spaced nodes, `(anchors, bins + 1)`; a value is split between two nodes.

    Values outside [low, high] count for the nearest node. Memory grows with the pairs, not with pairs times bins.
    """
    return soft_histograms(values, [weights], bins, low, high)[:, 0]


def soft_histograms(values: Tensor, weights: Sequence[Tensor], bins: int, low: float, high: float) -> Tensor:
    """`soft_histogram` of the same values for several weights, `(anchors, len(weights), bins + 1)`."""
    width = (high - low) / bins

    @custom_gradient
    def histograms(values, *weights):
        position = ops.clip((values - low if low else values) / width, 0.0, float(bins))

        def grad(upstream):
            steps = (upstream[..., 1:] - upstream[..., :-1]) / width
            moving = (values > low) & (values < high)
            by_values = ops.where(moving, _weighted_steps(position, weights, steps), 0.0)
            return by_values, *(partial(ops.zeros_like, x) for x in weights)

        return _method(bins)(position, weights, bins), grad

    return histograms(values, *weights)


def _method(bins):
    """The fastest function `(position, weights, bins)` that returns counts."""
    if bins <= _FEW_BINS:
        return sums_of_shares
    return sums_of_segments if only_cpus() else sums_of_products


def sums_of_shares(position: Tensor, weights: Sequence[Tensor], bins: int) -> Tensor:
    """Counts by a pass for each node, `(anchors, len(weights), bins + 1)`; positions are from 0 to `bins`."""

    if only_cpus() and _has_few_pairs(position):
        shares = ops.relu(1.0 - ops.abs(position[:, None] - _column(bins + 1, position)))
        return ops.matmul(ops.stack(weights, axis=1), ops.transpose(shares, (0, 2, 1)))

    def counts(position, *weights):
        shares = (ops.relu(1.0 - ops.abs(position - float(node))) for node in range(bins + 1))
        return ops.stack([*map(_weighted_sums(weights), shares)], axis=-1)

    if only_cpus():
        return _in_blocks(counts, [position, *weights], _ENTRIES_PER_BLOCK)
    return counts(position, *weights)


def _weighted_sums(weights):
    """A function of the shares that returns the sum of weight times share of each row, `(anchors, len(weights))`.

    A product of matrices takes one pass on a CPU; on other devices, XLA fuses the sums, which stay in full precision.
    """
    if only_cpus():
        stacked = ops.stack(weights, axis=1)
        return lambda share: ops.matmul(stacked, share[:, :, None])[..., 0]
    return lambda share: ops.stack([ops.sum(x * share, axis=1) for x in weights], axis=-1)


def sums_of_products(position: Tensor, weights: Sequence[Tensor], bins: int) -> Tensor:
    """As `sums_of_shares`, by one matrix product per row.

    Node c * fine + f has the code (c, f). A position counts for the coarse part of its interval and two fine nodes.
    """
    fine = math.isqrt(bins - 1) + 1
    coarse = -(-bins // fine)

    def counts(position, *weights):
        interval = ops.clip(ops.floor(position / fine), 0, coarse - 1)
        is_coarse = ops.cast(interval[:, None] == _column(coarse, position), position.dtype)
        shares = ops.relu(1.0 - ops.abs((position - fine * interval)[:, None] - _column(fine + 1, position)))
        with full_precision():
            products = [ops.einsum("acr,afr->acf", is_coarse * x[:, None], shares) for x in weights]
        return _joined(ops.stack(products, axis=1))[..., : bins + 1]

    codes = len(weights) * coarse + fine + 1
    return _in_blocks(counts, [position, *weights], _CODES_PER_BLOCK // codes)


def _column(number, like):
    return ops.arange(number, dtype=like.dtype)[:, None]


def _joined(counts):
    """Counts `(..., coarse, fine + 1)` of overlapping stretches of nodes, as `(..., coarse * fine + 1)`."""
    *leading, coarse, nodes = counts.shape
    first = ops.reshape(counts[..., :-1], (-1, *leading[1:], coarse * (nodes - 1)))
    last = ops.pad(counts[..., -1:], [[0, 0]] * len(leading) + [[0, 0], [nodes - 2, 0]])
    last = ops.reshape(last, (-1, *leading[1:], coarse * (nodes - 1)))
    sides = [[0, 0]] * len(leading)
    return ops.pad(first, [*sides, [0, 1]]) + ops.pad(last, [*sides, [1, 0]])


def sums_of_segments(position: Tensor, weights: Sequence[Tensor], bins: int) -> Tensor:
    """As `sums_of_shares`, by adding each value to the sum of its interval."""
    num_rows = ops.shape(position)[0]
    interval = _intervals(position, bins)
    segments = ops.reshape(interval + bins * ops.arange(num_rows, dtype="int32")[:, None], (-1,))

    def total(x):
        sums = ops.segment_sum(ops.reshape(x, (-1,)), segments, num_segments=num_rows * bins)
        return ops.reshape(sums, (-1, bins))

    def counts(weights):
        upper = total(weights * (position - ops.cast(interval, position.dtype)))
        lower = total(weights) - upper
        return ops.pad(lower, [[0, 0], [0, 1]]) + ops.pad(upper, [[0, 0], [1, 0]])

    return ops.stack([counts(x) for x in weights], axis=1)


def _intervals(position, bins):
    """Number of the interval of each position, int32."""
    return ops.clip(ops.cast(position, "int32"), 0, bins - 1)


def _weighted_steps(position, weights, steps):
    """The sum over weights of weight times the step of the interval, `(anchors, references)`."""
    steps = [steps[:, i] for i in range(len(weights))]
    is_few = steps[0].shape[1] <= _FEW_BINS and not (only_cpus() and _has_few_pairs(position))
    step_of = _selected_steps if is_few else _gathered_steps
    return sum(x * step for x, step in zip(weights, step_of(position, steps), strict=True))


def _has_few_pairs(position):
    return None not in position.shape and position.shape[0] * position.shape[1] <= _FEW_PAIRS


def _selected_steps(position, steps):
    """The steps of each interval `(anchors, references)`, by one comparison per interval."""
    selected = [step[:, :1] for step in steps]
    for interval in range(1, steps[0].shape[1]):
        is_beyond = position >= float(interval)
        selected = [ops.where(is_beyond, x[:, interval, None], y) for x, y in zip(steps, selected, strict=True)]
    return selected


def _gathered_steps(position, steps):
    """As `_selected_steps`, by one lookup."""
    num_rows, bins = ops.shape(position)[0], steps[0].shape[1]
    entry = _intervals(position, bins) + bins * ops.arange(num_rows, dtype="int32")[:, None]
    return [ops.take(ops.reshape(step, (-1,)), entry) for step in steps]


def _in_blocks(function, matrices, entries):
    """`function(*matrices)`, a few rows at a time, such that a block has about the given number of entries."""
    num_rows, num_columns = matrices[0].shape
    size = max(1, entries // (num_columns or 4096))
    if num_rows is not None and num_rows <= size:
        return function(*matrices)
    num_rows = ops.shape(matrices[0])[0]

    def block(number):
        rows = ops.minimum(number * size + ops.arange(size, dtype="int32"), num_rows - 1)
        return function(*(ops.take(x, rows, axis=0) for x in matrices))

    blocks = ops.map(block, ops.arange((num_rows + size - 1) // size, dtype="int32"))
    return ops.reshape(blocks, (-1, *blocks.shape[2:]))[:num_rows]
