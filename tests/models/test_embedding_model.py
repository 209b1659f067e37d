"""A model that adopts the layers of its loss."""

import keras
import numpy as np
import pytest

from tests.backend import numbers
from tfdml import losses, models

pytestmark = pytest.mark.backends


@keras.saving.register_keras_serializable("tests")
class Scale(keras.layers.Layer):
    """A miner that learns: one factor on all weights."""

    def __init__(self, **options):
        super().__init__(**options)
        self.factor = self.add_weight(shape=(), initializer="ones", name="factor")

    def call(self, pairs):
        return pairs._replace(positive=pairs.positive * self.factor, negative=pairs.negative * self.factor)


def make(loss=None):
    inputs = keras.Input((3,))
    model = models.EmbeddingModel(inputs, keras.layers.Dense(2, name="dense")(inputs))
    model.compile("adam", loss=loss or losses.ContrastiveLoss(negative_margin=4.0, miner=Scale(name="scale")))
    return model


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    return rng.standard_normal((12, 3)).astype("float32"), np.arange(12) // 3


def test_fit_trains_what_the_loss_owns(batch):
    model = make()
    (layer,) = model.loss_layers
    assert any(variable is layer.factor for variable in model.trainable_variables)
    model.fit(*batch, epochs=2, verbose=0)
    assert numbers(layer.factor) != 1.0


def test_a_file_keeps_it_and_training_goes_on_as_if_nothing_had_been(batch, tmp_path):
    model = make()
    model.fit(*batch, epochs=2, batch_size=12, shuffle=False, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again) is models.EmbeddingModel
    assert numbers(again.loss_layers[0].factor) == numbers(model.loss_layers[0].factor)
    for m in (model, again):
        m.fit(*batch, epochs=2, batch_size=12, shuffle=False, verbose=0)
    for ours, theirs in zip(model.variables, again.variables, strict=True):
        np.testing.assert_array_equal(numbers(ours), numbers(theirs))
    assert numbers(again.optimizer.iterations) == 4


def test_compiling_again_lets_the_old_loss_go(batch):
    model = make()
    model.compile("adam", loss=losses.BatchHardTripletLoss())
    assert model.loss_layers == []
    assert len(model.trainable_variables) == 2
    model.fit(*batch, verbose=0)


def test_several_losses_may_share_a_layer(batch):
    inputs = keras.Input((3,))
    outputs = [keras.layers.Dense(2, name=name)(inputs) for name in "ab"]
    model, shared = models.EmbeddingModel(inputs, outputs), Scale()
    model.compile("sgd", loss=[losses.ContrastiveLoss(miner=shared), losses.MultiSimilarityLoss(miner=shared)])
    assert model.loss_layers == [shared]
    x, labels = batch
    model.fit(x, [labels, labels], verbose=0)


def test_a_model_without_loss_layers_is_a_plain_model(batch, tmp_path):
    model = make(losses.MultiSimilarityLoss())
    assert model.loss_layers == []
    model.fit(*batch, verbose=0)
    model.save(tmp_path / "plain.keras")
    again = keras.saving.load_model(tmp_path / "plain.keras")
    np.testing.assert_array_equal(again.predict(batch[0], verbose=0), model.predict(batch[0], verbose=0))


def test_an_uncompiled_model_saves_and_loads(batch, tmp_path):
    inputs = keras.Input((3,))
    model = models.EmbeddingModel(inputs, keras.layers.Dense(2)(inputs))
    model.save(tmp_path / "bare.keras")
    again = keras.saving.load_model(tmp_path / "bare.keras")
    np.testing.assert_array_equal(again.predict(batch[0], verbose=0), model.predict(batch[0], verbose=0))


def test_random_layers_go_on_where_a_file_left_them(batch, tmp_path):
    def fresh():
        keras.utils.set_random_seed(0)
        inputs = keras.Input((3,))
        x = keras.layers.Dropout(0.5)(keras.layers.GaussianNoise(0.5)(inputs))
        model = models.EmbeddingModel(inputs, keras.layers.Dense(2)(x))
        model.compile("adam", loss=losses.ContrastiveLoss(negative_margin=4.0))
        return model

    settings = {"batch_size": 12, "shuffle": False, "verbose": 0}
    whole, broken = fresh(), fresh()
    whole.fit(*batch, epochs=4, **settings)
    broken.fit(*batch, epochs=2, **settings)
    broken.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    again.fit(*batch, epochs=2, **settings)
    for ours, theirs in zip(again.weights, whole.weights, strict=True):
        np.testing.assert_array_equal(numbers(ours), numbers(theirs))
