"""Two networks in one model: training, sharing of weights, files, exports."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tests.backend import BACKEND, numbers
from tests.models.two_networks import (
    X,
    assert_trains_and_resumes,
    fit,
    network,
    networks_with_a_layer_inside_of_both,
    trunk,
)
from tfdml import callbacks, export, losses, metrics, models, networks, pairs
from tfdml.layers import Boundaries

LABELS = np.arange(24) // 4
DATA = (X, X[:, ::-1])


def pair_of(kind):
    """Two networks, and the number of their weights."""
    if kind == "shared":
        one = network()
        return one, one, 4
    body = trunk() if kind == "partly shared" else None
    return network(body), network(body, seed=1), 6 if body else 8


def compiled(query, gallery, **options):
    model = models.TwoTowers(query, gallery)
    loss = losses.NTXentLoss(pairing=pairs.two_towers, temperature=0.5)
    model.compile("adam", **{"loss": loss, "run_eagerly": BACKEND == "tensorflow", **options})
    return model


KINDS = pytest.mark.parametrize("kind", ["separate", "partly shared", "shared"])


@pytest.mark.backends
@KINDS
def test_its_output_is_both_embeddings_and_its_weights_are_those_of_the_towers(kind):
    query, gallery, weights = pair_of(kind)
    model = models.TwoTowers(query, gallery)
    found = numbers(model((X, X[::-1])))
    assert found.shape == (24, 2, 3)
    np.testing.assert_allclose(found[:, 0], numbers(query(X)), rtol=1e-5)
    np.testing.assert_allclose(found[:, 1], numbers(gallery(X[::-1])), rtol=1e-5)
    np.testing.assert_allclose(numbers(model.towers[1](X)), numbers(gallery(X)), rtol=1e-5)
    assert len(model.trainable_variables) == weights


@pytest.mark.slow
@pytest.mark.backends
@KINDS
def test_training_moves_every_weight_and_a_loaded_file_resumes_to_the_same_weights(kind, tmp_path):
    query, gallery, weights = pair_of(kind)
    assert_trains_and_resumes(compiled(query, gallery), DATA, LABELS, weights, tmp_path)


def test_layers_of_the_loss_are_built_and_frozen_layers_stay_frozen_in_files(tmp_path):
    query, gallery, _ = pair_of("partly shared")
    query.get_layer("trunk").trainable = False
    model = compiled(query, gallery, loss=losses.MarginLoss(boundary=Boundaries(), pairing=pairs.two_towers))
    fit(model, DATA, LABELS, 1)
    assert len(model.trainable_variables) == 5  # two heads, and the boundary
    model.save(tmp_path / "model.keras")
    assert len(keras.saving.load_model(tmp_path / "model.keras").trainable_variables) == 5


def test_multipliers_of_learning_rates_find_the_layers_of_both_towers():
    query, gallery, _ = pair_of("separate")
    model = compiled(query, gallery, learning_rate_multipliers={"trunk": 0.0})
    before = [[numbers(weight).copy() for weight in tower.trainable_variables] for tower in model.towers]
    fit(model, DATA, LABELS, 1)
    for weights, part in zip(before, model.towers, strict=True):
        moved = [bool((a != numbers(b)).any()) for a, b in zip(weights, part.trainable_variables, strict=True)]
        assert moved == [False, False, True, True]


@pytest.mark.backends
def test_queries_are_evaluated_by_the_first_tower_and_the_gallery_by_the_second():
    query, gallery, _ = pair_of("separate")
    model = compiled(query, gallery)
    evaluation = callbacks.RetrievalEvaluation((X[::2], LABELS[::2]), gallery=(X[1::2], LABELS[1::2]), k=(1, 2))
    data = (X, X), LABELS
    history = model.fit(*data, epochs=1, verbose=0, callbacks=[evaluation]).history
    sides = query.predict(X[::2], verbose=0), gallery.predict(X[1::2], verbose=0)
    expected = metrics.retrieval(sides[0], LABELS[::2], gallery=sides[1], gallery_labels=LABELS[1::2], k=(1, 2))
    assert evaluation.evaluate(model) == pytest.approx(expected)
    for name in ("recall@1", "recall@2", "map@r", "mrr"):
        assert history[f"val_{name}"][0] == pytest.approx(expected[name])


@keras.saving.register_keras_serializable("tests")
class Mixing(layers.Layer):
    """A layer that holds another, as in networks of KerasHub."""

    def build(self, shape):
        self.dense = layers.Dense(shape[-1])
        self.dense.build(shape)

    def call(self, x):
        return x + self.dense(x)


def test_lora_adapts_the_backbones_of_both_towers_which_are_saved_and_merged(tmp_path):
    def pretrained():
        images = keras.Input((4, 4, 1))
        x = layers.Conv2D(5, 1, name="pointwise")(layers.Rescaling(1 / 255)(images))
        return models.from_backbone(keras.Model(images, Mixing(name="mixing")(x)), dim=3)

    model = models.TwoTowers(pretrained(), pretrained())
    assert networks.add_lora(model, 2, alpha=6) == 2 * (2 * (1 + 5) + 2 * (5 + 5))
    names = [[variable.name for variable in tower.trainable_variables] for tower in model.towers]
    assert names == 2 * [[*2 * ["lora_kernel_a", "lora_kernel_b"], "kernel", "bias"]]
    for variable in model.trainable_variables:
        variable.assign(np.random.default_rng(1).standard_normal(variable.shape))
    expected = numbers(model((X, X)))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(numbers(loaded((X, X))), expected)
    assert len(loaded.trainable_variables) == len(model.trainable_variables)
    merged = networks.merge_lora(model)
    assert type(merged) is models.TwoTowers
    assert not [layer for layer in merged._flatten_layers() if type(layer).__name__.startswith("LoRA")]
    np.testing.assert_allclose(numbers(merged((X, X))), expected, atol=1e-5)
    gallery = networks.merge_lora(model.towers[1])  # as an export does
    np.testing.assert_allclose(numbers(gallery(X)), expected[:, 1], atol=1e-5)


@pytest.mark.slow
def test_the_best_tower_is_exported_in_training_and_both_together_are_no_export(tmp_path):
    model = compiled(*pair_of("partly shared")[:2])
    evaluation = callbacks.RetrievalEvaluation((X, LABELS), gallery=(X, LABELS), k=1)
    best = callbacks.ExportBest(tmp_path / "gallery", model=model.towers[1])
    model.fit((X, X), LABELS, epochs=1, verbose=0, callbacks=[evaluation, best])
    served = tf.saved_model.load(str(tmp_path / "gallery")).signatures["serving_default"](images=tf.constant(X))
    np.testing.assert_allclose(served["embedding"], model.towers[1](X), atol=1e-5)
    with pytest.raises(ValueError, match="not a functional model of one input and one output"):
        export.saved_model(model, tmp_path / "both")


def test_towers_may_take_different_inputs():
    vector = keras.Input((5,))
    words = models.EmbeddingModel(vector, layers.Dense(3)(vector))
    several = {name: keras.Input((2,), name=name) for name in "ab"}
    other = keras.Model(several, layers.Dense(3)(layers.Concatenate()(list(several.values()))))
    model = models.TwoTowers(words, other)
    items = {"a": np.ones((7, 2)), "b": np.zeros((7, 2))}
    found = numbers(model((np.ones((7, 5)), items)))
    np.testing.assert_allclose(found[:, 1], numbers(other(items)), rtol=1e-5)


def test_towers_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="towers of dimensions 3 and 4, expected the same dimension"):
        models.TwoTowers(network(), network(dim=4))
    with pytest.raises(ValueError, match=r"Received query=<Dense.*, expected a functional Keras model"):
        models.TwoTowers(layers.Dense(3), network())
    inputs = keras.Input((4, 4, 1))
    with pytest.raises(ValueError, match=r"gallery of outputs \[\(None, 4, 4, 1\)\], expected one output"):
        models.TwoTowers(network(), keras.Model(inputs, layers.ReLU()(inputs)))
    with pytest.raises(ValueError, match=r"share .*kernel.* inside different layers, expected towers that share whole"):
        models.TwoTowers(*networks_with_a_layer_inside_of_both())
