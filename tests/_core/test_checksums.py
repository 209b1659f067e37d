"""Fingerprints of models: what changes them, what does not, and the refusal of another model."""

import keras
import numpy as np
import pytest

from tfdml import export, losses, models
from tfdml._core.checksums import as_fingerprint, require_same_model
from tfdml.datasets import Preprocessing
from tfdml.models import fingerprint

VIEW = Preprocessing(size=8, channels=1)


def network(*, scale=1 / 255, activation="relu", strides=2, normalized=True, name=None):
    """A small network of images; the same weights whatever its settings."""
    inputs = keras.Input((8, 8, 1))
    initializer = keras.initializers.RandomNormal(seed=1)
    x = keras.layers.Rescaling(scale)(inputs)
    options = {"padding": "same", "kernel_initializer": initializer}
    x = keras.layers.Conv2D(3, 3, strides=strides, activation=activation, **options)(x)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    x = keras.layers.Dense(4, kernel_initializer=initializer)(x)
    return models.EmbeddingModel(inputs, keras.layers.UnitNormalization()(x) if normalized else x, name=name)


def test_a_model_has_the_same_fingerprint_however_it_is_built_compiled_and_saved(tmp_path):
    model = network()
    first = fingerprint(model)
    assert len(first) == 64
    assert fingerprint(network(name="another")) == first  # with other names of layers
    assert fingerprint(keras.Model(model.inputs, model.outputs)) == first
    model.compile("adam", loss=losses.ProxyAnchorLoss(classes=3))
    model.optimizer.build(model.trainable_variables)
    assert fingerprint(model) == first
    model.save(tmp_path / "model.keras")
    assert fingerprint(keras.saving.load_model(tmp_path / "model.keras")) == first
    assert fingerprint(keras.saving.load_model(tmp_path / "model.keras", compile=False)) == first


@pytest.mark.slow
def test_an_export_carries_the_fingerprint_of_its_model_and_preprocessing(tmp_path):
    model = network()
    export.saved_model(model, tmp_path / "export", preprocessing=VIEW)
    loaded = export.load(tmp_path / "export")
    assert loaded.fingerprint == fingerprint(model, VIEW) == f"{fingerprint(model)}/{VIEW.fingerprint()}"
    assert fingerprint(loaded) == loaded.fingerprint
    other = Preprocessing(size=8, resize=9, channels=1)
    assert fingerprint(loaded, other) == fingerprint(model, other) != loaded.fingerprint


def test_weights_layers_and_their_settings_change_it():
    texts = {fingerprint(network(**options)) for options in ({}, *({name: value} for name, value in SETTINGS))}
    model = network()
    for rows in ((0,), (-1,)):  # of the first and the last weight
        weights = model.get_weights()
        for row in rows:
            weights[row] = np.nextafter(weights[row], np.float32(9))
        model.set_weights(weights)
        texts.add(fingerprint(model))
    assert len(texts) == 1 + len(SETTINGS) + 2


SETTINGS = (("scale", 1 / 127.5), ("activation", "gelu"), ("strides", 1), ("normalized", False))


def test_models_in_models_and_models_of_other_forms_have_one():
    inner = network()
    outer = keras.Sequential([keras.Input((8, 8, 1)), inner, keras.layers.Dense(2, kernel_initializer="ones")])
    first = fingerprint(outer)
    inner.layers[2].bias.assign([0.0, 1.0, 0.0])
    assert fingerprint(outer) != first

    class Plain(keras.Model):
        def __init__(self):
            super().__init__()
            self.scale = self.add_weight(shape=(), initializer="ones")
            self.dense = keras.layers.Dense(2)

        def call(self, x):
            return self.scale * self.dense(x)

    plain = Plain()
    with pytest.raises(ValueError, match="without weights yet, expected one that is built"):
        fingerprint(plain)
    plain(np.ones((1, 3)))
    first = fingerprint(plain)
    plain.scale.assign(2.0)
    assert fingerprint(plain) != first


def test_the_preprocessing_counts_by_its_pixels():
    same = [VIEW, Preprocessing(size=(8, 8), channels=1, fill=7), Preprocessing(size=8, resize=8, channels=1)]
    same += [
        Preprocessing(size=8, channels=1, max_pixels=99),
        Preprocessing(size=8, channels=1, boxes=True, margin=0.1),
    ]
    assert len({view.fingerprint() for view in same}) == 1
    others = [Preprocessing(size=8), Preprocessing(size=9, channels=1), Preprocessing(size=8, channels=1, fit="crop")]
    others += [Preprocessing(size=8, channels=1, fit="pad", fill=fill) for fill in (0, 7)]
    assert len({view.fingerprint() for view in (VIEW, *others)}) == 1 + len(others)
    model = network()
    assert fingerprint(model, lambda path: path) == fingerprint(model)


def test_a_text_or_an_object_with_a_fingerprint_states_its_model():
    class Stated:
        fingerprint = "clip-b32"

    class Unknown:
        fingerprint = None

    assert as_fingerprint("clip-b32") == as_fingerprint(Stated()) == "clip-b32"
    assert as_fingerprint(None) is as_fingerprint(Unknown()) is None
    for model, message in ((" ", "model=' '"), (3, "type int without a fingerprint"), (Unknown, "type type")):
        with pytest.raises(ValueError, match=message):
            fingerprint(model) if model is Unknown else as_fingerprint(model)


A, B, P, Q = "a" * 64, "b" * 64, "1" * 16, "2" * 16


@pytest.mark.parametrize(
    ("received", "expected", "is_same"),
    [
        (A, A, True),
        (A, None, True),
        (None, A, True),
        (A, f"{A}/{P}", True),
        (f"{A}/{P}", A, True),
        (f"{A}/{P}", f"{A}/{P}", True),
        (A, B, False),
        (f"{A}/{P}", f"{B}/{P}", False),
        (f"{A}/{P}", f"{A}/{Q}", False),
        ("models/clip", "models/dino", False),
    ],
)
def test_stated_models_are_compared(received, expected, is_same):
    if is_same:
        require_same_model("queries", received, "the index", expected)
    else:
        with pytest.raises(ValueError, match=r"expected those of \w+ .*, as of the index") as error:
            require_same_model("queries", received, "the index", expected)
        assert f"(fingerprint {received})" in str(error.value)
        assert f"(fingerprint {expected})" in str(error.value)
    require_same_model("queries", received, "the index", expected, other_model=True)


def test_the_error_names_the_model_or_the_preprocessing_in_short():
    with pytest.raises(ValueError, match=rf"queries of model {A[:12]} \(.*those of model {B[:12]},"):
        require_same_model("queries", A, "the index", B)
    with pytest.raises(ValueError, match=rf"queries of preprocessing {P[:12]} \(.*those of preprocessing {Q[:12]},"):
        require_same_model("queries", f"{A}/{P}", "the index", f"{A}/{Q}")
