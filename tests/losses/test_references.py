"""Losses over references that are not the batch: two towers, labeled pairs, triplets as rows."""

import numpy as np
import pytest

from tests.backend import numbers
from tests.losses.rows import BY_CLASS_ID, DEFAULTS, OVER_A_BASE, WITHIN, lacking, law
from tfdml import layers, losses, pairs

LABELS = np.array([0, 1, 0, 2, 1, 1])
TOWERS = np.random.default_rng(0).standard_normal((6, 2, 5)).astype("float32")
ANCHORS, REFERENCES = TOWERS[:, 0], TOWERS[:, 1]
FREE = lacking(DEFAULTS, WITHIN, OVER_A_BASE)


@law(FREE)
def test_a_loss_of_two_towers_is_that_of_anchors_against_the_references_of_the_other_tower(row):
    found = row.with_options(pairing=pairs.two_towers).call(LABELS, TOWERS)
    expected = row.loss.on_pairs(pairs.pairs_with(LABELS, ANCHORS, LABELS, REFERENCES))
    assert np.isfinite(numbers(found)).all()
    np.testing.assert_array_equal(numbers(found), numbers(expected))


@pytest.mark.parametrize("layer", [layers.Memory(8), layers.Proxies(3)], ids=["memory", "proxies"])
def test_references_of_one_network_refuse_the_output_of_two(layer):
    with pytest.raises(ValueError, match=r"shape \(6, 2, 5\), expected \(batch, dim\)"):
        losses.ContrastiveLoss(pairing=layer).call(LABELS, TOWERS)


def distances(a, b):
    return np.linalg.norm(a - b, axis=1)


def test_the_contrastive_loss_of_labeled_pairs_is_that_of_their_distances_and_labels():
    x, similar = 0.3 * ANCHORS, np.array([1, 0, 0])
    d = distances(x[0::2], x[1::2])
    expected = np.where(similar, d**2, np.maximum(0, 2.0 - d) ** 2)
    loss = losses.ContrastiveLoss(negative_margin=2.0, pairing=pairs.labeled_pairs)
    np.testing.assert_allclose(numbers(loss.call(np.repeat(similar, 2), x)), expected, rtol=1e-5)
    assert (expected > 0).all()


def test_the_triplet_loss_of_rows_is_that_of_their_distances():
    x = ANCHORS.astype("float64")
    expected = np.maximum(0, distances(x[0::3], x[1::3]) - distances(x[0::3], x[2::3]) + 3.0)
    loss = losses.TripletLoss(margin=3.0, distance="euclidean", pairing=pairs.triplet_rows)
    np.testing.assert_allclose(numbers(loss.call(LABELS, x)), expected, rtol=1e-5)
    assert (expected > 0).all()


@law(lacking(FREE, BY_CLASS_ID))
def test_a_loss_of_triplet_rows_has_one_finite_value_per_triplet_or_needs_references_in_common(row):
    loss = row.with_options(pairing=pairs.triplet_rows)
    try:
        found = numbers(loss.call(LABELS, ANCHORS))
    except ValueError as error:
        if "do not share references" not in str(error):
            raise
        return
    assert found.shape == (2,)
    assert np.isfinite(found).all()
