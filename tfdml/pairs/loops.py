"""Values of the anchors of a batch, computed a block of anchors at a time, with the gradient of the whole batch.

No pass keeps anything of the size of a block: the gradient computes every block again. A reduction over the batch
(`tfdml.pairs.blocks`) takes one pass before the values, and one more for its gradient if it has one.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras

from tfdml._core.backends import custom_gradient, loop, ops, uncompiled, value_and_vector_jacobian, vector_jacobian
from tfdml._core.checks import require
from tfdml.pairs.base import Pairs, Tensor
from tfdml.pairs.blocks import OPEN, SCALE, Totals, UnknownTotal, WholeBatchError
from tfdml.pairs.comparison import Comparison
from tfdml.pairs.products import as_float, only_cpus

# Bytes of one matrix of pairs of a block: larger batches are compared in blocks, unless anchors_per_block says so.
BLOCK_BYTES = 2**25
# The same on an accelerator, which products of few rows leave idle.
BLOCK_BYTES_OF_ACCELERATORS = 2**27
# On a CPU, blocks have at most this number of anchors. Fewer keep matrices in the cache, and in memory that the next
# operation uses again; but each block adds to the gradient of all references.
ANCHORS_PER_BLOCK_ON_CPU = 512
# Random numbers that a layer may draw in a block: each block has its own stretch of the layer's stream.
_DRAWS_PER_BLOCK = 64


def block_size(anchors_per_block: int | None, comparison: Comparison | None) -> int | None:
    """Number of anchors that are compared at a time; None for a batch that is compared as a whole."""
    if anchors_per_block is None:
        return None if comparison is None else _size_of_large_batch(comparison)
    received = f"anchors_per_block={anchors_per_block}"
    if comparison is None:
        raise WholeBatchError(f"Received {received}, expected None: this pairing compares a batch as a whole.")
    anchors = comparison.anchors.shape[0]
    expected = "at most the anchors of a batch, or None for blocks where they are needed"
    require(anchors is None or anchors_per_block <= anchors, f"{received} for a batch of {anchors} anchors", expected)
    return anchors_per_block


def _size_of_large_batch(comparison):
    """Number of anchors of even blocks of at most `BLOCK_BYTES`; None for a batch that is compared as a whole.

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
    """A function `Pairs -> (anchors,)` for blocks of `size` anchors; gradients flow to the weights of `layers`."""

    function: Callable[[Pairs], Tensor]
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
        totals = run.totals(arguments)

        def gradient(upstream):
            return run.values_and_gradients(arguments, totals, upstream)[1]

        return run.values(arguments, totals), gradient

    return run.ended(values(*run.arguments))


@uncompiled
def weighted_sum_in_blocks(blocks: Blocks, weights: Tensor) -> Tensor:
    """The sum of weight times value over all anchors, a scalar; weights are `(anchors,)`.

    Value and gradient take three products of anchors and references; `values_in_blocks` repeats the first.
    """
    run = _Run(blocks)

    @custom_gradient
    def weighted_sum(*arguments):
        weights, *arguments = _fixed(arguments)
        values, gradients = run.values_and_gradients(arguments, run.totals(arguments), weights)

        def gradient(upstream):
            return [ops.cast(upstream, x.dtype) * x for x in (values, *gradients)]

        return ops.sum(weights * values), gradient

    return run.ended(weighted_sum(ops.cast(weights, run.arguments[0].dtype), *run.arguments))


