"""Files that TensorBoard's projector reads."""

import json
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorboard.plugins.projector import projector_plugin
from werkzeug.test import Client

from tfdml import callbacks, losses, models
from tfdml.datasets import LabeledSet

LABELS = np.arange(11) // 3
IMAGES = (20 * np.arange(11)[:, None, None, None] + np.zeros((1, 8, 8, 3))).astype("uint8")
NAMES = ("ant", "bee\tor\nwasp", "cat", "dog")
PART = LabeledSet(images=IMAGES, labels=LABELS, class_names=NAMES)


def make():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((8, 8, 3), dtype="uint8")
    x = keras.layers.Flatten()(keras.layers.Rescaling(1 / 255)(inputs))
    model = models.EmbeddingModel(inputs, keras.layers.Dense(3)(x))
    model.compile("adam", loss=losses.MultiSimilarityLoss(), run_eagerly=True)
    return model


def fit(*watch, model=None, **options):
    model = model or make()
    model.fit(IMAGES, LABELS, verbose=0, callbacks=list(watch), **options)
    return model


class Collect(keras.callbacks.Callback):
    """The embeddings of every epoch."""

    def __init__(self):
        super().__init__()
        self.embeddings = []

    def on_epoch_end(self, epoch, logs=None):
        self.embeddings.append(self.model.predict(IMAGES, verbose=0))


def client(folder):
    """What TensorBoard answers to a browser: a function from a route and its arguments to the content."""
    data = SimpleNamespace(list_runs=lambda *_, **__: [])
    plugin = projector_plugin.ProjectorPlugin(SimpleNamespace(data_provider=data, logdir=str(folder)))
    apps = plugin.get_plugin_apps()

    def get(route, **arguments):
        answer = Client(apps[f"/{route}"]).get("/", query_string={"run": ".", **arguments})
        assert answer.status_code == 200, answer.get_data()
        return answer.get_data()

    return get


def test_tensorboard_shows_every_epoch_with_classes_and_thumbnails(tmp_path):
    collect = Collect()
    fit(callbacks.Projector(PART, tmp_path, thumbnail=4), collect, epochs=2)
    get = client(tmp_path)
    assert json.loads(get("runs")) == ["."]
    shown = json.loads(get("info"))["embeddings"]
    assert [entry["tensorName"] for entry in shown] == ["embeddings_0002", "embeddings_0001"]
    for entry, expected in zip(shown, collect.embeddings[::-1], strict=True):
        assert entry["tensorShape"] == [11, 3]
        assert entry["sprite"]["singleImageDim"] == [4, 4]
        found = np.frombuffer(get("tensor", name=entry["tensorName"]), np.float32).reshape(11, 3)
        np.testing.assert_array_equal(found, expected)  # to the last bit
    lines = get("metadata", name="embeddings_0001").decode().splitlines()
    assert lines[0] == "class\trow"
    assert [line.split("\t") for line in lines[1:5]] == [["ant", "0"], ["ant", "1"], ["ant", "2"], ["bee or wasp", "3"]]
    assert len(lines) == 12
    sprite = tf.io.decode_png(get("sprite_image", name="embeddings_0001")).numpy()
    assert sprite.shape == (16, 16, 3)  # a square of 4 x 4 thumbnails
    for row in range(11):
        tile = sprite[4 * (row // 4) :, 4 * (row % 4) :][:4, :4]
        np.testing.assert_array_equal(tile, 20 * row)
    assert not sprite[12:, 12:].any()


def test_a_large_set_is_sampled_and_its_rows_are_named(tmp_path):
    fit(callbacks.Projector(PART, tmp_path, examples=5), epochs=1)
    rows = [int(line.split("\t")[1]) for line in (tmp_path / "metadata.tsv").read_text().splitlines()[1:]]
    assert rows == sorted(set(rows))
    assert len(rows) == 5
    x = np.loadtxt(tmp_path / "embeddings_0001.tsv")
    assert x.shape == (5, 3)


def test_examples_that_are_not_images_have_no_thumbnails(tmp_path):
    part = LabeledSet(images=IMAGES.reshape(11, -1), labels=LABELS, class_names=NAMES)
    callback = callbacks.Projector(part, tmp_path)
    callback.on_train_begin()
    assert not (tmp_path / "sprite.png").exists()
    assert (tmp_path / "metadata.tsv").exists()


def test_images_of_other_ranges_are_stretched_to_gray_levels(tmp_path):
    images = IMAGES / 100 - 1.0
    data = LabeledSet(images=images, labels=LABELS, class_names=NAMES)
    callbacks.Projector(data, tmp_path, thumbnail=8).on_train_begin()
    sprite = tf.io.decode_png((tmp_path / "sprite.png").read_bytes()).numpy()
    levels = [sprite[0, 0, 0], sprite[0, 16, 0], sprite[17, 17, 0]]  # of images 0, 2 and 10: 255 k / 10
    assert levels == [0, 51, 255]


@pytest.mark.slow
def test_every_takes_the_last_epoch_too_and_a_resumed_run_adds_its_epochs(tmp_path):
    def written():
        return sorted(int(path.stem[-4:]) for path in tmp_path.glob("embeddings_*"))

    projector = callbacks.Projector(PART, tmp_path, every=2)
    model = fit(projector, epochs=3)
    assert written() == [2, 3]
    fit(projector, model=model, initial_epoch=3, epochs=4)
    assert written() == [2, 3, 4]
    fit(projector, epochs=2)
    assert written() == [2]
    assert "0003" not in (tmp_path / "projector_config.pbtxt").read_text()


@pytest.mark.parametrize(
    ("make_it", "message"),
    [
        (lambda path: callbacks.Projector(IMAGES, path), "data of type ndarray, expected a labeled set"),
        (lambda path: callbacks.Projector(PART.take([]), path), "a set without examples"),
        (lambda path: callbacks.Projector(PART, path, every=0), "every=0"),
        (lambda path: callbacks.Projector(PART, path, examples=0), "examples=0"),
        (lambda path: callbacks.Projector(PART, path, thumbnail=9000), "thumbnail=9000"),
        (lambda path: callbacks.Projector(PART, path, thumbnail=4000), "11 examples with thumbnails of 4000 pixels"),
    ],
)
def test_what_is_wrong_is_said_at_the_call(make_it, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        make_it(tmp_path)
