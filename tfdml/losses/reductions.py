"""Sums and means over the pairs of each anchor, and checks of pairs and values that losses share."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import keras
import numpy as np

from tfdml._core.backends import are_small, can_read, custom_gradient, is_in_xla, ops, row_counts, row_dots
from tfdml._core.checks import require
from tfdml.pairs import Pairs
from tfdml.pairs.base import Tensor
from tfdml.pairs.batch_reductions import (
    BatchMean,
    batch_log_add_exp,
    batch_max,
    batch_sum,
    is_batch_with_itself,
    of_references,
)
from tfdml.pairs.products import only_cpus

_ROUNDING = 1e-14  # of squared cosine distances of equal rows

Function = TypeVar("Function", bound=Callable[..., Tensor])


def over_batch(function: Function) -> Function:
    """A decorator: a function that returns a `BatchMean`, then its attribute `apart`, becomes one of values, `(A,)`."""

    values: Any = functools.wraps(function)(lambda pairs, **settings: per_anchor(function(pairs, **settings), pairs))
    values.apart = function
    return values


def per_anchor(result: Tensor | BatchMean, pairs: Pairs) -> Tensor:
    """The values of the anchors, `(A,)`, also of a `BatchMean`."""
    return result.per_anchor(pairs) if isinstance(result, BatchMean) else result


def over_pairs(reduce: Callable[[Tensor, Pairs], Tensor]) -> Callable[[Function], Function]:
    """A decorator: a function that returns the loss of each pair, `(A, R)`, becomes one that returns `(A,)`.

    `reduce(losses, pairs)` returns one value per anchor, such as `mean_over_pairs`. The function gets an option
    `normalize`: "anchor" reduces by it, "all" and "active" by `mean_over_batch`.
    """

    def reduced(function):
        @functools.wraps(function)
        def values(pairs, *, normalize="anchor", **settings):
            losses = function(pairs, **settings)
            return reduce(losses, pairs) if normalize == "anchor" else mean_over_batch(losses, pairs, normalize)

        signature = inspect.signature(function)
        option = inspect.Parameter("normalize", inspect.Parameter.KEYWORD_ONLY, default="anchor", annotation=str)
        values.__signature__ = signature.replace(parameters=[*signature.parameters.values(), option])
        return over_batch(values)

    return reduced


def mean_over_batch(losses: Tensor, pairs: Pairs, normalize: str) -> BatchMean:
    """The mean of the losses over "all" pairs of the batch, or over the "active" ones.

    An active pair has a loss above 1e-14, so that the rounding of the distance of copies counts for nothing.
    """
    weights = pairs.positive + pairs.negative
    terms = weights if normalize == "all" else weights * ops.cast(losses > _ROUNDING, losses.dtype)
    return BatchMean(row_dots(weights, losses), count(terms, pairs.counts))


def mean_over_pairs(values: Tensor, pairs: Pairs) -> Tensor:
    """Weighted sum over the pairs of each anchor, divided by the sum of their `counts`; 0 without pairs."""
    return weighted_mean(values, pairs.positive + pairs.negative, pairs.counts)


def weighted_mean(values: Tensor, weights: Tensor, counts: Tensor | None = None) -> Tensor:
    """Weighted sum along each row, divided by the number of its pairs, `count`: `(anchors,)`, 0 without pairs."""
    number = count(weights, counts)
    if keras.backend.backend() == "torch":
        return _mean(values, weights, number)
    return divided(row_dots(weights, values), number)


@custom_gradient
def _mean(values, weights, number):
    """`weighted_mean` in fewer operations; TensorFlow does not compile such a gradient in a branch of `cond`."""

    def grad(upstream):
        share = divided(upstream, number)[:, None]
        return share * weights, lambda: share * values, None

    return divided(row_dots(weights, values), number), grad


def divided(x: Tensor, y: Tensor) -> Tensor:
    """x / y, for y of 0 or more; 0 where y is 0."""
    if can_read(y) and float(ops.amin(y)) > 0:
        return x / y
    return ops.where(y == 0, 0.0, x / ops.where(y == 0, 1.0, y))


def batch_means(values: Sequence[Tensor], weights: Sequence[Tensor], pairs: Pairs) -> tuple[Tensor, Tensor]:
    """The weighted mean of each matrix of values over the batch, 0 where all weights are 0, and sums of weights.

    Both are `(len(values),)`, and the sums have no gradient.
    """
    sums = [ops.sum(w * x) for w, x in zip(weights, values, strict=True)]
    of_batch = batch_sum(ops.stack([*sums, *map(ops.sum, weights)]), pairs, has_gradient=True)
    totals = ops.stop_gradient(of_batch[len(sums) :])
    return of_batch[: len(sums)] / ops.where(totals > 0, totals, 1.0), totals


def log_sum_exp_of_references(scores: Tensor, weights: Tensor, pairs: Pairs) -> Tensor:
    """`log_sum_exp` over all anchors of the batch, `(references,)`."""
    return batch_log_add_exp(log_sum_exp(scores, weights, axis=0), pairs)


def max_of_references(scores: Tensor, pairs: Pairs) -> Tensor:
    """The maximum over all anchors of the batch, `(references,)`. References with several share its gradient."""
    fixed = ops.stop_gradient(scores)
    top = batch_max(ops.amax(fixed, axis=0), pairs)
    is_top = ops.cast(fixed == top, scores.dtype)
    finite = ops.where(fixed == -float("inf"), 0.0, scores)
    sums = ops.stack([ops.sum(is_top * finite, axis=0), ops.sum(is_top, axis=0)])
    total, number = ops.unstack(batch_sum(sums, pairs, has_gradient=True), 2)
    return ops.where(top == -float("inf"), top, total / ops.stop_gradient(number))


def broadcast_to_anchors(value: Tensor, pairs: Pairs) -> Tensor:
    """A loss of the batch as a whole, repeated for every anchor: `(anchors,)`."""
    return ops.broadcast_to(value, ops.shape(pairs.positive)[:1])


def count(weights: Tensor, counts: Tensor | None = None) -> Tensor:
    """The number of pairs in each row, `(anchors,)`, as floats: `counts`, or 1, for each nonzero weight."""
    return row_counts(weights) if counts is None else row_dots(ops.sign(weights), counts)


def log_sum_exp(scores: Tensor, weights: Tensor, axis: int = 1) -> Tensor:
    """log sum_r w_r exp(score_r) along an axis, without overflow; -inf, with gradient 0, where all weights are 0."""
    return _log_sum_exp(axis)(scores, weights)


def log_sum_exp_and_softmax(scores: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """`log_sum_exp` of each row, `(anchors, 1)`, and its derivatives by the scores, 0 where all weights are 0."""
    exp, top = exponentials(scores, weights, 1)
    terms = weights * exp
    total = ops.sum(terms, axis=1, keepdims=True)
    return ops.log(total) + top, divided(terms, total)


@functools.cache
def _log_sum_exp(axis):
    """`log_sum_exp` along an axis. The gradient takes one pass over the matrix."""

    @custom_gradient
    def log_sum_exp(scores, weights):
        exp, top = exponentials(scores, weights, axis)
        terms = weights * exp
        total = ops.sum(terms, axis=axis, keepdims=True)

        def grad(upstream):
            share = divided(ops.expand_dims(upstream, axis), total)
            return terms * share, lambda: exp * share

        return ops.squeeze(ops.log(total) + top, axis), grad

    return log_sum_exp


def exponentials(scores: Tensor, weights: Tensor, axis: int) -> tuple[Tensor, Tensor | float]:
    """exp(score - top), and top, the largest score along the axis, or 0 if no exponential is large or small.

    An exponential counts only times its weight; one whose weight is 0 may be 0.
    """
    if _are_moderate(scores):
        return ops.exp(scores), 0.0
    scores = ops.where(weights > 0, scores, -float("inf"))
    largest = float(np.finfo(keras.backend.standardize_dtype(scores.dtype)).max)
    # A finite number, as -inf minus -inf would be an intermediate NaN, which debuggers would trap.
    top = ops.clip(ops.amax(scores, axis=axis, keepdims=True), -largest, largest)
    return ops.exp(scores - top), top


def _are_moderate(scores):
    """Whether exponentials of these scores, times weights, are known neither to overflow nor to underflow."""
    return can_read(scores) and float(ops.amin(scores)) > -40.0 and float(ops.amax(scores)) < 40.0


@custom_gradient
def log_ratio(scores, above, below):
    """log(sum_r v_r exp(score_r) / sum_r w_r exp(score_r)) of each row, `(anchors,)`; -inf where v or w is all 0."""
    (exp_above, top_above), (exp_below, top_below) = (exponentials(scores, w, 1) for w in (above, below))
    terms, other_terms = above * exp_above, below * exp_below
    total, other_total = (ops.sum(x, axis=1, keepdims=True) for x in (terms, other_terms))

    def grad(upstream):
        share, other_share = (divided(upstream[:, None], x) for x in (total, other_total))
        return share * terms - other_share * other_terms, lambda: share * exp_above, lambda: -other_share * exp_below

    return (ops.log(divided(total, other_total)) + (top_above - top_below))[:, 0], grad


def softplus_sum_exp(scores: Tensor, weights: Tensor) -> Tensor:
    """log(1 + sum_r w_r exp(score_r)) for each row, without overflow; 0 where all weights are 0."""
    scores = ops.where(weights > 0, scores, -float("inf"))
    top = ops.stop_gradient(ops.maximum(ops.amax(scores, axis=1), 0.0))
    return top + ops.log(ops.exp(-top) + ops.sum(weights * ops.exp(scores - top[:, None]), axis=1))


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)). For a matrix of pairs, `ops.softplus` takes as long as a product under XLA on a CPU."""
    return _softplus(x) if is_in_xla() and only_cpus() else ops.softplus(x)


