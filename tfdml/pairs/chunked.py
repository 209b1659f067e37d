"""Values of the anchors of a batch, computed a block of anchors at a time, with the gradient of the whole batch.

1. A loop compares one block of anchors with all references at a time, so that no matrix has all pairs of the batch.
2. Where the function requests a reduction over the batch that is not known yet, its evaluation ends (`Pending`): a loop
   over all blocks merges their terms into the result, and block 0 is evaluated again, up to the next request.
3. With all results known, one loop computes the values; those of a `BatchMean` are divided after it.
4. The gradient computes each block again: one loop for the derivative of the loss by each result that has a gradient,
   the last request first, then one loop for the gradients by embeddings and learned weights.
5. What all blocks share, such as unit vectors of the references, is computed once; the last loop adds up the
   derivative by it over the blocks, and one step after the loop follows it to the references.

Shapes, for B blocks of `size` anchors, R references, D dimensions: anchors are `(anchors, D)`, those of a block
`(size, D)`, references `(R, D)`. Pairs of a block are `(size, R)`, the largest that exists. Rows, values and gradients
of anchors in a loop are `(B, size, ...)`, filled up in the last block. Results of reductions have any shape.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras

from tfdml._core.backends import custom_gradient, loop, ops, uncompiled, value_and_vector_jacobian, vector_jacobian
from tfdml._core.checks import require
from tfdml.pairs.base import Pairs, Tensor
from tfdml.pairs.batch_reductions import BatchMean, Pending, Reductions, Results, share_per_term
from tfdml.pairs.comparison import Comparison
from tfdml.pairs.products import as_float, only_cpus

# Bytes of one matrix of pairs of a block: larger batches are compared in blocks, unless anchors_per_block says so.
BLOCK_BYTES = 2**25
BLOCK_BYTES_OF_ACCELERATORS = 2**27  # which products of few rows leave idle
# On a CPU, blocks have at most this number of anchors. Fewer keep matrices in the cache, and in memory that the next
# operation uses again; but each block adds to the gradient of all references.
ANCHORS_PER_BLOCK_ON_CPU = 512
_DRAWS_PER_BLOCK = 64  # calls of a random layer; a block that draws more repeats numbers of the next one


def block_size(anchors_per_block: int | None, comparison: Comparison | None) -> int | None:
    """Number of anchors that are compared at a time; None for a batch that is compared as a whole."""
    if comparison is None:
        received = f"anchors_per_block={anchors_per_block}"
        require(anchors_per_block is None, received, "None: this pairing compares a batch as a whole")
        return None
    if anchors_per_block is None:
        return _size_of_large_batch(comparison)
    return min(anchors_per_block, comparison.anchors.shape[0] or anchors_per_block)


def _size_of_large_batch(comparison):
    """Number of anchors of even blocks, of at most the bytes above; None for a batch that is compared as a whole.

    Whole: a batch of unknown size, of at most two such blocks, or whose pairs take less memory than the embeddings of
    its references (a memory: each block would read them all).
    """
    (anchors, dim), references = comparison.anchors.shape, comparison.reference_embeddings.shape[0]
    if None in (anchors, dim, references) or 4 * anchors * references <= max(2 * BLOCK_BYTES, 4 * references * dim):
        return None
    block_bytes, most = BLOCK_BYTES_OF_ACCELERATORS, anchors
    if only_cpus():
        block_bytes, most = BLOCK_BYTES, ANCHORS_PER_BLOCK_ON_CPU
    if 4 * anchors * references <= 2 * block_bytes:
        return None
    number = -(-anchors // min(most, max(1, block_bytes // (4 * references))))
    return -(-anchors // number)


class Blocks(NamedTuple):
    """A function of `Pairs` for blocks of `size` anchors; gradients flow to the weights of `layers`."""

    function: Callable[[Pairs], Tensor | BatchMean]  # returns `(anchors,)` values
    comparison: Comparison
    size: int
    layers: Sequence[keras.layers.Layer] = ()

    @property
    def number(self) -> Any:
        """Number of blocks, of which the last may be filled up with rows that have no pairs."""
        return (self.comparison.num_anchors + self.size - 1) // self.size


@uncompiled
def values_in_blocks(blocks: Blocks) -> Tensor:
    """The values of all anchors, `(anchors,)`, with gradients to embeddings and to weights of the layers."""
    run = _Run(blocks)

    @custom_gradient
    def values(*arguments):
        arguments = _fixed(arguments)
        reductions = run.reductions(arguments)

        def gradient(upstream):
            return run.values_and_gradients(arguments, reductions, upstream)[1]

        return run.values(arguments, reductions), gradient

    return run.ended(values(*run.arguments))


@uncompiled
def weighted_sum_in_blocks(blocks: Blocks, weights: Tensor) -> Tensor:
    """The sum of weight times value over all anchors, a scalar; weights are `(anchors,)`.

    Value and gradient take three products of anchors and references: the similarities, and the gradients by anchors and
    by references. `values_in_blocks` computes the similarities twice.
    """
    run = _Run(blocks)

    @custom_gradient
    def weighted_sum(*arguments):
        weights, *arguments = _fixed(arguments)
        values, gradients = run.values_and_gradients(arguments, run.reductions(arguments), weights)

        def gradient(upstream):
            return [ops.cast(upstream, x.dtype) * x for x in (values, *gradients)]

        return ops.sum(weights * values), gradient

    return run.ended(weighted_sum(ops.cast(weights, run.arguments[0].dtype), *run.arguments))


@uncompiled
def sum_in_blocks(blocks: Blocks) -> Tensor:
    """The sum of what the function returns for each block, without gradient; it has the shape of one result."""
    run = _Run(blocks)

    def evaluate(number):
        return run.evaluate(number, Reductions(Results()), *run.block(number, run.arguments))[0]

    zeros = ops.zeros_like(evaluate(0))
    return ops.stop_gradient(loop(blocks.number, lambda number, total: total + evaluate(number), zeros))


class _Run:
    """An evaluation of `Blocks`; `arguments` are the anchors, the references and the weights of the layers."""

    def __init__(self, blocks):
        self.blocks = blocks
        self.weights, self.seeds, constants = _variables(blocks.layers)
        self.constants = [(variable, ops.copy(variable)) for variable in constants]
        self.first_seeds = [ops.copy(seed) for seed in self.seeds]
        embeddings = blocks.comparison.anchors, blocks.comparison.reference_embeddings
        self.arguments = [*map(as_float, embeddings), *map(ops.copy, self.weights)]
        rows = ops.arange(blocks.number * blocks.size)
        self.is_valid = self._stacked(rows < blocks.comparison.num_anchors)
        self.rows = self._stacked(ops.minimum(rows, blocks.comparison.num_anchors - 1))

    def block(self, number, arguments):
        """The arguments of a block: its anchors, filled up with the last one, and what all blocks share."""
        anchors, *others = arguments
        return ops.take(anchors, self.rows[number], axis=0), *others

    def evaluate(self, number, reductions, anchors, references, *weights):
        """The values of a block, or the sums of its `BatchMean`, and the number of terms that divide them, or 0."""
        seeds = [_advanced(seed, number) for seed in self.first_seeds]
        values = [*zip(self.weights, weights, strict=True), *zip(self.seeds, seeds, strict=True), *self.constants]
        comparison, at = self.blocks.comparison, (self.rows[number], self.is_valid[number])
        with keras.StatelessScope(state_mapping=values):  # layers read these in place of their variables
            result = self.blocks.function(comparison.block(anchors, references, *at, reductions))
        reductions.is_mean = isinstance(result, BatchMean)
        return (result.sums, result.total) if reductions.is_mean else (result, ops.zeros((), dtype=result.dtype))

    def _attempt(self, number, reductions, arguments):
        """The result of `evaluate`, or the `Pending` that ended it."""
        try:
            return self.evaluate(number, reductions, *self.block(number, arguments))
        except Pending as pending:
            return pending

    def reductions(self, arguments):
        """The `Reductions` of a complete evaluation: block 0 is evaluated again after each merged result."""
        reductions = Reductions(Results())
        pending = self._attempt(0, reductions, arguments)
        while isinstance(pending, Pending):
            reductions.results.reduced.append(self._merged(arguments, reductions.results, pending))
            reductions = Reductions(reductions.results)
            pending = self._attempt(0, reductions, arguments)
        return reductions

    def _merged(self, arguments, results, pending):
        """The result of a pending reduction: the terms of all blocks, one merged into the other."""

        def merge(number, total):
            return pending.reduction.merge(total, self._attempt(number, Reductions(results), arguments).term)

        return loop(self.blocks.number, merge, ops.full_like(pending.term, pending.reduction.initial))

    def values(self, arguments, reductions):
        """The values of all anchors, in one loop."""

        def step(number, state):
            values, total = state
            block = self.evaluate(number, Reductions(reductions.results), *self.block(number, arguments))
            return _put(values, number, block[0]), total + block[1]

        zeros = self._zeros(arguments[0][:, 0])
        values, total = loop(self.blocks.number, step, (zeros, ops.zeros((), dtype=zeros.dtype)))
        return self._divided(self._unstacked(values), total, reductions)

    def _divided(self, x, total, reductions):
        """Values or gradients, after the division of a `BatchMean` by the number of terms of the batch."""
        if not reductions.is_mean:
            return x
        return ops.cast(share_per_term(total, self.blocks.comparison.num_anchors), x.dtype) * x

    def values_and_gradients(self, arguments, reductions, upstream):
        """The values of all anchors, and the gradient of sum(upstream * values) with respect to each argument."""
        weights = ops.where(self.is_valid, ops.take(upstream, self.rows), 0.0)
        results, num_shared = reductions.results, len(reductions.results.shared)
        slopes = [None] * len(results.reduced)  # the derivative of the loss by each result that has a gradient
        for index, reduction in reversed([*enumerate(reductions.requests)]):
            if reduction.slope is not None:
                slopes[index] = self._slope(index, arguments, results, weights, slopes)
        values, total, by_anchors, sums = self._last_loop(arguments, results, weights, slopes)
        by_others = sums[num_shared:]
        if num_shared:
            through_shared = self._through_shared(arguments, results, sums[:num_shared])
            by_others = [x + y for x, y in zip(by_others, through_shared, strict=True)]
        gradients = [self._divided(x, total, reductions) for x in (by_anchors, *by_others)]
        return self._divided(values, total, reductions), gradients

    def _loss(self, number, results, weights, slopes, *arguments):
        """The part of a block in the loss, sum(weights * values), and that of its terms through their results.

        A result depends on the terms of all blocks. Its slope, the derivative of the loss by it, is constant here: each
        block then has the derivative by its own terms. Returned with the values, and the number of their terms.
        """
        reductions = Reductions(results)
        values, total = self.evaluate(number, reductions, *arguments)
        requested = zip(slopes, reductions.requests, results.reduced, reductions.terms, strict=True)
        through_results = sum(_through_result(*each) for each in requested if each[0] is not None)
        return ops.sum(weights[number] * values) + through_results, values, total

    def _slope(self, index, arguments, results, weights, slopes):
        """The derivative of the loss by one result, in one loop, given the slopes of the later ones."""
        earlier, result, later = results.reduced[:index], results.reduced[index], results.reduced[index + 1 :]

        def add(number, slope):
            def loss(result):
                # Shared results may depend on this one, such as centers of classes: they are computed again.
                changed = results._replace(reduced=[*earlier, result, *later], shared=())
                return self._loss(number, changed, weights, slopes, *self.block(number, arguments))[0]

            return slope + vector_jacobian(loss, [result], ops.ones((), dtype=weights.dtype))[0]

        return loop(self.blocks.number, add, ops.zeros_like(result))

    def _last_loop(self, arguments, results, weights, slopes):
        """The values, the number of their terms, the gradient by anchors, and those by shared and other arguments."""
        anchors, *others = arguments
        others, num_shared = [*results.shared, *others], len(results.shared)
        one, zero = (ops.full((), x, dtype=anchors.dtype) for x in (1.0, 0.0))
        upstream = one, ops.zeros((self.blocks.size,), dtype=anchors.dtype), zero  # the gradient of the loss alone

        def step(number, state):
            def loss(anchors, *others):
                changed = results._replace(shared=others[:num_shared])
                return self._loss(number, changed, weights, slopes, anchors, *others[num_shared:])

            values, total, by_anchors, sums = state
            block = self.block(number, [anchors, *others])
            (_, block_values, block_total), gradients = value_and_vector_jacobian(loss, block, upstream)
            by_anchors = by_anchors if gradients[0] is None else _put(by_anchors, number, gradients[0])
            sums = [x if y is None else x + y for x, y in zip(sums, gradients[1:], strict=True)]
            return _put(values, number, block_values), total + block_total, by_anchors, sums

        zeros = self._zeros(anchors[:, 0]), zero, self._zeros(anchors), [ops.zeros_like(x) for x in others]
        values, total, by_anchors, sums = loop(self.blocks.number, step, zeros)
        return self._unstacked(values), total, self._unstacked(by_anchors), sums

    def _through_shared(self, arguments, results, upstream):
        """The gradient by the references and the weights that flows through what all blocks share."""
        anchors, *others = arguments

        def shared(*others):
            reductions = Reductions(results._replace(shared=()))
            self.evaluate(0, reductions, *self.block(0, [anchors, *others]))
            return reductions.results.shared

        return vector_jacobian(shared, others, upstream)

    def _stacked(self, rows):
        return ops.reshape(rows, (-1, self.blocks.size, *rows.shape[1:]))

    def _unstacked(self, stacked):
        return ops.reshape(stacked, (-1, *stacked.shape[2:]))[: self.blocks.comparison.num_anchors]

    def _zeros(self, rows):
        return ops.zeros((self.blocks.number, self.blocks.size, *rows.shape[1:]), dtype=rows.dtype)

    def ended(self, result):
        """The result, after the random layers have skipped the random numbers that all blocks drew."""
        for variable, first in zip(self.seeds, self.first_seeds, strict=True):
            variable.assign(_advanced(first, self.blocks.number))
        return result


def _fixed(arguments):
    """The same tensors, hidden from TensorFlow tapes around the loops: XLA refuses loops under two tapes."""
    return [ops.stop_gradient(x) for x in arguments]


def _variables(layers):
    """The trained weights of the layers, the states of their random numbers, and their other variables."""
    weights, seeds, constants = {}, {}, {}
    for layer in layers:
        trained = {id(variable) for variable in layer.trainable_variables}
        for variable in layer.variables:
            is_seed = variable.name == "seed_generator_state"
            group = weights if id(variable) in trained else seeds if is_seed else constants
            group[id(variable)] = variable
    return list(weights.values()), list(seeds.values()), list(constants.values())


def _through_result(slope, request, result, term):
    """The term of a block, times the derivative of the loss by it, held constant; 0 for a term of -inf."""
    by_term = ops.stop_gradient(slope * request.slope(result, term))
    return ops.sum(ops.where(by_term == 0, 0.0, by_term * term))  # only its gradient is used


def _advanced(seed, number):
    """The state of a random layer at the beginning of a block: the seed `(2,)`, whose second number counts draws."""
    step = ops.cast(ops.stack([number * 0, number * _DRAWS_PER_BLOCK]), seed.dtype)
    return seed + step


def _put(stacked, number, values):
    return ops.slice_update(stacked, [number, *[0] * (len(stacked.shape) - 1)], values[None])
