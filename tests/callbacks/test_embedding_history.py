"""Embeddings of the same examples at several moments of a run."""

import keras
import numpy as np
import pytest

from tests.callbacks.small import LABELS, PART, X, fit, make
from tfdml import callbacks


def test_frames_are_the_embeddings_before_training_and_after_each_epoch():
    model, history, weights = make(), callbacks.EmbeddingHistory(PART), []
    look = lambda *_: weights.append(model.get_weights())  # noqa: E731
    fit(model, history, keras.callbacks.LambdaCallback(on_train_begin=look, on_epoch_end=look))
    assert history.epochs == [0, 1, 2, 3]
    for frame, (matrix, bias) in zip(history.frames, weights, strict=True):
        np.testing.assert_allclose(frame, X @ matrix + bias, rtol=1e-5, atol=1e-6)


def test_sample_of_a_larger_set_is_the_same_in_all_frames():
    history = callbacks.EmbeddingHistory(PART, examples=5)
    model = make()
    fit(model, history, epochs=2)
    assert [len(frame) for frame in history.frames] == [5, 5, 5]
    assert history.rows.tolist() == sorted(set(history.rows.tolist()))
    np.testing.assert_array_equal(history.data.images, X[history.rows])
    np.testing.assert_array_equal(history.data.labels, LABELS[history.rows])
    np.testing.assert_allclose(history.frames[-1], model.predict(X[history.rows], verbose=0), rtol=1e-5, atol=1e-6)


def test_a_run_that_resumes_adds_its_epochs_and_one_that_begins_again_replaces_them():
    history = callbacks.EmbeddingHistory(PART)
    model = make()
    fit(model, history, epochs=2)
    fit(model, history, initial_epoch=2, epochs=4)
    assert history.epochs == [0, 1, 2, 3, 4]
    old = history.frames[0]
    fit(model, history, epochs=1)
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
