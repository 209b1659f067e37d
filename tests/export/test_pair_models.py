"""Exported models of pairs: two named inputs, one score."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tests.export.test_saved_model import png
from tfdml import datasets, export, models, search, serving

pytestmark = pytest.mark.slow  # its export takes seconds
rng = np.random.default_rng(0)
A, B = rng.integers(0, 256, (2, 5, 8, 8, 1), dtype="uint8")


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    images = keras.Input((8, 8, 1), dtype="uint8")
    x = layers.BatchNormalization()(layers.Conv2D(4, 3, activation="relu")(layers.Rescaling(1 / 255)(images)))
    branch = keras.Model(images, layers.Flatten()(x))
    return models.PairModel(keras.Sequential([layers.Dense(4, activation="relu"), layers.Dense(1)]), branch)


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    options = {"threshold": np.float32(0.25), "class_names": ["x", "y"], "on_error": "skip"}
    return export.saved_model(model, tmp_path_factory.mktemp("export") / "model", **options)


@pytest.fixture(scope="module")
def served(folder):
    return tf.saved_model.load(str(folder)).signatures


def test_every_signature_takes_both_inputs_by_name_and_returns_the_scores_of_the_model(model, served):
    expected = model.predict((A, B), verbose=0)
    assert expected.shape == (5,)
    pixels = served["serving_default"](a=tf.constant(A), b=tf.constant(B))
    assert list(pixels) == ["score"]
    np.testing.assert_allclose(pixels["score"], expected, atol=1e-5)
    np.testing.assert_allclose(served["score"](a=tf.constant(A), b=tf.constant(B))["score"], expected, atol=1e-5)
    files = {"a": tf.constant([png(image) for image in A]), "b": tf.constant([png(image) for image in B])}
    read = served["serve_bytes"](**files)
    np.testing.assert_allclose(read["score"], expected, atol=1e-5)
    assert (read["error"].numpy() == b"").all()


def test_one_pair_or_none_is_a_batch(model, served):
    one = served["serving_default"](a=tf.constant(A[:1]), b=tf.constant(B[:1]))["score"]
    np.testing.assert_allclose(one, model.predict((A[:1], B[:1]), verbose=0), atol=1e-5)
    assert served["serving_default"](a=tf.constant(A[:0]), b=tf.constant(B[:0]))["score"].shape == (0,)
    none = tf.constant([], tf.string)
    assert served["serve_bytes"](a=none, b=none)["score"].shape == (0,)


def test_a_pair_with_an_invalid_file_is_marked_and_the_others_are_answered(model, served):
    files = {"a": [png(A[0]), b"none", png(A[2])], "b": [png(B[0]), png(B[1]), b""]}
    answer = served["serve_bytes"](**{name: tf.constant(content) for name, content in files.items()})
    np.testing.assert_allclose(answer["score"][0], model.predict((A[:1], B[:1]), verbose=0)[0], atol=1e-5)
    assert (answer["score"].numpy()[1:] == 0).all()
    assert [bool(reason) for reason in answer["error"].numpy()] == [False, True, True]


def test_an_invalid_file_is_an_error_of_its_request_where_nothing_is_skipped(model, tmp_path):
    served = tf.saved_model.load(str(export.saved_model(model, tmp_path / "model"))).signatures["serve_bytes"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Received at place 1 of the batch"):
        served(a=tf.constant([png(A[0]), png(A[1])]), b=tf.constant([png(B[0]), b"none"]))


def test_a_loaded_model_scores_pairs_and_ranks_neighbors_again(model, folder):
    loaded = export.load(folder)
    assert (loaded.preprocessing.shape, loaded.class_names, loaded.search) == ((8, 8, 1), ("x", "y"), None)
    assert loaded.threshold == json.loads((folder / "assets.extra" / "threshold.json").read_text()) == 0.25
    np.testing.assert_allclose(loaded.predict_on_batch((A, B)), model.predict((A, B), verbose=0), atol=1e-5)
    neighbors = np.tile(np.arange(5), (5, 1))
    ours, expected = (search.rerank(each, A, B, neighbors, k=4) for each in (loaded, model))
    np.testing.assert_array_equal(ours[0], expected[0])
    for images, message in (
        (A, "images of type ndarray for a model of pairs, expected two batches"),
        ((A, B[:3]), "5 images in a and 3 in b, expected one of each"),
        ((A, B[..., 0]), r"b of shape \(5, 8, 8\) and type uint8, expected uint8 \(None, 8, 8, 1\)"),
    ):
        with pytest.raises(ValueError, match=message):
            loaded.predict_on_batch(images)


def test_every_signature_has_a_warm_up_request_that_names_both_inputs(folder):
    records = [record.numpy() for record in tf.data.TFRecordDataset(str(folder / "assets.extra" / WARM_UP))]
    assert len(records) == 3
    for record, name in zip(records, (b"serving_default", b"serve_bytes", b"score"), strict=True):
        assert name in record
        assert record.count(b"\n\x01a\x12") == record.count(b"\n\x01b\x12") == 1


WARM_UP = "tf_serving_warmup_requests"


def test_a_server_says_that_it_embeds_images(model, folder):
    loaded = export.load(folder)
    for each in (loaded, model):
        with pytest.raises(ValueError, match="Received a model of pairs of images, expected one that embeds images"):
            serving.application(each, loaded.preprocessing)


def test_options_that_do_not_fit_a_model_of_pairs_are_errors(model, tmp_path):
    index = search.Exact(np.eye(5))
    with pytest.raises(ValueError, match="an index for a model of pairs, expected a model that embeds images"):
        export.saved_model(model, tmp_path / "model", index=index)
    boxes = datasets.Preprocessing(size=8, channels=1, boxes=True)
    with pytest.raises(ValueError, match="a preprocessing with boxes for a model of pairs, expected one of whole"):
        export.saved_model(model, tmp_path / "model", preprocessing=boxes)
    one, other = keras.Input((8, 8, 1)), keras.Input((4, 4, 1))
    several = layers.Concatenate()([layers.Flatten()(one), layers.Flatten()(other)])
    with pytest.raises(ValueError, match=r"inputs \[\(4, 4, 1\), \(8, 8, 1\)\], expected both of one shape"):
        export.saved_model(models.PairModel(keras.Model([one, other], layers.Dense(1)(several))), tmp_path / "model")
    vectors = keras.Input((6,))
    with pytest.raises(ValueError, match=r"model of inputs \(batch, 3\), expected images"):
        export.saved_model(models.PairModel(keras.Model(vectors, layers.Dense(1)(vectors))), tmp_path / "model")
