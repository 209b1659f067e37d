"""Draws of pairs by their weights, without a loop over the draws."""

from keras import ops

_BLOCK = 32


def systematic_sample(weights, number, offset):
    """How often each entry of a row is drawn when draws are spread evenly over the row's cumulative weights.

    With W_r the sum of the first r weights of a row, divided by their total, entry r is drawn once for each k in
    0 .. number - 1 with W_(r-1) <= (k + offset) / number < W_r: number w_r times on average over offsets, rounded up or
    down. (Systematic sampling; independent draws have the same expectation and more variance.)

    Args:
        weights: `(rows, columns)`, not negative.
        number: draws of each row: a number, or `(rows, 1)` whole numbers as floats.
        offset: `(rows, 1)` uniform in [0, 1).

    Returns:
        `(rows, columns)` floats that are whole and sum to `number` in each row; 0 where all weights of a row are.
    """
    upto = _cumulative(weights)
    total = upto[:, -1:]
    edges = ops.minimum(ops.ceil(upto * (number / ops.where(total > 0, total, 1.0)) - offset), number)
    drawn = edges - ops.pad(edges[:, :-1], ((0, 0), (1, 0)))
    return ops.where(weights > 0, drawn, 0.0)


def with_sampled_negatives(pairs, times):
    """The pairs with every negative as often as it was drawn.

    Args:
        pairs: `Pairs` of A anchors and R references.
        times: `(A, R)`, not negative.

    Returns:
        `Pairs` whose negatives weigh `times` and count as so many; positives stay.
    """
    of_positives = 1.0 if pairs.counts is None else pairs.counts
    counts = ops.where(pairs.positive > 0, of_positives, times)
    return pairs._replace(negative=times, counts=counts)


def num_positives(pairs):
    """How many positives each anchor has, `(anchors, 1)`, as floats."""
    return ops.sum(ops.cast(pairs.positive > 0, pairs.positive.dtype), axis=1, keepdims=True)


def _cumulative(x):
    """Cumulative sums of each row: inside blocks by a matrix product, twice as fast on a CPU as a running sum.

    On GPUs that round the factors of products, probabilities of draws are off by a thousandth of themselves at most.
    """
    size = x.shape[1]
    if size is None or size < 2 * _BLOCK:
        return ops.cumsum(x, axis=1)
    blocks = ops.reshape(ops.pad(x, ((0, 0), (0, -size % _BLOCK))), (-1, -(-size // _BLOCK), _BLOCK))
    inside = ops.matmul(blocks, ops.triu(ops.ones((_BLOCK, _BLOCK), x.dtype)))
    before = ops.cumsum(inside[:, :, -1:], axis=1) - inside[:, :, -1:]
    return ops.reshape(inside + before, (-1, size + -size % _BLOCK))[:, :size]
