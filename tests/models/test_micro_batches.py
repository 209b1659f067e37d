"""Large batches in micro-batches: the gradient of the whole batch."""

import keras
import numpy as np
import pytest

from tests.backend import BACKEND, XLA, numbers
from tfdml import layers, losses, models
from tfdml.models.micro_batches import in_micro_batches

pytestmark = pytest.mark.backends

X = np.random.default_rng(0).standard_normal((24, 6)).astype("float32")
LABELS = np.arange(24) % 5
SIZE = 8
REFERENCE = {"run_eagerly": BACKEND == "tensorflow"}  # a trace less


def network(inner=list):
    """A network with two dense layers and others between them, the same at every call."""
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.layers.Dense(8, activation="relu"), *inner(), keras.layers.Dense(4, name="last")])


def model_of(inputs, outputs, loss=losses.MultiSimilarityLoss, **options):
    model = models.EmbeddingModel(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.1), loss=loss(), **options)
    return model


def in_one_pass(inner=list, **options):
    """A model of the whole batch."""
    inputs = keras.Input((6,))
    return model_of(inputs, network(inner)(inputs), **options)


def by_hand(inner=list, **options):
    """A model that calls the network on the thirds of a batch, one after the other, and keeps all activations."""
    inputs, shared = keras.Input(batch_shape=(24, 6)), network(inner)
    outputs = keras.ops.concatenate([shared(third) for third in keras.ops.split(inputs, 3)])
    return model_of(inputs, outputs, **options)


def frozen(**options):
    model = in_one_pass(lambda: [keras.layers.BatchNormalization()], **options)
    for layer in model.layers[1].layers[:2]:
        layer.trainable = False
    model.compile(keras.optimizers.SGD(0.1), loss=losses.ContrastiveLoss(), **options)
    return model


def noise():
    return [keras.layers.Dropout(0.5, seed=1), keras.layers.GaussianNoise(0.1, seed=2)]


def regularized():
    return [keras.layers.Dense(8, kernel_initializer=keras.initializers.GlorotUniform(0), kernel_regularizer="l2")]


def trained(model, epochs=3):
    history = model.fit(X, LABELS, batch_size=24, epochs=epochs, shuffle=False, verbose=0).history
    return [*map(numbers, model.variables), np.array(history["loss"])]


def assert_close(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def assert_same_training(one, other, epochs=3):
    assert_close(trained(one, epochs), trained(other, epochs))


SAME = {  # the reference, and its options
    "a network": (in_one_pass, {}),
    "random layers draw the same in both passes, another mask in each micro-batch": (by_hand, {"inner": noise}),
    "statistics of each micro-batch": (by_hand, {"inner": lambda: [keras.layers.BatchNormalization(momentum=0.5)]}),
    "frozen layers": (frozen, {}),
    "proxies": (in_one_pass, {"loss": lambda: losses.MultiSimilarityLoss(pairing=layers.Proxies(5, seed=0))}),
    "a memory": (in_one_pass, {"loss": lambda: losses.MultiSimilarityLoss(pairing=layers.Memory(24, warm_up=1))}),
    "regularized weights": (in_one_pass, {"inner": regularized}),
}
COMPILED = [{"jit_compile": False}, {"jit_compile": XLA}, {"run_eagerly": True}]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "options"), [*((kind, {}) for kind in SAME), *(("a network", of) for of in COMPILED)])
def test_the_training_is_that_of_one_pass(kind, options):
    reference, given = SAME[kind]
    micro = in_one_pass if reference is by_hand else reference
    assert_same_training(reference(**given, **REFERENCE), micro(**given, micro_batch_size=SIZE, **options))


@pytest.mark.skipif(BACKEND != "torch", reason="on PyTorch alone, layers without a seed draw from a global state")
def test_layers_without_a_seed_draw_the_same_in_both_passes():
    inputs = keras.Input((6,))
    dense = keras.layers.Dense(4, use_bias=False)
    network = keras.Model(inputs, dense(keras.layers.Dropout(0.5)(inputs)))
    total = keras.ops.sum(in_micro_batches(network, keras.ops.convert_to_tensor(X), SIZE))
    total.backward()
    product = keras.ops.sum(dense.kernel.value * dense.kernel.value.grad)  # the total is linear in the kernel
    np.testing.assert_allclose(numbers(product), numbers(total), rtol=1e-5)


@pytest.mark.slow
def test_several_inputs_and_outputs_are_divided_together():
    def model(**options):
        keras.utils.set_random_seed(0)
        inputs = {"a": keras.Input((6,), name="a"), "b": keras.Input((6,), name="b")}
        both = inputs["a"] + 2 * inputs["b"]
        outputs = [keras.layers.Dense(4, name="one")(both), keras.layers.Dense(3, name="two")(both)]
        return model_of(inputs, outputs, lambda: [losses.ContrastiveLoss(), losses.NTXentLoss()], **options)

    one, other = model(), model(micro_batch_size=SIZE)
    for each in (one, other):
        each.train_on_batch({"a": X, "b": X[::-1].copy()}, [LABELS, LABELS])
    for a, b in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


@pytest.mark.slow
def test_half_precision_trains_in_micro_batches():
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        values = trained(in_one_pass(micro_batch_size=SIZE))
    finally:
        keras.config.set_dtype_policy(policy)
    assert values[-1][-1] < values[-1][0]


def test_evaluation_and_prediction_take_any_batch():
    model = in_one_pass(micro_batch_size=SIZE)
    assert model.predict(X[:5], verbose=0).shape == (5, 4)
    assert np.isfinite(model.evaluate(X[:5], LABELS[:5], verbose=0))
    trained(model, epochs=1)
    assert np.isfinite(model.evaluate(X[:5], LABELS[:5], verbose=0))


@pytest.mark.slow
def test_a_model_from_a_file_trains_in_micro_batches(tmp_path):
    model = in_one_pass(lambda: [keras.layers.BatchNormalization()], micro_batch_size=SIZE)
    model.save(tmp_path / "model.keras")
    assert_same_training(model, keras.saving.load_model(tmp_path / "model.keras"), epochs=1)


def test_activities_that_are_regularized_are_refused():
    with pytest.raises(ValueError, match=r"layers dense_\d+ have an activity_regularizer, expected none"):
        in_one_pass(lambda: [keras.layers.Dense(8, activity_regularizer="l2")], micro_batch_size=SIZE)


def test_a_batch_that_is_not_a_multiple_is_refused():
    with pytest.raises(ValueError, match=r"Received a batch of 24 rows .* expected a multiple of 7"):
        trained(in_one_pass(micro_batch_size=7))
    with pytest.raises(ValueError, match="Received micro_batch_size=0, expected a whole number of at least 1"):
        in_one_pass(micro_batch_size=0)
