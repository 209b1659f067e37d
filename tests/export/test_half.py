"""Weights that float16 holds exactly take half of the bytes, and no bit of an answer changes."""

import io
import os
import subprocess
import sys
import zipfile

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tests.zoo.conftest import ABOUT, DATA, IMAGES, network
from tfdml import export, models, zoo
from tfdml.export.half import halve_weights

LOADED = """
import sys, keras, numpy, tfdml
model = keras.saving.load_model(sys.argv[1])
numpy.savez(sys.argv[2], *[keras.ops.convert_to_numpy(each) for each in model.weights])
"""


def rounded(model):
    model.set_weights([weight.astype("float16") for weight in model.get_weights()])
    return model


@pytest.fixture
def halved():
    """A network of weights that float16 holds: the smallest and the largest number, a subnormal one, and minus zero."""
    keras.utils.set_random_seed(0)
    model = rounded(network())
    model.weights[0].assign(np.resize([2.0**-24, 65504.0, 3e-6, -0.0, 0.25], model.weights[0].shape).astype("float16"))
    return model


def types(file):
    with zipfile.ZipFile(file) as archive, h5py.File(io.BytesIO(archive.read("model.weights.h5"))) as weights:
        found = {}
        weights.visititems(lambda name, item: found.update({name: getattr(item, "dtype", dict(item.attrs))}))
    return found


def exported_types(folder):
    found = tf.train.load_checkpoint(str(folder / "variables" / "variables")).get_variable_to_dtype_map()
    return {dtype.name for name, dtype in found.items() if "VARIABLE_VALUE" in name}


def test_a_saved_model_of_halves_answers_as_the_network_by_every_signature(halved, tmp_path):
    expected = halved.predict_on_batch(IMAGES)
    assert np.isfinite(expected).all()
    folder = export.saved_model(halved, tmp_path / "model")
    assert exported_types(folder) == {"float16"}
    loaded = export.load(folder)
    files = [tf.io.encode_png(image).numpy() for image in IMAGES]
    for name, images in (("serving_default", IMAGES), ("embed", IMAGES), ("serve_bytes", files)):
        found = loaded.signatures[name](images=tf.constant(images))["embedding"]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)  # kernels of another processor may round
    variables = {name: {id(each) for each in signature.variables} for name, signature in loaded.signatures.items()}
    assert variables["serving_default"] == variables["embed"] == variables["serve_bytes"]


def test_one_number_that_float16_has_not_leaves_all_weights_in_float32(halved, tmp_path):
    first, file = halved.weights[0], tmp_path / "model.keras"
    held = first.numpy()
    for value in (0.1, np.nan, 2.0**-25, 65536.0):
        first.assign(np.where(np.arange(held.size).reshape(held.shape) == 3, value, held))
        halved.save(file)
        before = file.read_bytes()
        halve_weights(file)
        assert file.read_bytes() == before, value
    assert exported_types(export.saved_model(halved, tmp_path / "model")) == {"float32"}


def test_a_network_without_weights_is_written_as_before(tmp_path):
    inputs = keras.Input((8, 8, 1))
    model = models.EmbeddingModel(inputs, layers.Flatten()(inputs))
    expected = IMAGES.reshape(len(IMAGES), -1)
    found = export.load(export.saved_model(model, tmp_path / "model")).predict_on_batch(IMAGES)
    np.testing.assert_array_equal(found, expected)


def test_scores_of_pairs_keep_their_bits(tmp_path):
    branch = keras.Sequential([keras.Input((8, 8, 1)), layers.Flatten()])
    model = rounded(models.PairModel(keras.Sequential([layers.Dense(4, activation="relu"), layers.Dense(1)]), branch))
    folder = export.saved_model(model, tmp_path / "model")
    assert exported_types(folder) == {"float16"}
    found = export.load(folder).predict_on_batch((IMAGES, IMAGES[::-1]))
    np.testing.assert_array_equal(found, model.predict_on_batch((IMAGES, IMAGES[::-1])))


def test_a_file_of_keras_has_the_same_weights_attributes_and_other_types_in_half_of_its_bytes(tmp_path):
    inputs = keras.Input((8, 8, 1))
    x = layers.Dropout(0.5, seed=70_000)(layers.Dense(9, name="whole")(layers.Flatten()(inputs)))
    model, file = models.EmbeddingModel(inputs, layers.Dense(4000)(x)), tmp_path / "model.keras"
    model.get_layer("whole").quantize("int8")
    rounded(model).save(file)
    before, size = types(file), file.stat().st_size
    halve_weights(file)
    after = types(file)
    assert {str(value) for value in before.values()} > {"float32", "int8"}
    assert after == {name: "float16" if str(value) == "float32" else value for name, value in before.items()}
    assert file.stat().st_size < 0.5 * size
    loaded = keras.saving.load_model(file)
    for one, other in zip(loaded.variables, model.variables, strict=True):
        assert one.dtype == other.dtype
        assert one.numpy().tobytes() == other.numpy().tobytes()


@pytest.mark.nightly
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_other_backends_load_the_same_bits(halved, backend, tmp_path):
    halved.save(tmp_path / "model.keras")
    halve_weights(tmp_path / "model.keras")
    command = [sys.executable, "-c", LOADED, str(tmp_path / "model.keras"), str(tmp_path / "found.npz")]
    subprocess.run(command, check=True, env=os.environ | {"KERAS_BACKEND": backend})
    for one, other in zip(np.load(tmp_path / "found.npz").values(), halved.get_weights(), strict=True):
        assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes())


@pytest.mark.slow
def test_entries_of_one_network_and_of_two_store_halves(halved, tmp_path):
    pair = models.TwoTowers(halved, rounded(network()))
    for name, model, gallery in (("one", halved, None), ("pair", pair, DATA)):
        folder = zoo.save(model, name, DATA, gallery=gallery, summary="Halves.", root=tmp_path, **ABOUT)
        assert "float32" not in map(str, types(folder / "model.keras").values())
        assert all(exported_types(file.parent) == {"float16"} for file in folder.rglob("saved_model.pb"))
        loaded = zoo.load(name, root=tmp_path)
        for one, other in zip(loaded.get_weights(), model.get_weights(), strict=True):
            assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes())
    assert zoo.evaluate("pair", root=tmp_path, data=DATA, gallery=DATA).agrees
