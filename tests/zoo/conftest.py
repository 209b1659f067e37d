"""A folder with two entries, made once."""

import shutil

import keras
import numpy as np
import pytest

from tfdml import datasets, losses, models, zoo

LABELS = np.repeat(np.arange(6), 4)
IMAGES = (40 * LABELS[:, None, None, None] + np.random.default_rng(0).integers(0, 90, (24, 8, 8, 1))).astype("uint8")
DATA = datasets.LabeledSet(images=IMAGES, labels=LABELS, class_names="abcdef", protocol="squares/exact-cosine/v1")
ABOUT = {"recipe": "train.py", "command": "python train.py --fast", "seed": 3, "license": "CC0-1.0"}


def network(dim=4):
    inputs = keras.Input((8, 8, 1), dtype="uint8")
    return models.EmbeddingModel(inputs, models.plain_cnn(inputs, dim=dim, widths=(4,)))


@pytest.fixture(scope="session")
def trained():
    """A network after a step of training, with a loss that has weights."""
    keras.utils.set_random_seed(0)
    model = network()
    model.compile("adam", loss=losses.ArcFaceLoss(classes=6))
    model.train_on_batch(IMAGES, LABELS)
    return model


@pytest.fixture(scope="session")
def made(trained, tmp_path_factory):
    """A folder with the entries "squares" and "pair"."""
    root = tmp_path_factory.mktemp("made") / "savedmodels"
    training = {"loss": "ArcFaceLoss", "steps": 1}
    zoo.save(trained, "squares", DATA, summary="Squares.", training=training, selection="None.", root=root, **ABOUT)
    pair = models.TwoTowers(network(), network())
    zoo.save(pair, "pair", DATA, gallery=DATA, summary="Two squares.", limitations="Small.", root=root, **ABOUT)
    return root


@pytest.fixture
def root(made, tmp_path):
    """A copy of that folder, to change."""
    return shutil.copytree(made, tmp_path / "savedmodels")
