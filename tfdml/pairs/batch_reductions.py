"""Reductions over the whole batch, for losses that are computed in blocks of anchors.

A large batch is compared a block of anchors at a time (`tfdml.pairs.chunked`). What a loss or a miner needs of all
anchors, such as a number of pairs, it requests through `batch_sum`, `batch_max`, `batch_largest` and `batch_rows`. For
`Pairs` of a whole batch they return the term itself; in a block they return the result for the whole batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tfdml._core.backends import ops, scatter
from tfdml.pairs.base import Pairs, Tensor


@dataclass(frozen=True)
class Block:
    """Which anchors of a batch `Pairs` hold."""

    rows: Tensor  # `(anchors,)`, their rows in the batch
    is_valid: Tensor  # `(anchors,)` booleans, False for rows that fill up the last block
    num_anchors: Any  # of the batch
    is_self: bool  # whether the references are the anchors of the batch
    reductions: "Reductions"  # those of this evaluation of the block


class Reduction(NamedTuple):
    """How the terms of blocks become a result for the batch."""

    merge: Callable[[Tensor, Tensor], Tensor]  # function of two terms
    initial: float  # changes no term
    slope: Callable[[Tensor, Tensor], Tensor] | None = None  # d result / d term, of both; None for no gradient


class Results(NamedTuple):
    """Results for the batch, each kind in the order in which an evaluation of a block requests them."""

    reduced: Any = ()  # of the reductions, at least of the first ones
    shared: Any = ()  # of functions that are the same in all blocks, with a gradient; at least of the first ones
    constants: Any = ()  # the same without a gradient


class Reductions:
    """The batch-wide reductions of one evaluation of a block, in the order in which the loss requests them.

    `results` are lists, to which shared ones are added; `requests` and `terms` are the reductions requested so far, and
    the term of this block in each; `is_mean` tells, after the evaluation, whether it gave a `BatchMean`.
    """

    def __init__(self, results: Results) -> None:
        self.results = Results(*map(list, results))
        self.requests: list[Reduction] = []
        self.terms: list[Tensor] = []
        self.is_mean = False
        self._number_shared = {True: 0, False: 0}  # of the requests with and without a gradient

    def request(self, term: Tensor, reduction: Reduction) -> Tensor:
        """The result for the batch, or `Pending` with the term of this block if it is not known yet."""
        self.requests.append(reduction)
        self.terms.append(term)
        if len(self.requests) > len(self.results.reduced):
            raise Pending(term, reduction)
        return self.results.reduced[len(self.requests) - 1]

    def request_shared(self, function: Callable[[], Tensor], *, has_gradient: bool) -> Tensor:
        """The result of a function that all blocks share, computed here if it is not known yet."""
        results = self.results.shared if has_gradient else self.results.constants
        self._number_shared[has_gradient] += 1
        if self._number_shared[has_gradient] > len(results):
            results.append(function())
        return results[self._number_shared[has_gradient] - 1]


class Pending(Exception):  # noqa: N818  # not an error: the loop over blocks catches it
    """The end of an evaluation at a request whose result all blocks have to be merged for first."""

    def __init__(self, term: Tensor, reduction: Reduction) -> None:
        super().__init__("a reduction over the whole batch is not known yet")
        self.term, self.reduction = term, reduction


class BatchMean(NamedTuple):
    """The values of a loss and their divisor apart: the mean over anchors is sum(sums) / sum(number), or 0.

    A function of `Pairs` that returns it needs no reduction over the batch: a loop over blocks divides at the end.
    """

    sums: Tensor  # `(anchors,)`, the sum of the terms of each anchor
    number: Tensor  # `(anchors,)`, the number of its terms, without gradient

    def per_anchor(self, pairs: Pairs) -> Tensor:
        """One value per anchor, `(anchors,)`: anchors of the batch * sums / sum(number)."""
        return self.sums * share_per_term(batch_sum(self.total, pairs), num_anchors_of_batch(pairs))

    @property
    def total(self) -> Tensor:
        """The number of terms of these anchors."""
        return ops.sum(ops.cast(self.number, self.sums.dtype))


def share_per_term(total: Tensor, num_anchors: Any) -> Tensor:
    """The factor of the sums of a `BatchMean`, whose batch has this total number of terms."""
    return ops.cast(num_anchors, total.dtype) / ops.maximum(total, 1.0)


def batch_sum(term: Tensor, pairs: Pairs, *, has_gradient: bool = False) -> Tensor:
    """The sum of a term of these anchors over all anchors of the batch.

    Example:

        >>> def share(pairs):  # a loss: the share of an anchor in the positives of the batch
        ...     positives = ops.sum(pairs.positive, axis=1)
        ...     return positives / tfdml.pairs.batch_reductions.batch_sum(ops.sum(positives), pairs)
        >>> loss = tfdml.losses.PairLoss(share, anchors_per_block=2, reduction="none")
        >>> np.asarray(loss([0, 0, 0, 1, 1], np.eye(5))).tolist()  # 2, 2, 2, 1, 1 of 8, also in blocks of two anchors
        [0.25, 0.25, 0.25, 0.125, 0.125]

    Args:
        term: any shape, 0 for anchors without pairs.
        has_gradient: False for a constant, such as a number of pairs. A gradient takes another pass over the blocks.
    """
    slope = (lambda total, term: 1.0) if has_gradient else None
    return _reduced(term, pairs, Reduction(ops.add, 0.0, slope))


def batch_log_add_exp(term: Tensor, pairs: Pairs) -> Tensor:
    """log(sum(exp(term))) over all anchors of the batch, with gradients; the term is -inf for a sum of nothing."""
    return _reduced(term, pairs, Reduction(ops.logaddexp, -float("inf"), _share))


def _share(total, term):
    """The share of a term in a sum of exponentials, 0 in an empty sum."""
    return ops.where(total == -float("inf"), 0.0, ops.exp(term - ops.where(total == -float("inf"), 0.0, total)))


def batch_max(term: Tensor, pairs: Pairs) -> Tensor:
    """The maximum of a term of these anchors over all anchors of the batch, without gradient."""
    return _reduced(term, pairs, Reduction(ops.maximum, -float("inf")))


def batch_largest(values: Tensor, k: int, pairs: Pairs) -> Tensor:
    """The k largest values of the whole batch, `(k,)` ascending, from the k largest values of this block."""
    return _reduced(values, pairs, Reduction(lambda a, b: ops.sort(ops.concatenate([a, b]))[-k:], -float("inf")))


def batch_rows(rows: Tensor, pairs: Pairs, *, has_gradient: bool = True) -> Tensor:
    """A row for every anchor of the batch, from the rows `(anchors, ...)` of these anchors, floats with a gradient."""
    block = pairs.block
    if block is None:
        return rows
    mask = ops.reshape(ops.cast(block.is_valid, rows.dtype), (-1, *[1] * (len(rows.shape) - 1)))
    shape = (block.num_anchors, *rows.shape[1:])
    return batch_sum(scatter(block.rows[:, None], mask * rows, shape), pairs, has_gradient=has_gradient)


def _reduced(term, pairs, reduction):
    result = term if pairs.block is None else pairs.block.reductions.request(term, reduction)
    return ops.stop_gradient(result) if reduction.slope is None else result


def of_references(function: Callable[[Tensor], Tensor], pairs: Pairs, *, has_gradient: bool = False) -> Tensor:
    """A function of the references: once for all blocks of a batch, as is its gradient if it has one."""
    references = pairs.reference_embeddings if has_gradient else ops.stop_gradient(pairs.reference_embeddings)
    if pairs.block is None:
        value = function(references)
    else:
        value = pairs.block.reductions.request_shared(lambda: function(references), has_gradient=has_gradient)
    return value if has_gradient else ops.stop_gradient(value)


def rows_of_batch(pairs: Pairs) -> Tensor:
    """The row of each anchor in its batch, `(anchors,)`."""
    return ops.arange(ops.shape(pairs.positive)[0]) if pairs.block is None else pairs.block.rows


def num_anchors_of_batch(pairs: Pairs) -> Any:
    """Number of anchors of the batch, also of a block of it."""
    return ops.shape(pairs.positive)[0] if pairs.block is None else pairs.block.num_anchors


def is_batch_with_itself(pairs: Pairs) -> bool:
    """Whether the references are all anchors of the batch, also of a block of it."""
    return pairs.is_self if pairs.block is None else pairs.block.is_self


def require_whole_batch(pairs: Pairs, what: str, reason: str) -> None:
    """Raise the ValueError of a loss or a miner that cannot be computed in blocks."""
    if pairs.block is not None:
        raise ValueError(
            f"Received anchors_per_block for {what}, expected anchors_per_block=None: {reason}. Use a smaller batch."
        )
