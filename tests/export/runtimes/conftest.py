"""One network, 300 images with copies, and their index, for all runtimes."""

from types import SimpleNamespace

import numpy as np
import pytest


@pytest.fixture(scope="session")
def model():
    import keras

    from tfdml import models

    keras.utils.set_random_seed(0)
    inputs = keras.Input((16, 16, 1))
    return models.EmbeddingModel(inputs, models.plain_cnn(inputs, dim=6, widths=(4, 8)))


@pytest.fixture(scope="session")
def images():
    """The last 20 are copies of the first."""
    levels = np.random.default_rng(0).integers(0, 256, (280, 16, 16, 1), dtype="uint8")
    return np.concatenate([levels, levels[:20]])


@pytest.fixture(scope="session")
def index(model, images):
    """What an export reads of an index, with ids that fall with the rows. Copies have the same vectors to the bit."""
    vectors = model.predict(images[:280], verbose=0)
    vectors = np.concatenate([vectors, vectors[:20]])
    return SimpleNamespace(vectors=vectors, ids=2**30 - np.arange(300), metric="cosine", metadata=None)
