"""Embeddings of the same examples at several moments of a run."""

import keras
import numpy as np
import pytest

from tfdml import callbacks, losses, models
from tfdml.datasets import LabeledSet

X, LABELS = np.random.default_rng(0).standard_normal((12, 3)).astype("float32"), np.arange(12) // 3
PART = LabeledSet(images=X, labels=LABELS, class_names=tuple("abcd"))


class Weights(keras.callbacks.Callback):
    """The matrix of a linear model before training and after every epoch."""

    def __init__(self):
        super().__init__()
        self.matrices = []

    def on_train_begin(self, logs=None):
        self.matrices.append(self.model.get_weights()[0])

    def on_epoch_end(self, epoch, logs=None):
        self.on_train_begin()


def linear():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3,))
    model = models.EmbeddingModel(inputs, keras.layers.Dense(2, use_bias=False)(inputs))
    model.compile("sgd", loss=losses.ContrastiveLoss(), run_eagerly=True)
    return model


def fit(history, *watch, model=None, **options):
    model = model or linear()
    model.fit(X, LABELS, verbose=0, callbacks=[history, *watch], **options)
    return model


def test_frames_are_the_embeddings_before_training_and_after_each_epoch():
    history, weights = callbacks.EmbeddingHistory(PART), Weights()
    fit(history, weights, epochs=3)
    assert history.epochs == [0, 1, 2, 3]
    for frame, matrix in zip(history.frames, weights.matrices, strict=True):
        np.testing.assert_allclose(frame, X @ matrix, rtol=1e-5, atol=1e-6)


def test_sample_of_a_larger_set_is_the_same_in_all_frames():
    history = callbacks.EmbeddingHistory(PART, examples=5)
    model = fit(history, epochs=2)
    assert [len(frame) for frame in history.frames] == [5, 5, 5]
    assert history.rows.tolist() == sorted(set(history.rows.tolist()))
    np.testing.assert_array_equal(history.data.images, X[history.rows])
    np.testing.assert_array_equal(history.data.labels, LABELS[history.rows])
    np.testing.assert_allclose(history.frames[-1], model.predict(X[history.rows], verbose=0), rtol=1e-5, atol=1e-6)


def test_a_run_that_resumes_adds_its_epochs_and_one_that_begins_again_replaces_them():
    history = callbacks.EmbeddingHistory(PART)
    model = fit(history, epochs=2)
    fit(history, model=model, initial_epoch=2, epochs=4)
    assert history.epochs == [0, 1, 2, 3, 4]
    old = history.frames[0]
    fit(history, model=model, epochs=1)
    assert history.epochs == [0, 1]
    assert not np.allclose(history.frames[0], old)  # the trained model is where the new run begins


@pytest.mark.parametrize(
    ("make_it", "message"),
    [
        (lambda: callbacks.EmbeddingHistory(X), "data of type ndarray, expected a labeled set"),
        (lambda: callbacks.EmbeddingHistory(PART.take([])), "a set without examples"),
        (lambda: callbacks.EmbeddingHistory(PART, examples=0), "examples=0"),
    ],
)
def test_what_is_wrong_is_said_at_the_call(make_it, message):
    with pytest.raises(ValueError, match=message):
        make_it()
