"""Networks side by side: the weights of `fit`, and convolutions by taps."""

import functools

import keras
import numpy as np
import pytest

import tfdml
from tfdml import layers, losses, miners

if keras.backend.backend() != "jax":
    pytest.skip("networks side by side are compiled by JAX", allow_module_level=True)
pytestmark = pytest.mark.backends

import jax  # noqa: E402

from studies import side_by_side  # noqa: E402

LOSSES = {
    "no state": losses.MultiSimilarityLoss,
    "proxies": functools.partial(losses.CosFaceLoss, classes=6),
    "boundaries": lambda: losses.MarginLoss(boundary=layers.Boundaries(1.0, class_ids=range(6))),
    "random miner": lambda: losses.ContrastiveLoss(miner=miners.BalancedPairs(seed=3)),
}
RNG = np.random.default_rng(0)
X = RNG.integers(0, 256, (24, 9, 9, 3)).astype("uint8")
LABELS = (np.arange(24) // 4).astype("int32")
STEPS, BATCH, DIM, MULTIPLIER = 3, 12, 4, 3.0
ROWS = np.stack([np.stack([RNG.permutation(24)[:BATCH] for _ in range(2)]) for _ in range(STEPS)]).astype("int32")
RATES = np.array([[0.01, 0.02, 0.005], [0.02, 0.01, 0.001]], "float32")


def network(seed, *, normalize):
    keras.utils.set_random_seed(seed)
    inputs = keras.Input((9, 9, 3))
    x = keras.layers.Conv2D(4, 3, 2, padding="same", use_bias=False)(keras.layers.Rescaling(1 / 64)(inputs))
    x = keras.layers.ReLU(6.0)(keras.layers.BatchNormalization(momentum=0.9)(x))
    x = keras.layers.DepthwiseConv2D(5, 2, padding="same", use_bias=False)(x)
    x = keras.layers.BatchNormalization()(keras.layers.Conv2D(6, 1, padding="same", use_bias=False)(x))
    x = keras.layers.Dense(DIM)(keras.layers.Flatten()(x))
    return tfdml.models.EmbeddingModel(inputs, keras.layers.UnitNormalization()(x) if normalize else x)


def fitted(kind, number):
    """The weights of a network after `fit`."""
    model, loss = network(number, normalize=True), LOSSES[kind]()
    optimizer = keras.optimizers.Adam(float(RATES[number, 0]))
    multipliers = {layer.name: MULTIPLIER for layer in loss.layers}
    keras.utils.set_random_seed(number)
    model.compile(optimizer, loss=loss, learning_rate_multipliers=multipliers)
    for step in range(STEPS):
        optimizer.learning_rate = float(RATES[number, step])
        model.train_on_batch(X[ROWS[step, number]], LABELS[ROWS[step, number]])
    return model


def trained(kind):
    """The state of two networks, and of their losses, after all steps."""
    models = [network(number, normalize=False) for number in range(2)]
    copy = side_by_side.by_taps(models[0])
    many, states, programs = side_by_side.start([model.get_weights() for model in models], copy), [], []
    for number in range(2):
        loss = LOSSES[kind]()
        keras.utils.set_random_seed(number)
        side_by_side.build(loss, DIM)
        states.append(side_by_side.loss_start(loss))
        programs.append(jax.jit(side_by_side.loss_step(loss, normalize=True, multiplier=MULTIPLIER)))
    forward, update = jax.jit(side_by_side.forward(copy)), jax.jit(side_by_side.update(copy))
    images, labels, rows, rates = map(keras.ops.convert_to_tensor, (X, LABELS, ROWS, RATES))
    for step in range(STEPS):
        embeddings, gradients = forward(many, images, rows, step), []
        for number, program in enumerate(programs):
            states[number], gradient = program(states[number], embeddings, labels, rows, number, rates, step)
            gradients.append(gradient)
        many = update(many, images, rows, gradients, rates, step)
    return many, states


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOSSES)
def test_two_networks_at_once_have_the_weights_of_two_calls_of_fit(kind):
    many, states = trained(kind)
    for number in range(2):
        model = fitted(kind, number)
        of_network = [value[number] for value in many.weights]
        for one, other in zip([*of_network, *states[number].weights], model.trainable_variables, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-5)
        averages = [v for v in model.non_trainable_variables if "moving" in v.path]
        for one, other in zip(
            [value[number] for value in many.others if value.dtype == "float32"], averages, strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


def test_a_copy_by_taps_has_the_outputs_of_its_model():
    model = network(0, normalize=False)
    copy = side_by_side.by_taps(model)
    kinds = [type(layer) for layer in copy.layers]
    assert kinds.count(side_by_side.ByTaps) == 2
    assert kinds.count(side_by_side.DepthwiseByTaps) == 1
    np.testing.assert_allclose(copy(X), model(X), rtol=1e-4, atol=1e-4)
