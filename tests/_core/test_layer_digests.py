"""Fingerprints see each setting, weight and connection that an embedding depends on, on every backend."""

import keras
import numpy as np
import pytest

from tests.backend import BACKEND
from tfdml.models import EmbeddingModel, fingerprint
from tfdml.networks import add_lora, merge_lora

pytestmark = pytest.mark.backends

layers, ops = keras.layers, keras.ops


@keras.saving.register_keras_serializable("tests")
class Power(layers.Layer):
    """A custom layer with a setting, and with a layer in it."""

    def __init__(self, exponent=2.0, **options):
        super().__init__(**options)
        self.exponent, self.inner = exponent, layers.Dense(3, kernel_initializer="ones")

    def build(self, shape):
        self.inner.build(shape)

    def call(self, x):
        return self.inner(x) ** self.exponent

    def get_config(self):
        return {**super().get_config(), "exponent": self.exponent}


def chain(*calls):
    """A model of one call after the other."""
    x = inputs = keras.Input((6, 6, 3))
    for call in calls:
        x = call(x)
    return EmbeddingModel(inputs, x)


def dense(*units, **options):
    return [layers.Dense(number, kernel_initializer="ones", **options) for number in units]


def two_dense(*, is_exchanged):
    first, second = dense(3, 3)
    model = chain(first, second)
    kernels = np.arange(9.0).reshape(3, 3), np.arange(9.0, 18.0).reshape(3, 3)
    for layer, kernel in zip((first, second), kernels[::-1] if is_exchanged else kernels, strict=True):
        layer.kernel.assign(kernel)
    return model


def two_branches(*, is_exchanged):
    branches = layers.Dense(3, kernel_initializer="ones"), layers.Dense(3, kernel_initializer="zeros")
    return chain(lambda x: layers.Subtract()([branch(x) for branch in branches[:: -1 if is_exchanged else 1]]))


def times(factor):
    return lambda x: x * factor


DIFFERENT = {
    "a constant of normalization": [layers.Normalization(mean=mean, variance=1.0) for mean in (0.0, 5.0)],
    "constants in arrays": [layers.Normalization(mean=np.full(3, mean), variance=np.ones(3)) for mean in (0.0, 5.0)],
    "an interpolation": [layers.Resizing(4, 4, interpolation=name) for name in ("bilinear", "nearest")],
    "a height": [layers.Resizing(height, 4) for height in (4, 5)],
    "a maximum": [layers.ReLU(max_value=maximum) for maximum in (None, 6.0)],
    "a slope": [layers.LeakyReLU(negative_slope=slope) for slope in (0.1, 0.2)],
    "cropped sides": [layers.Cropping2D(sides) for sides in (1, ((2, 0), (1, 1)))],
    "a scale": [layers.Rescaling(scale) for scale in (1 / 255, 1 / 127.5)],
    "a lambda layer": [layers.Lambda(call) for call in (lambda x: x / 255, lambda x: x / 127.5)],
    "what a lambda encloses": [layers.Lambda(times(factor)) for factor in (2, 3)],
    "an activation": [dense(2, activation=function)[0] for function in (None, "relu", ops.tanh, layers.LeakyReLU(0.1))],
    "a lambda activation": [dense(2, activation=call)[0] for call in (lambda x: 2 * x, lambda x: 3 * x)],
    "a constant of an operation": [lambda x: x * 2.0, lambda x: x * 3.0, lambda x: x - 2.0, lambda x: 2.0 - x],
    "an axis of an operation": [lambda x: ops.mean(x, axis=1), lambda x: ops.mean(x, axis=2)],
    "a type of an operation": [lambda x: ops.cast(x, "int32"), lambda x: ops.cast(x, "uint8")],
    "a slice": [lambda x: x[:, 1:], lambda x: x[:, :-1]],
    "a custom setting": [Power(), Power(3.0)],
}


@pytest.mark.parametrize("kind", DIFFERENT)
def test_settings_of_layers_and_operations_change_it(kind):
    assert len({fingerprint(chain(call)) for call in DIFFERENT[kind]}) == len(DIFFERENT[kind])
    inner = [chain(call) for call in DIFFERENT[kind]]
    assert len({fingerprint(chain(model, layers.Flatten())) for model in inner}) == len(inner)


