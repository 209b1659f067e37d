"""Scores of pairs of rows: those of the model on these rows, in blocks, of arrays and of sets."""

import re

import keras
import numpy as np
import pytest

from tfdml import models
from tfdml.datasets import LabeledSet
from tfdml.embedding import pair_scores

X = np.arange(40, dtype="float32").reshape(20, 2)


class Difference:
    """A model whose score is the difference of the first numbers; it remembers the sizes of its inputs."""

    def __init__(self):
        self.sizes = []

    def predict(self, pair, batch_size, verbose):
        self.sizes.append((len(pair[0]), batch_size))
        return (pair[0] - pair[1])[:, 0]


@pytest.mark.parametrize("data", [X, LabeledSet(images=X, labels=np.zeros(20, int), class_names=("a",))])
def test_pairs_are_scored_in_their_order_and_in_blocks(data):
    first, second = np.random.default_rng(0).integers(0, 20, (2, 50))
    model = Difference()
    scores = models.score_pairs(model, data, first, second, batch_size=4)
    np.testing.assert_array_equal(scores, 2.0 * (first - second))
    assert model.sizes == [(4 * pair_scores._BATCHES_PER_BLOCK, 4), (18, 4)]


def test_a_model_of_pairs_gives_the_scores_of_its_prediction():
    model = models.PairModel(keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)]))
    scores = models.score_pairs(model, X, [3, 1, 2], [0, 1, 19])
    np.testing.assert_allclose(scores, model.predict((X[[3, 1, 2]], X[[0, 1, 19]]), verbose=0), rtol=1e-6)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([0, 1], [2], "2 first and 1 second rows, expected two rows per pair"),
        ([], [], "expected (n,) or (n, 1) with at least one id"),
        ([0], [20], "rows from 0 to 20, expected 0 to 19"),
        ([-1], [0], "rows from -1 to 0, expected 0 to 19"),
    ],
)
def test_other_rows_are_errors(first, second, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        models.score_pairs(Difference(), X, np.array(first, int), np.array(second, int))
