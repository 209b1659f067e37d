"""Sums over triplets in the memory of a matrix of pairs, on any backend.

All triplets of a batch of B rows are a cube of B^3 numbers. Instead, step k of a loop visits the k-th positive of every
anchor, one `(anchors, references)` matrix at a time. Automatic differentiation of such a loop would keep the matrices
of every step on TensorFlow, and does not exist on JAX. So the loop accumulates the value together with its gradient by
the scores, which the loss derives by hand:

    value, gradient = for_each_positive(pairs, add, (zeros, ops.zeros_like(scores)))
    return with_gradient(value, gradient, scores)

where `add` sees the scores under `stop_gradient`.
"""

from tfdml._core.backends import can_read, nonzero_columns, ops, while_loop


def for_each_positive(pairs, body, state):
    """Call `body` for the first positive of every anchor, then for the second of every anchor, and so on.

    `body(p, is_valid, *state)` returns the next state. `p`, `(anchors,)`, is the column of one positive per anchor;
    `is_valid`, `(anchors,)`, is 0.0 where the anchor has no more positives, else 1.0. The last state has no gradient.
    """
    num_columns = ops.shape(pairs.positive)[1]
    if can_read(pairs.positive):
        columns = nonzero_columns(ops.stop_gradient(pairs.positive))
        is_valid = ops.cast(columns < num_columns, pairs.positive.dtype)
        for p, exists in zip(columns.clip(max=num_columns - 1).unbind(1), is_valid.unbind(1), strict=True):
            state = body(p, exists, *state)
        return [ops.stop_gradient(x) for x in state]
    positives = ops.where(pairs.positive > 0, ops.arange(num_columns, dtype="int32"), num_columns)

    def next_positive(p):
        return ops.amin(ops.where(positives > p[:, None], positives, num_columns), axis=1)

    def step(p, *state):
        is_valid = ops.cast(p < num_columns, pairs.positive.dtype)
        return (next_positive(p), *body(ops.minimum(p, num_columns - 1), is_valid, *state))

    first = ops.amin(positives, axis=1)
    _, *state = while_loop(lambda p, *state: ops.any(p < num_columns), step, (first, *state))
    return [ops.stop_gradient(x) for x in state]


def with_gradient(value, gradient, scores):
    """The given value, with the given gradient with respect to `scores`.

    Values are `(anchors,)`, each a function of its row of `(anchors, references)` scores, or a scalar function of all.
    """
    return value + ops.sum(gradient * (scores - ops.stop_gradient(scores)), axis=1 if len(value.shape) else None)


def at(columns, matrix):
    """One entry of each row, as a column `(anchors, 1)`."""
    return ops.take_along_axis(matrix, columns[:, None], axis=1)


def put(columns, values, matrix):
    """`values` `(anchors, 1)` in one column of each row of a `matrix` of zeros; column -1 is nowhere."""
    all_columns = ops.arange(ops.shape(matrix)[1], dtype="int32")
    return ops.where(all_columns == columns[:, None], values, ops.zeros((), values.dtype))


def nearest(d, allowed):
    """The column of the smallest allowed entry of each row, `(anchors,)`; -1 where none is allowed and finite."""
    d = ops.where(allowed, d, float("inf"))
    smallest, num_columns = ops.amin(d, axis=1, keepdims=True), ops.shape(d)[1]
    columns = ops.where(d == smallest, ops.arange(num_columns, dtype="int32"), num_columns)  # faster than argmin
    return ops.where(smallest[:, 0] < float("inf"), ops.minimum(ops.amin(columns, axis=1), num_columns - 1), -1)


def pairs_of_triplets(pairs, holds):
    """Keep the pairs that belong to at least one triplet that satisfies a condition.

    `holds(p)`, for the columns `(anchors,)` of one positive per anchor, returns the negatives that form such a triplet
    with it: `(anchors, references)` booleans, False for all references that are not negatives.
    """

    def add(p, is_valid, positive, negative):
        in_triplet = holds(p) & (is_valid[:, None] > 0)
        any_negative = ops.any(in_triplet, axis=1, keepdims=True)
        return positive | put(p, any_negative, positive), negative | in_triplet

    none = ops.zeros_like(pairs.positive, dtype="bool")
    positive, negative = for_each_positive(pairs, add, (none, none))
    return pairs.drop(positive=ops.logical_not(positive), negative=ops.logical_not(negative))
