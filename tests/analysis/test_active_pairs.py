"""Shares of pairs with a weight, against losses whose weights are known."""

import numpy as np
import pytest

from tests.backend import fewer_on_jax
from tests.oracles import scores_of, unit
from tfdml import analysis, losses, miners
from tfdml.pairs import consecutive_pairs

on_every_backend = pytest.mark.backends

RNG = np.random.default_rng(0)
LABELS = np.repeat(np.arange(12), 4)
CENTERS = RNG.standard_normal((12, 16))[LABELS]
NOISE = RNG.standard_normal((48, 16))
POSITIVE = (LABELS[:, None] == LABELS) & ~np.eye(48, dtype=bool)
NEGATIVE = LABELS[:, None] != LABELS


def distances(x):
    return -scores_of(unit(x), unit(x), "euclidean")


# From classes that overlap to classes of points that are almost one, where similarities are all but singular.
@on_every_backend
@pytest.mark.parametrize("spread", fewer_on_jax([1.5, 0.5, 0.01]))
@pytest.mark.parametrize("normalize", fewer_on_jax(["active", "all"]))
def test_the_margin_loss_acts_on_pairs_on_the_wrong_side_of_its_boundary(spread, normalize):
    x = CENTERS + spread * NOISE
    found = analysis.active_pairs(losses.MarginLoss(normalize=normalize), x, LABELS)
    d = distances(x)
    assert found.positive == (d[POSITIVE] > 1.0).mean()
    assert found.negative == (d[NEGATIVE] < 1.4).mean()


def test_triplets_that_stand_well_are_of_inactive_pairs():
    x = CENTERS + 0.9 * NOISE
    d, positive, negative = distances(x) ** 2, np.zeros((48, 48), bool), np.zeros((48, 48), bool)
    for a in range(48):
        for p in np.flatnonzero(POSITIVE[a]):
            for n in np.flatnonzero(NEGATIVE[a]):
                if d[a, p] - d[a, n] + 0.2 > 0:
                    positive[a, p] = negative[a, n] = True
    found = analysis.active_pairs(losses.TripletLoss(), x, LABELS)
    assert found.positive == pytest.approx((positive | positive.T)[POSITIVE].mean())
    assert found.negative == pytest.approx((negative | negative.T)[NEGATIVE].mean())
    assert 0 < found.negative < 1


@on_every_backend
def test_a_miner_that_keeps_one_pair_leaves_one_active():
    def keep(pairs):
        one = np.zeros((48, 48))
        one[0, [1, 40]] = 1
        return pairs.scale(positive=one, negative=one)

    found = analysis.active_pairs(losses.CosineContrastiveLoss(threshold=-1.0, miner=keep), CENTERS + NOISE, LABELS)
    assert found == (2 / POSITIVE.sum(), 2 / NEGATIVE.sum())


@pytest.mark.parametrize(
    "make",
    [
        lambda: losses.MarginLoss(miner=miners.DistanceWeighted(seed=0)),
        lambda: losses.TripletLoss(negatives=miners.DistanceWeightedNegatives(seed=0)),
    ],
    ids=["miner", "selector of negatives"],
)
def test_what_goes_by_the_dimension_sees_that_of_the_embeddings(monkeypatch, make):
    seen = []
    monkeypatch.setattr(miners.distance_weighted, "require_dimension", seen.append)
    assert 0 < analysis.active_pairs(make(), CENTERS + NOISE, LABELS).negative < 1
    assert set(seen) == {16}


def test_pairs_that_a_list_of_pairs_passes_over_are_not_active():
    loss = losses.CosineContrastiveLoss(threshold=-1.0, pairing=consecutive_pairs)
    assert analysis.active_pairs(loss, CENTERS + NOISE, LABELS) == (24 * 2 / POSITIVE.sum(), 0.0)


@on_every_backend
def test_a_match_says_what_is_positive():
    loss = losses.MarginLoss(match=lambda a, b: a[:, None] // 10 == b // 10)
    found = analysis.active_pairs(loss, CENTERS + NOISE, 10 * LABELS + np.arange(48) % 10)
    assert found == analysis.active_pairs(losses.MarginLoss(), CENTERS + NOISE, LABELS)


def test_the_scale_of_a_loss_does_not_matter():
    def tiny(labels, x):
        return 1e-12 * losses.MarginLoss()(labels, x)

    assert analysis.active_pairs(tiny, CENTERS + NOISE, LABELS) == analysis.active_pairs(
        losses.MarginLoss(), CENTERS + NOISE, LABELS
    )


@pytest.mark.parametrize("labels", [np.zeros(6, int), np.arange(6), np.zeros(1, int)])
def test_where_there_are_no_such_pairs_the_share_is_0(labels):
    found = analysis.active_pairs(losses.CosineContrastiveLoss(threshold=-1.0), NOISE[: len(labels)], labels)
    assert found.positive == (len(set(labels)) < len(labels))
    assert found.negative == (len(set(labels)) > 1)


def test_a_loss_of_nothing_has_no_active_pairs():
    loss = losses.CosineContrastiveLoss(miner=lambda p: p.scale(positive=0.0, negative=0.0))
    assert analysis.active_pairs(loss, NOISE, LABELS) == (0.0, 0.0)
