"""The loss over all pairs of a set, against loops and against one batch of everything."""

import importlib

import numpy as np
import pytest

from tests.backend import fewer_on_jax
from tfdml import importance, losses
from tfdml.analysis import full_loss
from tfdml.importance.probabilities import group_probabilities

on_every_backend = pytest.mark.backends

MODULE = importlib.import_module("tfdml.analysis.full_loss")
LABELS = np.random.default_rng(0).permutation(np.repeat([3, 5, 9], [4, 7, 2]))
EMBEDDINGS = np.random.default_rng(1).normal(size=(13, 4)).astype("float32")
COUNTS = {3: 4, 5: 7, 9: 2}


def by_hand(g, h, eta):
    """Eq. (10) over the number of ordered pairs, in float64."""
    x, total = EMBEDDINGS.astype("float64"), 0.0
    for i in range(13):
        for j in range(13):
            d = np.linalg.norm(x[i] - x[j])
            if i != j:
                total += g(d) if LABELS[i] == LABELS[j] else eta(LABELS[i], LABELS[j]) * h(d)
    return total / (13 * 12)


@on_every_backend
@pytest.mark.parametrize("cells", fewer_on_jax([2**23, 1, 40]))
def test_it_is_the_mean_over_ordered_pairs_in_chunks_of_any_size(monkeypatch, cells):
    monkeypatch.setattr(MODULE, "_PAIRS_PER_CHUNK", cells)
    loss = losses.BalancedContrastiveLoss(class_counts=COUNTS, negatives_per_positive=6.0, margin=3.0)
    expected = by_hand(lambda d: d**2, lambda d: max(0, 3 - d) ** 2, lambda a, n: 6 / 2 * (COUNTS[a] - 1) / COUNTS[n])
    assert full_loss(loss, EMBEDDINGS, LABELS) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "loss", [losses.ContrastiveLoss(), losses.MultiSimilarityLoss(), losses.BinomialDevianceLoss(), losses.NCALoss()]
)
def test_a_set_of_one_batch_has_the_loss_of_the_batch(monkeypatch, loss):
    monkeypatch.setattr(MODULE, "_PAIRS_PER_CHUNK", 60)
    assert full_loss(loss, EMBEDDINGS, LABELS) == pytest.approx(float(loss(LABELS, EMBEDDINGS)), rel=1e-5)


def test_importance_weights_are_left_out_as_the_set_is_no_sample():
    weights = importance.ImportanceWeights(group_probabilities(COUNTS, classes_per_batch=2, examples_per_class=2))
    plain, weighted = losses.ContrastiveLoss(), losses.ContrastiveLoss(importance=weights)
    assert full_loss(weighted, EMBEDDINGS, LABELS) == full_loss(plain, EMBEDDINGS, LABELS)


@on_every_backend
def test_match_says_what_is_positive():
    loss = losses.ContrastiveLoss(match=lambda a, b: a[:, None] % 2 == b % 2)
    expected = full_loss(losses.ContrastiveLoss(), EMBEDDINGS, LABELS % 2)
    assert full_loss(loss, EMBEDDINGS, LABELS) == pytest.approx(expected, rel=1e-6)


@on_every_backend
def test_one_example_has_no_pairs():
    assert full_loss(losses.ContrastiveLoss(), EMBEDDINGS[:1], LABELS[:1]) == 0.0
