"""A small set, a linear model, and a short `fit` with callbacks."""

import keras
import numpy as np

from tfdml import losses, models
from tfdml.datasets import LabeledSet

X = np.random.default_rng(0).standard_normal((60, 6)).astype("float32")
LABELS = np.arange(60) // 5
NAMES = tuple("abcdefghijkl")
PART = LabeledSet(images=X, labels=LABELS, class_names=NAMES)


def make():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((6,))
    model = models.EmbeddingModel(inputs, keras.layers.Dense(4)(inputs))
    model.compile("adam", loss=losses.MultiSimilarityLoss(), run_eagerly=True)  # a few steps, not worth compiling
    return model


def fit(model, *watch, epochs=3, **options):
    return model.fit(X, LABELS, epochs=epochs, verbose=0, callbacks=list(watch), **options).history
