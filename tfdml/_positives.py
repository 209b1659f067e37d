"""Going through the positives of all anchors at once, for losses over triplets: time by positives, memory by pairs."""

from keras import ops


def for_each_positive(pairs, body, state):
    """Call `body` for the first positive of every anchor, then for the second of every anchor, until none is left.

    Nothing here is differentiated: a body accumulates values together with their slopes, and `with_slopes` makes
    a function of them. So no step is kept, and memory does not grow with the number of positives.

    Args:
        pairs: `Pairs` of A anchors and R references.
        body: function `(p, found, *state) -> state`. `p` is `(A,)`, the column of one positive of each anchor; `found`
            is `(A,)`, 1.0 where the anchor has such a positive and 0.0 where all of its positives have been seen.
        state: tuple of tensors, what `body` accumulates, at its start.

    Returns:
        The state after the last positive.
    """
    is_positive = pairs.positive > 0
    columns = ops.arange(ops.shape(is_positive)[1], dtype="int32")
    beyond = ops.shape(is_positive)[1]

    def next_positive(p):
        return ops.min(ops.where(is_positive & (columns > p[:, None]), columns, beyond), axis=1)

    def step(p, *state):
        found = ops.cast(p < beyond, pairs.positive.dtype)
        return (next_positive(p), *body(ops.minimum(p, beyond - 1), found, *state))

    first = next_positive(-ops.ones_like(is_positive[:, 0], dtype="int32"))
    _, *state = ops.while_loop(lambda p, *state: ops.any(p < beyond), step, (first, *state))
    return [ops.stop_gradient(part) for part in state]


def with_slopes(value, slopes, scores):
    """A function of `scores` with the given value and gradient, at their present values.

    Args:
        value: `(anchors,)` values, each a function of its row of scores, or a scalar function of them all.
        slopes: `(anchors, references)`, the derivatives of the values.
        scores: `(anchors, references)` distances or similarities.

    Returns:
        `value`, with gradient `slopes`.
    """
    return value + ops.sum(slopes * (scores - ops.stop_gradient(scores)), axis=1 if len(value.shape) else None)


def at(columns, matrix):
    """One entry of each row, as a column `(anchors, 1)`."""
    return ops.take_along_axis(matrix, columns[:, None], axis=1)


def put(columns, values, matrix):
    """A matrix of the shape of `matrix`: `values` `(anchors, 1)` in one column of each row, 0 elsewhere."""
    places = ops.arange(ops.shape(matrix)[1], dtype="int32")
    return ops.where(places == columns[:, None], values, 0.0)