@custom_gradient
def _softplus(x):
    exp = ops.exp(-ops.abs(x))
    total = 1.0 + exp
    is_one = total == 1.0
    ratio = exp / ops.where(is_one, 1.0, total - 1.0)  # corrects the rounding of the total
    log = ops.where(is_one, exp, ratio * ops.log(total))
    return ops.maximum(x, 0.0) + log, lambda upstream: [upstream * ops.sigmoid(x)]


def require_same_rows(pairs: Pairs, what: str) -> None:
    """Raise a ValueError for a loss that compares references with each other."""
    require(
        is_batch_with_itself(pairs),
        f"anchors against other references for {what}",
        "a batch against itself (pairing=all_pairs), because positives are compared with negatives",
    )


def require_shared_references(pairs: Pairs, what: str) -> None:
    """Raise a ValueError for a loss whose anchors must share their references."""
    require(
        len(pairs.reference_embeddings.shape) == 2,
        f"anchors that do not share references (consecutive pairs) for {what}",
        "references that all anchors share (pairing=all_pairs)",
    )


def propagate_non_finite(values: Tensor, pairs: Pairs) -> Tensor:
    """Make values and gradients NaN wherever an anchor, a reference or a value is not finite.

    On some backends max(NaN, 0) is 0. Embeddings whose squared distances may overflow count as not finite.
    """
    if are_small(values, pairs.anchors, *([] if pairs.is_self else [pairs.references])):
        return values
    anchors = ops.cast(pairs.anchors, values.dtype)
    zeros = 0.0 * (16.0 * ops.sum(ops.square(ops.stop_gradient(anchors)), axis=-1) + ops.stop_gradient(values))
    if not pairs.is_self:
        zeros = zeros + of_references(lambda x: _zero_if_finite(ops.cast(x, values.dtype)), pairs)
    return _plus(zeros, values, anchors)


def _zero_if_finite(x):
    """0, or NaN for rows whose squared distances may overflow."""
    return 0.0 * (16.0 * ops.sum(ops.sum(ops.square(x), axis=-1, keepdims=True)))


@custom_gradient
def _plus(zeros, values, anchors):
    """Values plus zeros, each 0 or NaN. The gradients with respect to values and anchors are NaN where zeros are."""

    def grad(upstream):
        upstream = upstream + zeros
        return None, upstream, ops.broadcast_to((upstream * zeros)[:, None], ops.shape(anchors))

    return values + zeros, grad
