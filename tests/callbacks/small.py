"""A small set, a linear model, and a short `fit` with callbacks."""

import numpy as np

from tests.worlds import linear
from tfdml import losses
from tfdml.datasets import LabeledSet

X = np.random.default_rng(0).standard_normal((60, 6)).astype("float32")
LABELS = np.arange(60) // 5
NAMES = tuple("abcdefghijkl")
PART = LabeledSet(images=X, labels=LABELS, class_names=NAMES)


def make():
    return linear(losses.MultiSimilarityLoss(), features=6, run_eagerly=True)  # a few steps, not worth compiling


def fit(model, *watch, epochs=3, **options):
    return model.fit(X, LABELS, epochs=epochs, verbose=0, callbacks=list(watch), **options).history
