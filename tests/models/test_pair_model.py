"""A model of pairs: its three forms, training, sharing of weights, files, and errors."""

import keras
import numpy as np
import pytest
from keras import layers, ops

from tests.backend import BACKEND, XLA, numbers
from tests.models.two_networks import (
    X,
    assert_trains_and_resumes,
    fit,
    network,
    networks_with_a_layer_inside_of_both,
    trunk,
)
from tfdml import losses, models

Y = np.where(np.arange(24) % 2, -1, 1)
PAIR = (X, X[::-1])


def decision(dim=6):
    inputs = keras.Input((dim,))
    return keras.Model(inputs, layers.Dense(1)(layers.Dense(4, activation="relu")(inputs)))


def two_channel():
    inputs = keras.Input((4, 4, 2), dtype="uint8")
    x = layers.Conv2D(3, 3, activation="relu")(layers.Rescaling(1 / 255)(inputs))
    return keras.Model(inputs, layers.Dense(1)(layers.Flatten()(x)))


def of_kind(kind):
    """A model, and the number of its weights."""
    keras.utils.set_random_seed(0)
    if kind == "2-channel":
        return models.PairModel(two_channel()), 4
    if kind == "siamese":
        return models.PairModel(decision(), network()), 8
    body = trunk() if kind == "partly shared" else None
    return models.PairModel(decision(), (network(body), network(body, seed=1))), 10 if body else 12


KINDS = pytest.mark.parametrize("kind", ["siamese", "pseudo-siamese", "partly shared", "2-channel"])


def compiled(model, **options):
    model.compile("adam", **{"loss": losses.PairLogisticLoss(), "run_eagerly": BACKEND == "tensorflow", **options})
    return model


@pytest.mark.backends
@KINDS
def test_its_score_is_the_decision_over_its_branches(kind):
    model, weights = of_kind(kind)
    features = [one(x) for one, x in zip(model.branches, PAIR, strict=True)] if model.branches else list(PAIR)
    expected = numbers(model.decision(ops.concatenate(features, axis=-1)))[:, 0]
    scores = numbers(model(PAIR))
    assert scores.shape == (24,)
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.predict(PAIR, verbose=0), scores, rtol=1e-4, atol=1e-5)
    assert len(model.trainable_variables) == weights
    assert [x.name for x in model.inputs] == ["a", "b"]
    assert len(model.branches) == (0 if kind == "2-channel" else 2)
    assert (kind == "siamese") == (len(set(map(id, model.branches))) == 1)


@pytest.mark.slow
@pytest.mark.backends
@KINDS
def test_training_moves_every_weight_and_a_loaded_file_resumes_to_the_same_weights(kind, tmp_path):
    model, weights = of_kind(kind)
    assert_trains_and_resumes(compiled(model), PAIR, Y, weights, tmp_path)


@pytest.mark.backends
def test_a_decision_of_two_inputs_takes_both_features_and_may_treat_them_alike():
    f, g = keras.Input((3,)), keras.Input((3,))
    symmetric = keras.Model([f, g], layers.Dense(1)(layers.Concatenate()([ops.abs(f - g), f * g])))
    model = models.PairModel(symmetric, network())
    np.testing.assert_allclose(numbers(model(PAIR)), numbers(model(PAIR[::-1])), rtol=1e-5)
    other = models.PairModel(decision(), network())
    assert np.abs(numbers(other(PAIR)) - numbers(other(PAIR[::-1]))).max() > 1e-3


def test_a_network_of_two_inputs_needs_no_branches_and_gives_maps_of_scores():
    exemplar, scene = keras.Input((2, 2, 1)), keras.Input((4, 4, 1))
    pooled = layers.Conv2D(1, 2, strides=2)(scene) * layers.Conv2D(1, 2)(exemplar)
    model = models.PairModel(keras.Model([exemplar, scene], pooled))
    assert model((X[:, :2, :2], X)).shape == (24, 2, 2)
    compiled(model, run_eagerly=False)
    labels = np.where(np.arange(4).reshape(2, 2) > 1, 1, -1) * np.ones((24, 1, 1))
    assert np.isfinite(model.evaluate((X[:, :2, :2], X), labels, verbose=0))


