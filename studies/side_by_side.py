"""Many networks of one architecture that are trained at the same time, each on its own batches and with its own loss.

For JAX. A step is three kinds of compiled programs: the embeddings of all networks, the gradient of each loss, and the
update of all networks, which computes their embeddings again. Networks are compiled once for all losses; losses are
small and compile in seconds. Weights after a step equal those of `EmbeddingModel.fit` with Adam.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import keras
import numpy as np
from keras import layers, ops

BETAS, EPSILON = (0.9, 0.999), 1e-7  # of Adam


class ByTaps(layers.Conv2D):
    """A convolution as one matrix product, which many networks at once compute as a batch of products."""

    def convolution_op(self, inputs, kernel):
        """The convolution of images, padded to the same size."""
        columns = ops.concatenate(list(_taps(inputs, self.kernel_size, self.strides)), axis=-1)
        return ops.matmul(columns, ops.reshape(kernel, (-1, kernel.shape[-1])))


class DepthwiseByTaps(layers.DepthwiseConv2D):
    """A depthwise convolution as a sum of shifted images, which many networks at once compute element by element."""

    def call(self, inputs):
        """The convolution of images, padded to the same size."""
        weights = ops.reshape(self.kernel, (-1, inputs.shape[-1]))
        taps = enumerate(_taps(inputs, self.kernel_size, self.strides))
        return functools.reduce(ops.add, (tap * weights[number] for number, tap in taps))


def _taps(images, kernel_size, strides):
    """The pixels under each place of a kernel, row after row."""
    ends = [_padding(*sizes) for sizes in zip(images.shape[1:3], kernel_size, strides, strict=True)]
    padded = ops.pad(images, [(0, 0), *(pad for pad, _ in ends), (0, 0)])
    (_, height), (_, width) = ends
    for i in range(kernel_size[0]):
        for j in range(kernel_size[1]):
            rows, columns = (slice(at, at + (number - 1) * step + 1, step) for at, number, step in
                             ((i, height, strides[0]), (j, width, strides[1])))  # fmt: skip
            yield padded[:, rows, columns]


def _padding(size, kernel, stride):
    """What "same" pads before and after, and the number of outputs."""
    number = -(-size // stride)
    both = max((number - 1) * stride + kernel - size, 0)
    return (both // 2, both - both // 2), number


def by_taps(model: keras.Model) -> keras.Model:
    """A copy of a model whose convolutions many networks at once compute fast; its weights and outputs are the same."""
    kinds = {layers.Conv2D: ByTaps, layers.DepthwiseConv2D: DepthwiseByTaps}

    def copied(layer):
        return kinds.get(type(layer), type(layer)).from_config(layer.get_config())

    copy = keras.models.clone_model(
        keras.Model(model.inputs[0], model.outputs[0]), clone_function=copied, recursive=True
    )
    copy.set_weights(model.get_weights())
    return copy


class Networks(NamedTuple):
    """The state of all networks; each array has one entry per network in front."""

    weights: list[Any]
    momentums: list[Any]
    velocities: list[Any]
    others: list[Any]  # averages of batch normalization


def start(models: Sequence[Sequence[np.ndarray]], model: keras.Model) -> Networks:
    """The state of networks with these weights, in the order of `model.weights`, before the first step."""
    stacked = {id(v): np.stack(values) for v, *values in zip(model.weights, *models, strict=True)}
    weights = [stacked[id(variable)] for variable in model.trainable_variables]
    others = [stacked[id(variable)] for variable in model.non_trainable_variables]
    return jax.device_put(Networks(weights, *_zeros(weights), others))


def _zeros(values):
    """Momentums and velocities before the first step."""
    return [[np.zeros(value.shape, np.float32) for value in values] for _ in range(2)]


def embed(model: keras.Model) -> Callable:
    """Function of networks and images: the embeddings of the same images by each, `(networks, images, dim)`."""

    def embedded(networks, images):
        def one(weights, others):
            return model.stateless_call(weights, others, images, training=False)[0]

        return jax.vmap(one)(networks.weights, networks.others)

    return embedded


def forward(model: keras.Model) -> Callable:
    """Function of networks, images, row numbers and step: the embeddings in training, `(networks, batch, dim)`.

    Row numbers are `(steps, networks, batch)`.
    """

    def embeddings(networks, images, rows, step):
        def one(weights, others, rows):
            return model.stateless_call(weights, others, images[rows], training=True)[0]

        return jax.vmap(one)(networks.weights, networks.others, rows[step])

    return embeddings


def update(model: keras.Model) -> Callable:
    """Function of networks, images, row numbers, gradients by embeddings, rates and step that returns the networks.

    Rates are `(networks, steps)`.
    """

    def updated(networks, images, rows, gradients, rates, step):
        def one(networks, rows, gradient, rate):
            def value(weights):
                embeddings, others = model.stateless_call(weights, networks.others, images[rows], training=True)
                return jnp.sum(embeddings * gradient), others

            slopes, others = jax.grad(value, has_aux=True)(networks.weights)
            adam = _adam(networks.weights, networks.momentums, networks.velocities, slopes, rate, step)
            return Networks(*adam, others)

        return jax.vmap(one)(networks, rows[step], jnp.stack(gradients), rates[:, step])

    return updated


def _adam(weights, momentums, velocities, gradients, rate, step):
    """Weights, momentums and velocities after a step of the Adam of Keras."""
    first, second = BETAS
    count = jnp.asarray(step + 1, jnp.float32)
    alpha = rate * jnp.sqrt(1 - second**count) / (1 - first**count)
    momentums = [m + (g - m) * (1 - first) for m, g in zip(momentums, gradients, strict=True)]
    velocities = [v + (g * g - v) * (1 - second) for v, g in zip(velocities, gradients, strict=True)]
    moves = (alpha * m / (jnp.sqrt(v) + EPSILON) for m, v in zip(momentums, velocities, strict=True))
    return [w - move for w, move in zip(weights, moves, strict=True)], momentums, velocities


class LossState(NamedTuple):
    """The weights of the layers of a loss, their state of Adam, and what is not trained, such as random states."""

    weights: list[Any]
    momentums: list[Any]
    velocities: list[Any]
    others: list[Any]


def loss_start(loss: Any) -> LossState:
    """The state of a loss whose layers are built, before the first step."""
    weights = [variable.value for variable in _variables(loss, "trainable_variables")]
    others = [variable.value for variable in _variables(loss, "non_trainable_variables")]
    return jax.device_put(LossState(weights, *_zeros(weights), others))


def build(loss: Any, dim: int) -> None:
    """Build the layers of a loss for embeddings of a dimension."""
    for layer in getattr(loss, "layers", ()):
        if not layer.built:
            layer.build((None,), (None, dim))


def _variables(loss, kind):
    return [variable for layer in getattr(loss, "layers", ()) for variable in getattr(layer, kind)]


def loss_step(loss: Any, *, normalize: bool, multiplier: float) -> Callable:
    """Function that takes the state of a loss and returns its next state, and the gradient by the embeddings.

    It also takes the embeddings of all networks, the labels of all images, row numbers, the number of the network of
    the loss, rates and step.

    Args:
        loss: a loss of tfdml whose layers are built.
        normalize: whether the loss sees embeddings of norm 1.
        multiplier: learning rate of the layers of the loss, as a multiple of that of the network.
    """
    trained, others = _variables(loss, "trainable_variables"), _variables(loss, "non_trainable_variables")

    def value(weights, embeddings, labels, state):
        mapping = [*zip(trained, weights, strict=True), *zip(others, state.others, strict=True)]
        with keras.StatelessScope(state_mapping=mapping) as scope:
            seen = ops.normalize(embeddings, axis=-1) if normalize else embeddings
            result = loss(labels, seen)
            _update_layers(loss, labels, seen)
        return result, [scope.get_current_value(variable) for variable in others]

    def stepped(state, embeddings, labels, rows, number, rates, step):
        gradient = jax.grad(value, argnums=(0, 1), has_aux=True)
        (slopes, by_embeddings), others = gradient(state.weights, embeddings[number], labels[rows[step, number]], state)
        rate = multiplier * rates[number, step]
        adam = _adam(state.weights, state.momentums, state.velocities, slopes, rate, step)
        return LossState(*adam, others), by_embeddings

    return stepped


def _update_layers(loss, labels, embeddings):
    """What `EmbeddingModel` does after the loss of a training step."""
    stateful = [loss, *loss.layers] if getattr(loss, "layers", ()) else []
    for updated in stateful:
        if hasattr(updated, "update"):
            updated.update(labels, embeddings)
