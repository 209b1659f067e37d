"""References that are given: any loss over them, and a model that is trained towards an old one."""

import numpy as np
import pytest

from tests.backend import numbers
from tests.losses import loops
from tfdml import layers, losses

pytestmark = pytest.mark.backends

RANDOM = np.random.default_rng(0)
LABELS = np.array([5, 5, 2, 2, 9, 9, 5, 2])
X = RANDOM.standard_normal((8, 4)).astype("float32")
OLD = RANDOM.standard_normal((5, 3)).astype("float32")
OLD_LABELS = np.array([2, 5, 9, 5, 7])


def test_every_row_is_compared_with_every_reference():
    pairs = layers.FixedReferences(OLD, OLD_LABELS)(LABELS, X[:, :3])
    np.testing.assert_array_equal(numbers(pairs.positive) > 0, LABELS[:, None] == OLD_LABELS)
    np.testing.assert_array_equal(numbers(pairs.negative) > 0, LABELS[:, None] != OLD_LABELS)
    np.testing.assert_array_equal(numbers(pairs.references), OLD)


def test_a_loss_over_them_is_the_loss_over_a_batch_with_the_references():
    loss = losses.ContrastiveLoss(pairing=layers.FixedReferences(OLD, OLD_LABELS), reduction=None)
    batches = [
        (np.r_[label, OLD_LABELS], np.r_[x[None], OLD].astype(float)) for label, x in zip(LABELS, X[:, :3], strict=True)
    ]
    expected = [loops.contrastive(*batch)[0] for batch in batches]
    np.testing.assert_allclose(numbers(loss(LABELS, X[:, :3])), expected, rtol=1e-5)


def test_centers_are_the_means_of_normalized_embeddings():
    references = layers.FixedReferences.centers(X, LABELS)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert references.labels.tolist() == [2, 5, 9]
    expected = [unit[label == LABELS].mean(axis=0) for label in (2, 5, 9)]
    np.testing.assert_allclose(numbers(references.vectors), expected, rtol=1e-5)


def test_a_layer_of_a_config_is_not_finite_until_its_weights_are_loaded():
    references = layers.FixedReferences(OLD, OLD_LABELS)
    copy = layers.FixedReferences.from_config(references.get_config())
    loss = losses.ContrastiveLoss(pairing=copy)
    assert np.isnan(numbers(loss(LABELS, X[:, :3])))
    copy.set_weights(references.get_weights())
    assert np.isfinite(numbers(loss(LABELS, X[:, :3])))


def test_wrong_references_are_an_error():
    with pytest.raises(ValueError, match=r"labels of shape \(4,\), expected \(5,\)"):
        layers.FixedReferences(OLD, OLD_LABELS[:4])
    with pytest.raises(ValueError, match="vectors with a value that is NaN"):
        layers.FixedReferences(OLD * np.nan, OLD_LABELS)
    with pytest.raises(ValueError, match="for FixedReferences of dimension 3"):
        layers.FixedReferences(OLD, OLD_LABELS)(LABELS, X)
