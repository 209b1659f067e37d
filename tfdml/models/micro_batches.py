"""The outputs of a network for a large batch, in the memory of a small one."""

from typing import Any

import keras
from keras import ops

from tfdml._core.backends import custom_gradient, loop, repeatable_draws, vector_jacobian
from tfdml._core.checks import require


def in_micro_batches(network: keras.Model, inputs: Any, size: int) -> Any:
    """The outputs of a network in training mode, computed `size` rows at a time, with the gradient of the whole batch.

    Forward, no activations are kept. Backward, each micro-batch m is computed again, with the same random numbers, and
    its gradient is added: dL/dw = sum_m (dy_m/dw)^T dL/dy_m.

    Source: Gao, Zhang, Han, Callan, Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup, 2021.
    """
    micro_batches = keras.tree.map_structure(lambda x: _divided(x, size), inputs)
    frozen, state = _not_trained(network)
    call, begin = _pure(network, frozen, state, repeatable_draws()), _tensors(state)

    @custom_gradient
    def embedded(*weights):
        count, size = ops.shape(keras.tree.flatten(micro_batches)[0])[:2]
        empty = [ops.zeros((count, size, *x.shape[1:]), dtype=x.dtype) for x in network.outputs]
        outputs, states, end = _forward(call, weights, micro_batches, begin, empty)

        def gradient(*upstream):
            upstream = keras.tree.flatten(upstream)[: len(outputs)]
            return _backward(call, weights, micro_batches, states, upstream)

        return [*outputs, *end], gradient

    values = embedded(*_tensors(network.trainable_variables))
    outputs = [ops.reshape(x, (-1, *x.shape[2:])) for x in values[: len(network.outputs)]]
    for variable, value in zip(state, values[len(outputs) :], strict=True):
        variable.assign(value)
    return keras.tree.pack_sequence_as(network.output, outputs)


def _divided(x, size):
    rows = x.shape[0]
    require(
        rows is None or rows % size == 0,
        f"a batch of {rows} rows with micro_batch_size={size}",
        f"a multiple of {size} rows: choose another batch size or another micro_batch_size",
    )
    return ops.reshape(x, (-1, size, *x.shape[1:]))


def _not_trained(network):
    """The frozen weights, and the variables that a call may change: statistics and seeds."""
    weights = {id(variable) for layer in network._flatten_layers() for variable in layer._trainable_variables}
    by_training: dict[bool, list] = {True: [], False: []}
    for variable in network.non_trainable_variables:
        by_training[id(variable) in weights].append(variable)
    return by_training[True], by_training[False]


def _tensors(variables):
    return [ops.copy(variable) for variable in variables]


def _pure(network, frozen, state, draws_of):
    """The network as a function of the number of a micro-batch, weights, state and inputs: outputs and state."""
    constants = list(zip(frozen, _tensors(frozen), strict=True))

    def call(number, weights, before, micro_batch):
        values = [*zip(network.trainable_variables, weights, strict=True), *zip(state, before, strict=True)]
        with draws_of(number), keras.StatelessScope(state_mapping=constants + values) as scope:
            outputs = keras.tree.flatten(network(micro_batch, training=True))
        return outputs, [scope.get_current_value(variable) for variable in state]

    return call


def _forward(call, weights, micro_batches, begin, empty):
    """The outputs of all micro-batches, the state before each, and the state after the last."""
    count = ops.shape(empty[0])[0]
    states = [ops.zeros((count, *x.shape), dtype=x.dtype) for x in begin]

    def step(number, values):
        outputs, states, before = values
        results, after = call(number, weights, before, _at(micro_batches, number))
        return _put(outputs, number, results), _put(states, number, before), after

    return loop(count, step, (empty, states, begin))


def _backward(call, weights, micro_batches, states, upstream):
    def add(number, total):
        micro_batch, before = _at(micro_batches, number), _at(states, number)
        gradients = vector_jacobian(
            lambda *values: call(number, values, before, micro_batch)[0], weights, _at(upstream, number)
        )
        return [one + other for one, other in zip(total, gradients, strict=True)]

    return loop(ops.shape(upstream[0])[0], add, [ops.zeros_like(weight) for weight in weights])


def _at(stacked, number):
    return keras.tree.map_structure(lambda x: x[number], stacked)


def _put(stacked, number, values):
    """The stacks with `values` at a place."""
    return [
        ops.slice_update(x, [number, *[0] * (len(x.shape) - 1)], value[None])
        for x, value in zip(stacked, values, strict=True)
    ]
