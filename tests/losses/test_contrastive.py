"""Contrastive losses: weights of pairs, and counts of classes."""

import keras
import numpy as np
import pytest

from tests.backend import XLA, compiled, numbers
from tests.losses.rows import COUNTS, UNEVEN, batch
from tests.losses.test_options import same_family, share_a_tag
from tfdml import losses, miners, pairs


@pytest.mark.backends
def test_a_weight_multiplies_its_pair_and_does_not_count_in_the_divisor():
    labels, x = batch([0, 0, 1])
    plain = pairs.all_pairs(labels, x)
    doubled = plain._replace(positive=2 * plain.positive)
    positives_only = plain._replace(negative=0 * plain.negative)
    added = numbers(losses.functional.contrastive(doubled)) - numbers(losses.functional.contrastive(plain))
    np.testing.assert_allclose(added, numbers(losses.functional.contrastive(positives_only)) * [0.5, 0.5, 0], rtol=1e-5)


def test_the_mean_over_the_kept_pairs_of_a_batch_is_online_contrastive_loss():
    # Points 0, 1 | 3, 7: positives 1 and 4 apart, negatives 3, 7, 2 and 6. Two positives, so the nearest two are kept.
    loss = losses.ContrastiveLoss(negative_margin=5.0, miner=miners.HardestNegativesOfBatch(), normalize="all")
    labels, x = np.array([0, 0, 1, 1]), np.array([[0.0], [1.0], [3.0], [7.0]])
    assert float(loss(labels, x)) == pytest.approx((1**2 + 4**2 + (5 - 2) ** 2 + (5 - 3) ** 2) / 4)
    with pytest.raises(ValueError, match="Received normalize='batch', expected one of 'anchor', 'all', 'active'"):
        losses.ContrastiveLoss(normalize="batch")


@pytest.mark.backends
def test_a_class_without_a_count_is_named_or_shows_as_nan_where_labels_cannot_be_read():
    labels, x = batch([0, 0, 1, 1, 4, 4])
    loss = losses.BalancedContrastiveLoss(class_counts={0: 5, 1: 7})
    with pytest.raises(ValueError, match="Received label 4, which class_counts does not cover; expected one of its 2"):
        loss(labels, x)
    tensor = keras.ops.convert_to_tensor(labels)
    if XLA:
        assert np.isnan(numbers(compiled(lambda y, v: loss(y, v))(tensor, keras.ops.convert_to_tensor(x))))


def test_class_counts_may_be_an_array_indexed_by_class():
    labels, x = batch([0, 0, 2, 2, 3])
    by_array = losses.BalancedContrastiveLoss(class_counts=np.array([3, 0, 4, 9]))
    by_dict = losses.BalancedContrastiveLoss(class_counts={0: 3, 2: 4, 3: 9})
    np.testing.assert_array_equal(numbers(by_array.call(labels, x)), numbers(by_dict.call(labels, x)))


def test_match_says_which_labels_belong_together_in_the_balanced_loss_and_counts_go_by_class_id():
    labels, x = batch(UNEVEN["three classes"])
    ids = 10 * labels + np.arange(8)
    values = numbers(losses.BalancedContrastiveLoss(class_counts=COUNTS).call(labels, x))
    pull = numbers(losses.BalancedContrastiveLoss(class_counts=COUNTS, negatives_per_positive=1e-9).call(labels, x))
    by_family = losses.BalancedContrastiveLoss(
        class_counts={i: COUNTS[i // 10] for i in ids.tolist()}, match=same_family
    )
    expected = pull + (len(COUNTS) - 1) / (len(ids) - 1) * (values - pull)
    np.testing.assert_allclose(numbers(by_family.call(ids, x)), expected, rtol=1e-5, atol=1e-6)
    by_tags = losses.BalancedContrastiveLoss(class_counts=COUNTS, match=share_a_tag)
    with pytest.raises(ValueError, match="class_counts holds one value per class"):
        by_tags(np.eye(8, dtype="int32"), x)
