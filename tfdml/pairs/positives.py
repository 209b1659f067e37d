"""Going through the positives of all anchors at once, for losses over triplets: time by positives, memory by pairs."""

from keras import ops


def for_each_positive(pairs, body, state):
    """Call `body` for the first positive of every anchor, then for the second of every anchor, until none is left.

    Nothing here is differentiated: a body accumulates values together with their slopes, and `with_gradient` makes
    a function of them. So no step is kept, and memory does not grow with the number of positives.

    Args:
        pairs: `Pairs` of A anchors and R references.
        body: function `(p, found, *state) -> state`. `p` is `(A,)`, the column of one positive of each anchor; `found`
            is `(A,)`, 1.0 where the anchor has such a positive and 0.0 where all of its positives have been seen.
        state: tuple of tensors, what `body` accumulates, at its start.

    Returns:
        The state after the last positive.
    """
    beyond = ops.shape(pairs.positive)[1]
    positives = ops.where(pairs.positive > 0, ops.arange(beyond, dtype="int32"), beyond)

    def next_positive(p):
        return ops.min(ops.where(positives > p[:, None], positives, beyond), axis=1)

    def step(p, *state):
        found = ops.cast(p < beyond, pairs.positive.dtype)
        return (next_positive(p), *body(ops.minimum(p, beyond - 1), found, *state))

    first = ops.min(positives, axis=1)
    _, *state = ops.while_loop(lambda p, *state: ops.any(p < beyond), step, (first, *state))
    return [ops.stop_gradient(part) for part in state]


def with_gradient(value, slopes, scores):
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
    """A matrix of the shape of `matrix`: `values` `(anchors, 1)` in one column of each row, 0 elsewhere.

    A row whose column is -1 is 0.
    """
    places = ops.arange(ops.shape(matrix)[1], dtype="int32")
    return ops.where(places == columns[:, None], values, ops.zeros((), values.dtype))


def nearest(d, among):
    """The column of the smallest entry of each row among those allowed, `(anchors,)`; -1 where none is finite."""
    d = ops.where(among, d, float("inf"))
    column = ops.cast(ops.argmin(d, axis=1), "int32")
    return ops.where(at(column, d)[:, 0] == float("inf"), -1, column)


def pairs_of_triplets(pairs, holds):
    """The pairs that stand in some triplet of a kind.

    Args:
        pairs: `Pairs` of A anchors and R references.
        holds: function of the columns `p` of one positive of each anchor, `(A,)`, that returns which negatives are
            in a triplet with them, `(A, R)` booleans; False for all references that are not negatives.

    Returns:
        `Pairs` with weight 0 on all others.
    """

    def add(p, found, positive, negative):
        held = holds(p) & (found[:, None] > 0)
        some = ops.any(held, axis=1, keepdims=True)
        return positive | put(p, some, positive), negative | held

    none = ops.zeros_like(pairs.positive, dtype="bool")
    positive, negative = for_each_positive(pairs, add, (none, none))
    return pairs._replace(
        positive=ops.where(positive, pairs.positive, 0.0), negative=ops.where(negative, pairs.negative, 0.0)
    )
