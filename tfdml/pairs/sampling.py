"""Sampling of pairs in proportion to their weights, without a loop over the draws."""

from tfdml._core.backends import ops

_COLUMNS_PER_BLOCK = 32


def systematic_sample(weights, num_draws, offset):
    """Systematic sampling: the number of times each entry of a row is drawn.

    With W_r the sum of the first r weights of a row, divided by their total, entry r is drawn once for each k in
    0 .. n - 1 with W_(r-1) <= (k + offset) / n < W_r, where n is `num_draws`. On average over offsets that is n w_r
    times, and always n w_r rounded up or down. Independent draws have the same expectation and a larger variance.

    Args:
        num_draws: a number, or `(rows, 1)` whole numbers as floats.
        offset: `(rows, 1)` uniform in [0, 1).

    Returns:
        `(rows, columns)` whole numbers as floats that sum to `num_draws` per row; 0 in a row whose weights are all 0.
    """
    cumulative = _cumulative(weights)
    total = cumulative[:, -1:]
    edges = ops.minimum(ops.ceil(cumulative * (num_draws / ops.where(total > 0, total, 1.0)) - offset), num_draws)
    counts = edges - ops.pad(edges[:, :-1], ((0, 0), (1, 0)))
    return ops.where(weights > 0, counts, 0.0)


def with_sampled_negatives(pairs, counts):
    """`Pairs` with the number of draws, `(anchors, references)`, as weight and count of each negative."""
    positive_counts = 1.0 if pairs.counts is None else pairs.counts
    return pairs._replace(negative=counts, counts=ops.where(pairs.positive > 0, positive_counts, counts))


def num_positives(pairs):
    """The number of positives per anchor, `(anchors, 1)`, as floats."""
    return ops.sum(ops.cast(pairs.positive > 0, pairs.positive.dtype), axis=1, keepdims=True)


def _cumulative(x):
    """Cumulative sums along each row.

    A matrix product computes the sums within blocks; on a CPU this is twice as fast as a running sum. On GPUs that
    round the factors of products, the probabilities of draws have a relative error of at most 0.001.
    """
    size, width = x.shape[1], _COLUMNS_PER_BLOCK
    if size is None or size < 2 * width:
        return ops.cumsum(x, axis=1)
    blocks = ops.reshape(ops.pad(x, ((0, 0), (0, -size % width))), (-1, -(-size // width), width))
    sums = ops.matmul(blocks, ops.triu(ops.ones((width, width), x.dtype)))
    before = ops.cumsum(sums[:, :, -1:], axis=1) - sums[:, :, -1:]
    return ops.reshape(sums + before, (-1, size + -size % width))[:, :size]