def test_a_sequential_decision_is_built_for_its_branches():
    model = models.PairModel(keras.Sequential([layers.Dense(4, activation="relu"), layers.Dense(1)]), network())
    assert model.decision.input.shape == (None, 6)
    built = keras.Sequential([keras.Input((4, 4, 2)), layers.Flatten(), layers.Dense(1)])
    assert models.PairModel(built)(PAIR).shape == (24,)
    assert model(PAIR).shape == (24,)


@pytest.mark.backends
def test_frozen_branches_stay_frozen_in_files_and_multipliers_find_their_layers(tmp_path):
    model, _ = of_kind("siamese")
    model.branches[0].trainable = False
    compiled(model, learning_rate_multipliers={"decision": 0.0})
    before = model.get_weights()
    fit(model, PAIR, Y)
    for a, b in zip(before, model.get_weights(), strict=True):
        if a.dtype.kind == "f":
            np.testing.assert_array_equal(a, b)
    model.save(tmp_path / "model.keras")
    assert len(keras.saving.load_model(tmp_path / "model.keras").trainable_variables) == 4


@pytest.mark.slow
@pytest.mark.backends
@pytest.mark.parametrize("kind", ["siamese", "2-channel"])
def test_fit_is_compiled_in_mixed_precision_with_a_short_last_batch(kind):
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model, _ = of_kind(kind)
    finally:
        keras.config.set_dtype_policy("float32")
    assert keras.backend.standardize_dtype(model.output.dtype) == "float32"
    compiled(model, run_eagerly=False, jit_compile=XLA)
    history = model.fit(PAIR, Y, batch_size=16, epochs=1, verbose=0).history
    assert np.isfinite(history["loss"]).all()


def test_networks_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="Received 3 branches, expected one network for both inputs, or a pair"):
        models.PairModel(decision(), [network()] * 3)
    with pytest.raises(ValueError, match=r"Received branch=<Dense.*, expected a functional Keras model"):
        models.PairModel(decision(), layers.Dense(3))
    with pytest.raises(ValueError, match=r"Received decision=<Sequential.* without branches, expected a functional"):
        models.PairModel(keras.Sequential([layers.Dense(1)]))
    with pytest.raises(ValueError, match=r"inputs \(None, 5\), expected \(None, 6\): one input for both concatenated"):
        models.PairModel(decision(5), network())
    with pytest.raises(ValueError, match=r"a network of the input \(None, 5\) without branches, expected .*2 channels"):
        models.PairModel(decision(5))
    f, g = keras.Input((3,)), keras.Input((4,))
    with pytest.raises(ValueError, match=r"inputs \(None, 3\), \(None, 4\), expected \(None, 3\), \(None, 3\)"):
        models.PairModel(keras.Model([f, g], layers.Dense(1)(layers.Concatenate()([f, g]))), network())
    with pytest.raises(ValueError, match=r"a decision of the output \(None, 2\), expected \(batch, 1\)"):
        models.PairModel(keras.Sequential([layers.Dense(2)]), network())
    x = keras.Input((3,))
    with pytest.raises(ValueError, match=r"branch of outputs \[\(None, 3\), \(None, 3\)\], expected one output"):
        models.PairModel(decision(), keras.Model(x, [x + 1, x]))
    image = keras.Input((3, 3, 3))
    with pytest.raises(ValueError, match=r"outputs \(None, 3\) and \(None, 3, 3, 3\), expected the same shape up to"):
        models.PairModel(decision(), (network(), keras.Model(image, image + 1)))
    with pytest.raises(ValueError, match=r"share .*kernel.* inside different layers, expected branches that share"):
        models.PairModel(decision(), networks_with_a_layer_inside_of_both())