@pytest.mark.parametrize("build", [two_dense, two_branches])
def test_exchanged_weights_and_branches_change_it(build):
    assert fingerprint(build(is_exchanged=False)) != fingerprint(build(is_exchanged=True))


def sequence():
    inputs = keras.Input((5,), dtype="int32")
    x = layers.Embedding(9, 4, mask_zero=True)(inputs)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 2)(x, x, use_causal_mask=True))
    x = layers.Bidirectional(layers.LSTM(3, return_sequences=True))(x)
    return EmbeddingModel(inputs, layers.Concatenate()([layers.GRU(2)(x), ops.mean(x, axis=(1,))[:, ::2] * 0.5]))


def pictures():
    mean, variance = np.array([1.0, 2.0, 3.0]), np.ones(3)
    read = chain(layers.Normalization(mean=mean, variance=variance), layers.Rescaling(np.float32(1 / 255)))
    body = [layers.RandomFlip(), layers.SeparableConv2D(4, 3), layers.BatchNormalization(), layers.PReLU()]
    tail = [layers.Dropout(0.3), layers.SpectralNormalization(layers.Conv2D(3, 1)), layers.Activation(ops.relu)]
    return chain(read, *body, *tail, Power(2.5), layers.Flatten())


def branched():
    inputs = {name: keras.Input((3,), name=name) for name in ("b", "a")}
    shared = layers.Dense(2)
    return EmbeddingModel(inputs, {"z": shared(inputs["b"]), "y": layers.Dense(2)(shared(inputs["a"]))})


@pytest.mark.parametrize("build", [sequence, pictures, branched])
def test_files_clones_and_frozen_layers_keep_it(build, tmp_path):
    model = build()
    first = fingerprint(model)
    model.save(tmp_path / "model.keras")
    assert fingerprint(keras.saving.load_model(tmp_path / "model.keras")) == first
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    assert fingerprint(copy) == fingerprint(keras.Model(model.input, model.output)) == first
    for layer in model.layers[::2]:
        layer.trainable = False
    assert fingerprint(model) == first
    model.save(tmp_path / "frozen.keras")
    assert fingerprint(keras.saving.load_model(tmp_path / "frozen.keras")) == first


def test_a_merged_lora_and_an_untrained_one_keep_it():
    model = chain(layers.Conv2D(4, 1), layers.BatchNormalization(), layers.Flatten(), layers.Dense(3))
    first = fingerprint(model)
    add_lora(model, 2)
    assert fingerprint(model) == first
    for variable in model.trainable_variables:
        variable.assign(np.random.default_rng(0).normal(size=variable.shape))
    assert fingerprint(merge_lora(model)) == fingerprint(model) != first


def test_models_in_models_count_as_their_layers_and_training_alone_does_not():
    body = [layers.Rescaling(0.5), *dense(4, activation="relu")]
    assert fingerprint(chain(chain(*body), layers.Flatten())) == fingerprint(chain(*body, layers.Flatten()))
    idle = [[layers.Dropout(rate), layers.BatchNormalization(momentum=rate)] for rate in (0.1, 0.2)]
    assert len({fingerprint(chain(*calls)) for calls in idle}) == 1


@pytest.mark.skipif(BACKEND != "tensorflow", reason="texts are strings of TensorFlow")
def test_an_adapted_vocabulary_changes_it():
    def of(words):
        texts = keras.Input((1,), dtype="string")
        lookup = layers.TextVectorization(max_tokens=4, output_mode="multi_hot")
        lookup.adapt(words)
        return EmbeddingModel(texts, lookup(texts))

    assert fingerprint(of(["a b"])) != fingerprint(of(["a c"]))


def test_every_backend_and_version_gives_this_one():
    model = chain(
        layers.Rescaling(1 / 255), *dense(4, activation="gelu"), layers.BatchNormalization(), layers.Flatten()
    )
    assert fingerprint(model)[:16] == "00d6e616b9cb38a5"  # of indexes and exports that are stored
