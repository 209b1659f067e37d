"""Reductions over the whole batch, for losses that are computed in blocks of anchors.

A large batch is compared a block of anchors at a time. What a loss or a miner needs of all anchors, such as a number of
pairs to divide by, it takes through `batch_sum`, `batch_max`, `batch_largest` and `batch_rows`. For `Pairs` of a whole
batch they return the term itself; in a block they return the number of the whole batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tfdml._core.backends import ops, scatter
from tfdml.pairs.base import Pairs, Tensor


@dataclass(frozen=True)
class Block:
    """Which anchors of a batch `Pairs` hold.

    Attributes:
        rows: `(anchors,)`, their rows in the batch.
        is_valid: `(anchors,)` booleans, False for rows that fill up the last block.
        num_anchors: number of anchors of the batch.
        is_self: whether the references are the anchors of the batch.
        totals: the reductions over the whole batch.
    """

    rows: Tensor
    is_valid: Tensor
    num_anchors: Any
    is_self: bool
    totals: "Totals"


class Reduction(NamedTuple):
    """How terms of blocks become a number of the batch.

    Attributes:
        merge: function of two terms.
        initial: number that changes no term.
        slope: the derivative of the number by a term, a function of both; None if no gradient flows through the number.
    """

    merge: Callable[[Tensor, Tensor], Tensor]
    initial: float
    slope: Callable[[Tensor, Tensor], Tensor] | None = None


class Totals:
    """The numbers of the batch that a loss asks for in each block, in their order.

    The first unknown reduction ends the evaluation of the block: `UnknownTotal` holds its term. `values` are the known
    numbers, `terms` and `slopes` of the reductions so far: None for a number that all blocks share, with a gradient at
    the places in `shared`. `OPEN` is a sum of `open_term`, whose `factor` the values `scaled` do not have yet.
    """

    def __init__(self, values: Sequence[Tensor | None] = ()) -> None:
        self.values = list(values)
        self.terms: list[Tensor | None] = []
        self.slopes: list[Callable[[Tensor, Tensor], Tensor] | None] = []
        self.shared: list[int] = []
        self.scaled: Tensor | None = None
        self.open_term: Tensor = 0.0
        self.factor: Callable[[Tensor], Tensor] = lambda total: ops.ones_like(total)

    def next(self, term: Tensor, reduction: Reduction) -> Tensor:
        """The next number of the batch."""
        self.terms.append(term)
        self.slopes.append(reduction.slope)
        if len(self.terms) > len(self.values):
            raise UnknownTotal(term, reduction)
        return self.values[len(self.terms) - 1]

    def next_scaled(self, values: Tensor, term: Tensor, factor: Callable[[Tensor], Tensor]) -> Tensor:
        """Values times a factor of the next number, a sum; new values without the factor if the number is `OPEN`."""
        total = self.next(term, SCALE)
        if total is not OPEN:
            return values * factor(total)
        self.scaled, self.open_term, self.factor = 1.0 * values, term, factor
        return self.scaled

    def next_shared(self, function: Callable[[], Tensor], *, has_gradient: bool) -> Tensor:
        """The next number, of a function that all blocks share; computed if it is missing or None."""
        index = len(self.terms)
        self.shared += [index] * has_gradient
        if self.values[index : index + 1] in ([], [None]):
            self.values[index : index + 1] = [function()]
        self.terms.append(None)
        self.slopes.append(None)
        return self.values[index]


OPEN: Any = object()
SCALE = Reduction(ops.add, 0.0)  # the reduction that may stay open


class UnknownTotal(Exception):  # noqa: N818  # not an error: the loop over blocks catches it
    """A reduction over the batch that has to be computed first: the term of this block, and how terms are merged."""

    def __init__(self, term: Tensor, reduction: Reduction) -> None:
        super().__init__("a number of the whole batch is not known")
        self.term, self.reduction = term, reduction


class WholeBatchError(ValueError):
    """A loss or a miner that cannot be computed in blocks."""


def batch_sum(term: Tensor, pairs: Pairs, *, has_gradient: bool = False) -> Tensor:
    """The sum of a term of these anchors over all anchors of the batch.

    Example:

        >>> def share(pairs):  # a loss: the share of an anchor in the positives of the batch
        ...     positives = ops.sum(pairs.positive, axis=1)
        ...     return positives / tfdml.pairs.blocks.batch_sum(ops.sum(positives), pairs)
        >>> loss = tfdml.losses.PairLoss(share, anchors_per_block=2, reduction="none")
        >>> np.asarray(loss([0, 0, 0, 1, 1], np.eye(5))).tolist()  # 2, 2, 2, 1, 1 of 8, also in blocks of two anchors
        [0.25, 0.25, 0.25, 0.125, 0.125]

    Args:
        term: any shape, 0 for anchors without pairs.
        has_gradient: False for a constant, such as a number of pairs. A gradient takes another pass over the blocks.
    """
    slope = (lambda total, term: 1.0) if has_gradient else None
    return _reduced(term, pairs, Reduction(ops.add, 0.0, slope))


def scaled_by_batch(values: Tensor, term: Tensor, factor: Callable[[Tensor], Tensor], pairs: Pairs) -> Tensor:
    """Values `(anchors,)` times a factor of a sum over the batch, a constant, by which blocks may scale results."""
    term = ops.stop_gradient(term)
    return values * factor(term) if pairs.block is None else pairs.block.totals.next_scaled(values, term, factor)


def as_scaled(result: Tensor, values: Tensor, pairs: Pairs) -> Tensor:
    """A result that is proportional to the values, which the factor of `scaled_by_batch` may then scale instead."""
    if pairs.block is not None and pairs.block.totals.scaled is values:
        pairs.block.totals.scaled = result
    return result


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


def of_references(function: Callable[[Tensor], Tensor], pairs: Pairs, *, has_gradient: bool = False) -> Tensor:
    """A function of the references: once for all blocks of a batch, as is its gradient if it has one."""
    references = pairs.reference_embeddings if has_gradient else ops.stop_gradient(pairs.reference_embeddings)
    if pairs.block is None:
        value = function(references)
    else:
        value = pairs.block.totals.next_shared(lambda: function(references), has_gradient=has_gradient)
    return value if has_gradient else ops.stop_gradient(value)


def _reduced(term, pairs, reduction):
    number = term if pairs.block is None else pairs.block.totals.next(term, reduction)
    return ops.stop_gradient(number) if reduction.slope is None else number


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
    """Raise the error of a loss or a miner that cannot be computed in blocks."""
    if pairs.block is not None:
        raise WholeBatchError(
            f"Received anchors_per_block for {what}, expected anchors_per_block=None: {reason}. Use a smaller batch."
        )
