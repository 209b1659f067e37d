"""TensorBoard's projector shows the epochs of a run, from the frames of `EmbeddingHistory`."""

import json
from types import SimpleNamespace

import keras
import numpy as np
import tensorflow as tf
from tensorboard.plugins.projector import projector_plugin
from werkzeug.test import Client

from tfdml import callbacks, losses, models, visualize
from tfdml.datasets import LabeledSet

LABELS = np.arange(11) // 3
IMAGES = (20 * np.arange(11)[:, None, None, None] + np.zeros((1, 8, 8, 3))).astype("uint8")
PART = LabeledSet(images=IMAGES, labels=LABELS, class_names=("ant", "bee", "cat", "dog"))


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


def test_tensorboard_shows_every_epoch(tmp_path):
    inputs = keras.Input((8, 8, 3), dtype="uint8")
    x = keras.layers.Flatten()(keras.layers.Rescaling(1 / 255)(inputs))
    model = models.EmbeddingModel(inputs, keras.layers.Dense(3)(x))
    model.compile("adam", loss=losses.MultiSimilarityLoss(), run_eagerly=True)
    history = callbacks.EmbeddingHistory(PART)
    model.fit(IMAGES, LABELS, verbose=0, callbacks=[history])
    frames = {f"epoch_{epoch}": frame for epoch, frame in zip(history.epochs, history.frames, strict=True)}
    get = client(visualize.projector(tmp_path, frames, history.data, thumbnail=4))
    assert json.loads(get("runs")) == ["."]
    shown = json.loads(get("info"))["embeddings"]
    assert [entry["tensorName"] for entry in shown] == ["epoch_0", "epoch_1"]
    for entry, expected in zip(shown, history.frames, strict=True):
        assert entry["tensorShape"] == [11, 3]
        assert entry["sprite"]["singleImageDim"] == [4, 4]
        found = np.frombuffer(get("tensor", name=entry["tensorName"]), np.float32).reshape(11, 3)
        np.testing.assert_array_equal(found, expected)  # to the last bit
    assert get("metadata", name="epoch_0").decode().splitlines()[:2] == ["class\trow", "ant\t0"]
    assert tf.io.decode_png(get("sprite_image", name="epoch_0")).shape == (16, 16, 3)  # a square of 4 x 4 thumbnails