@uncompiled
def sum_in_blocks(blocks: Blocks) -> Tensor:
    """The sum of what the function returns for each block, without gradient; it has the shape of one result."""
    run = _Run(blocks)

    def add(number, total):
        return total + run.evaluate(number, run.arguments, Totals())

    return ops.stop_gradient(loop(blocks.number, add, ops.zeros_like(run.evaluate(0, run.arguments, Totals()))))


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

    def _stacked(self, rows):
        return ops.reshape(rows, (-1, self.blocks.size, *rows.shape[1:]))

    def _at(self, rows, number):
        """The rows of a block; the last anchor's row fills it up."""
        return ops.take(rows, self.rows[number], axis=0)

    def _unstacked(self, stacked):
        return ops.reshape(stacked, (-1, *stacked.shape[2:]))[: self.blocks.comparison.num_anchors]

    def evaluate(self, number, arguments, totals):
        anchors, *shared = arguments
        return self._evaluate(number, totals, self._at(anchors, number), *shared)

    def _evaluate(self, number, totals, anchors, references, *weights):
        seeds = [_advanced(seed, number) for seed in self.first_seeds]
        values = [*zip(self.weights, weights, strict=True), *zip(self.seeds, seeds, strict=True), *self.constants]
        with keras.StatelessScope(state_mapping=values):
            at = self.rows[number], self.is_valid[number]
            return self.blocks.function(self.blocks.comparison.block(*at, anchors, references, totals))

    def _first_unknown(self, number, arguments, totals):
        """The first reduction of a block that is not computed yet, or None."""
        try:
            self.evaluate(number, arguments, totals)
        except UnknownTotal as unknown:
            return unknown

    def totals(self, arguments):
        """The numbers of the batch that the function takes, as the `Totals` of a complete evaluation."""
        totals = Totals()
        while True:
            totals = Totals(totals.values)
            unknown = self._first_unknown(0, arguments, totals)
            if unknown is None:
                return totals
            opened = Totals([*totals.values, OPEN])
            with contextlib.suppress(UnknownTotal):  # of a later reduction
                if unknown.reduction is SCALE and self.evaluate(0, arguments, opened) is opened.scaled:
                    return opened
            totals.values.append(self._total(arguments, totals.values, unknown))

    def _total(self, arguments, earlier, unknown):
        def merge(number, total):
            return unknown.reduction.merge(total, self._first_unknown(number, arguments, Totals(earlier)).term)

        return loop(self.blocks.number, merge, ops.full_like(unknown.term, unknown.reduction.initial))

    def values(self, arguments, totals):
        def step(number, state):
            values, total = state
            block_totals = Totals(totals.values)
            values = _put(values, number, self.evaluate(number, arguments, block_totals))
            return values, total + block_totals.open_term

        zeros = self._zeros(arguments[0][:, 0])
        values, total = loop(self.blocks.number, step, (zeros, ops.zeros((), dtype=zeros.dtype)))
        return totals.factor(total) * self._unstacked(values)

    def values_and_gradients(self, arguments, totals, upstream):
        """The values of all anchors, and the gradient of sum(upstream * values) with respect to each argument.

        The gradient by a reduction takes a pass over the blocks. The last pass then adds to the values the terms of
        each block in the reductions. The gradient through shared numbers, such as unit vectors, follows after it.
        """
        weights = ops.where(self.is_valid, ops.take(upstream, self.rows), 0.0)
        numbers, slopes, shared = totals.values, totals.slopes, totals.shared
        gradients = [None] * len(numbers)

        def block(number, numbers, *arguments):
            totals = Totals(numbers)
            values = self._evaluate(number, totals, *arguments)
            terms = zip(gradients, slopes, numbers, totals.terms, strict=True)
            total = ops.sum(weights[number] * values) + sum(_weighted(*x) for x in terms if x[0] is not None)
            return total, values, ops.cast(totals.open_term, values.dtype)

        for i in reversed(range(len(numbers))):
            if slopes[i] is not None:
                later = [None if j in shared else x for j, x in enumerate(numbers) if j > i]
                gradients[i] = self._gradient_by_number(block, arguments, [*numbers[: i + 1], *later], i)
        anchors, *others = arguments

        def with_shared(number, anchors, *shared_and_others):
            by_index = {**dict(enumerate(numbers)), **dict(zip(shared, shared_and_others, strict=False))}
            return block(number, list(by_index.values()), anchors, *shared_and_others[len(shared) :])

        def shared_numbers(*others):
            totals = Totals([None if i in shared else x for i, x in enumerate(numbers[: shared[-1] + 1])])
            self._first_unknown(0, [anchors, *others], totals)
            return [totals.values[i] for i in shared]

        arguments = [anchors, *(numbers[i] for i in shared), *others]
        values, total, (by_anchors, *sums) = self._values_and_slopes(with_shared, arguments)
        if shared:
            through_shared = vector_jacobian(shared_numbers, others, sums[: len(shared)])
            sums = [x + y for x, y in zip(sums[len(shared) :], through_shared, strict=True)]
        values, *gradients = [ops.cast(totals.factor(total), x.dtype) * x for x in (values, by_anchors, *sums)]
        return values, gradients

    def _gradient_by_number(self, block, arguments, numbers, i):
        """The gradient of all blocks by reduction i, given the gradients by the later ones."""
        anchors, *shared = arguments

        def add(number, gradient):
            def function(x):
                return block(number, [*numbers[:i], x, *numbers[i + 1 :]], self._at(anchors, number), *shared)[0]

            return gradient + vector_jacobian(function, [numbers[i]], ops.ones((), dtype=anchors.dtype))[0]

        return loop(self.blocks.number, add, ops.zeros_like(numbers[i]))

    def _values_and_slopes(self, function, arguments):
        """All values, the sum of the open terms, and the gradient of the weighted sum by the arguments."""
        anchors, *shared = arguments
        one, zero = (ops.full((), x, dtype=anchors.dtype) for x in (1.0, 0.0))
        upstream = one, ops.zeros((self.blocks.size,), dtype=anchors.dtype), zero

        def step(number, state):
            values, total, by_anchors, sums = state
            block = [self._at(anchors, number), *shared]
            result, slopes = value_and_vector_jacobian(lambda *block: function(number, *block), block, upstream)
            by_anchors = by_anchors if slopes[0] is None else _put(by_anchors, number, slopes[0])
            sums = [x if y is None else x + y for x, y in zip(sums, slopes[1:], strict=True)]
            return _put(values, number, result[1]), total + result[2], by_anchors, sums

        zeros = self._zeros(anchors[:, 0]), zero, self._zeros(anchors), [ops.zeros_like(x) for x in shared]
        values, total, by_anchors, sums = loop(self.blocks.number, step, zeros)
        return self._unstacked(values), total, [self._unstacked(by_anchors), *sums]

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


def _weighted(gradient, slope, number, term):
    """The term of a block, times the gradient by it through a reduction, held constant; 0 for a term of -inf."""
    weights = ops.stop_gradient(gradient * slope(number, term))
    return ops.sum(ops.where(weights == 0, 0.0, weights * term))  # of a sum, compilers drop the term, not its gradient


def _advanced(seed, number):
    """The state of a random layer at the beginning of a block: the seed, and a counter of draws."""
    step = ops.cast(ops.stack([number * 0, number * _DRAWS_PER_BLOCK]), seed.dtype)
    return seed + step


def _put(stacked, number, values):
    return ops.slice_update(stacked, [number, *[0] * (len(stacked.shape) - 1)], values[None])
