"""Sampling of pairs in proportion to their weights, without a loop over the draws."""

from keras import ops

_COLUMNS_PER_BLOCK = 32


def systematic_sample(weights, number, offset):
    """Systematic sampling: the number of times each entry of a row is drawn.

    With W_r the sum of the first r weights of a row, divided by their total, entry r is drawn once for each k in
    0 .. number - 1 with W_(r-1) <= (k + offset) / number < W_r. That is number w_r times on average over offsets, and
    always this number rounded up or down. Independent draws have the same expectation and a larger variance.

    Args:
        weights: `(rows, columns)`, 0 or more.
        number: number of draws per row: a number, or `(rows, 1)` whole numbers as floats.
        offset: `(rows, 1)` uniform in [0, 1).

    Returns:
        `(rows, columns)` whole numbers as floats that sum to `number` in each row; 0 in a row whose weights are all 0.
    """
    cumulative = _cumulative(weights)
    total = cumulative[:, -1:]
    edges = ops.minimum(ops.ceil(cumulative * (number / ops.where(total > 0, total, 1.0)) - offset), number)
    drawn = edges - ops.pad(edges[:, :-1], ((0, 0), (1, 0)))
    return ops.where(weights > 0, drawn, 0.0)


def with_sampled_negatives(pairs, times):
    """Set the weight and the count of each negative to the number of times it was drawn.

    Args:
        pairs: `Pairs` of A anchors and R references.
        times: `(A, R)`, 0 or more.

    Returns:
        `Pairs` with negative weights `times`, and `times` as the counts of negatives; positives are unchanged.
    """
    positive_counts = 1.0 if pairs.counts is None else pairs.counts
    return pairs._replace(negative=times, counts=ops.where(pairs.positive > 0, positive_counts, times))


def num_positives(pairs):
    """The number of positives per anchor, `(anchors, 1)`, as floats."""
    return ops.sum(ops.cast(pairs.positive > 0, pairs.positive.dtype), axis=1, keepdims=True)


def _cumulative(x):
    """Cumulative sums along each row. Inside blocks, a matrix product computes the sums; on a CPU this is twice as fast
    as a running sum. On GPUs that round the factors of products, the probabilities of draws have a relative error of at
    most 0.001.
    """
    size, width = x.shape[1], _COLUMNS_PER_BLOCK
    if size is None or size < 2 * width:
        return ops.cumsum(x, axis=1)
    blocks = ops.reshape(ops.pad(x, ((0, 0), (0, -size % width))), (-1, -(-size // width), width))
    inside = ops.matmul(blocks, ops.triu(ops.ones((width, width), x.dtype)))
    before = ops.cumsum(inside[:, :, -1:], axis=1) - inside[:, :, -1:]
    return ops.reshape(inside + before, (-1, size + -size % width))[:, :size]
