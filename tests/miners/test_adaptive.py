"""The share of negatives that follows the training."""

import keras
import numpy as np
import pytest

from tests.backend import numbers
from tfdml import losses, miners, models

pytestmark = pytest.mark.backends

LABELS = np.repeat(np.arange(4), 3)
CENTERS = np.eye(4, dtype="float32")[LABELS]
NOISE = np.random.default_rng(0).standard_normal((12, 4)).astype("float32")


def updated(x, share=0.5, labels=LABELS, **settings):
    miner = miners.AdaptiveNegatives(initial=share, **settings)
    miner.update(labels, x)
    return float(numbers(miner.share))


def test_the_share_grows_while_all_selected_negatives_are_hard_and_shrinks_once_all_are_easy():
    hard, easy = 0 * CENTERS, 10 * CENTERS
    assert updated(hard, rate=0.1, target=0.4) == pytest.approx(0.5 * np.exp(0.1 * 0.6))
    assert updated(easy, rate=0.1, target=0.4) == pytest.approx(0.5 * np.exp(-0.1 * 0.4))


def test_at_the_target_the_share_stays():
    x = CENTERS.copy()
    x[LABELS < 2] = 0  # classes 0 and 1 lie on each other
    # With a third of the 9 negatives, anchors at 0 keep the 3 of the other class, hard ones, and the 6 other anchors
    # the 6 at distance 1, which tie: 18 of 54 are hard.
    assert updated(x, share=1 / 3, distance="euclidean", margin=0.5, target=1 / 3) == pytest.approx(1 / 3)


def test_the_share_stays_between_the_minimum_and_one():
    assert updated(0 * CENTERS, share=0.9, rate=5.0) == 1
    assert updated(10 * CENTERS, share=0.5, rate=50.0, minimum=0.2) == pytest.approx(0.2)


@pytest.mark.parametrize("labels", [np.zeros(12, int), np.arange(12)], ids=["one class", "classes of one"])
def test_a_batch_without_triplets_changes_nothing(labels):
    assert updated(NOISE, labels=labels) == 0.5


def test_a_batch_that_is_not_finite_changes_nothing():
    x = NOISE.copy()
    x[3, 1] = np.nan
    assert updated(x) == 0.5


def families(a, b):
    return a[:, None] // 2 == b // 2


def test_match_says_which_rows_are_positives():
    x = np.repeat(np.eye(2, 4, dtype="float32"), 6, axis=0)  # families 0 and 1, far apart
    # The classes of a family lie on each other: without families, a third of the selected negatives is hard.
    assert updated(10 * x, target=0.2, match=families) < 0.5 < updated(10 * x, target=0.2)


@pytest.mark.slow
def test_a_model_updates_the_share_once_a_step_and_keeps_it(tmp_path):
    miner = miners.AdaptiveNegatives(target=1.0, rate=0.1)  # the share shrinks with every batch that has an easy pair
    inputs = keras.Input((4,))
    model = models.EmbeddingModel(inputs, keras.layers.Dense(4)(inputs))
    model.compile("sgd", loss=losses.TripletLoss(miner=miner))
    model.fit(10 * CENTERS + NOISE, LABELS, batch_size=12, epochs=3, verbose=0)
    share = float(numbers(miner.share))
    assert 0.5 * np.exp(-0.3) - 1e-6 <= share < 0.5
    model.evaluate(10 * CENTERS, LABELS, batch_size=12, verbose=0)
    assert float(numbers(miner.share)) == share
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert float(numbers(again.loss.miner.share)) == share
