"""Batches of super-classes: what stands where, and how likely pairs are."""

import numpy as np
import pytest

from tests.samplers.frequencies import take
from tfdml import samplers

COUNTS = np.array([2, 3, 4, 2, 5, 3, 6, 2, 4, 1, 7])
SUPER_CLASSES = np.array([5, 7, 5, 9, 7, 9, 5, 9, 9, 5, 2])
LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(11), COUNTS))
SETTINGS = dict(super_classes_per_batch=2, classes_per_super_class=2, examples_per_class=2, seed=3)
HIERARCHY = samplers.HierarchicalSampler(super_classes=SUPER_CLASSES, **SETTINGS)
KEPT = ~np.isin(LABELS, [9, 10])  # Class 9 has one example, and 10 is alone in its super-class.


def make(**changes):
    return samplers.HierarchicalSampler(**{"super_classes": SUPER_CLASSES, **SETTINGS, **changes})


def full(probabilities, kept, labels):
    """Q over all examples, 0 for those that are never drawn."""
    q = np.zeros((len(labels), len(labels)))
    q[np.ix_(kept, kept)] = probabilities.of(labels[kept])
    return q


@pytest.mark.parametrize(("s", "c", "m"), [(1, 1, 1), (2, 2, 2), (3, 2, 2), (2, 3, 2), (1, 4, 1), (4, 1, 1)])
def test_a_batch_is_super_classes_of_classes_of_examples_each_adjacent(s, c, m):
    sampler = make(super_classes_per_batch=s, classes_per_super_class=c, examples_per_class=m)
    assert sampler.batch_size == s * c * m
    for rows in take(sampler, LABELS, 40):
        assert len(set(rows)) == s * c * m
        classes = LABELS[rows].reshape(s, c, m)
        assert (classes == classes[..., :1]).all()
        assert len(set(classes[..., 0].ravel())) == s * c
        super_classes = SUPER_CLASSES[classes[..., 0]]
        assert (super_classes == super_classes[:, :1]).all()
        assert len(set(super_classes[:, 0])) == s


def test_probabilities_are_those_worked_by_hand():
    # Three super-classes with 2 (7), 3 (5) and 4 (9) classes; batches of 8 rows have 56 ordered pairs.
    q = full(HIERARCHY.pair_probabilities(LABELS), KEPT, LABELS)

    def pair(one, other):
        return q[np.ix_(*(np.flatnonzero(label == LABELS) for label in (one, other)))][0, -1]

    assert pair(4, 4) == pytest.approx(2 / 3 * 2 / 2 * (2 * 1) / (5 * 4) / 56)
    assert pair(6, 6) == pytest.approx(2 / 3 * 2 / 3 * (2 * 1) / (6 * 5) / 56)
    assert pair(1, 4) == pytest.approx(2 / 3 * (2 * 1) / (2 * 1) * 2 / 3 * 2 / 5 / 56)
    assert pair(5, 8) == pytest.approx(2 / 3 * (2 * 1) / (4 * 3) * 2 / 3 * 2 / 4 / 56)
    assert pair(4, 8) == pytest.approx((2 * 1) / (3 * 2) * 2 / 2 * 2 / 4 * 2 / 5 * 2 / 4 / 56)
    assert pair(2, 5) == pytest.approx((2 * 1) / (3 * 2) * 2 / 3 * 2 / 4 * 2 / 4 * 2 / 3 / 56)
    assert q.sum() == pytest.approx(1)


def test_pairs_that_never_come_have_no_importance_and_it_says_so():
    together = "never draws class 1 together with class 4"
    with pytest.raises(ValueError, match=together):
        make(classes_per_super_class=1).importance(LABELS[np.isin(SUPER_CLASSES[LABELS], [7, 9])])
    with pytest.raises(ValueError, match="never draws class 0 together with class 1"):
        make(super_classes_per_batch=1).importance(LABELS)
    with pytest.raises(ValueError, match="never draws two examples of class 0"):
        make(examples_per_class=1).importance(LABELS)


def test_all_super_classes_by_themselves_are_a_group_of_classes():
    alone = samplers.HierarchicalSampler(super_classes=np.zeros(11, int), **{**SETTINGS, "super_classes_per_batch": 1})
    group = samplers.GroupSampler(classes_per_batch=2, examples_per_class=2)
    kept = LABELS[LABELS != 9]
    np.testing.assert_allclose(alone.pair_probabilities(LABELS).of(kept), group.pair_probabilities(LABELS).of(kept))


def test_a_dict_an_array_and_a_list_are_the_same_settings():
    as_dict = make(super_classes=dict(enumerate(SUPER_CLASSES)))
    assert HIERARCHY == as_dict == make(super_classes=SUPER_CLASSES.tolist())
    assert hash(HIERARCHY) == hash(as_dict)
    assert make(super_classes=SUPER_CLASSES[::-1]) != HIERARCHY
    assert make(super_classes=HIERARCHY.super_classes) == HIERARCHY
    assert len(repr(HIERARCHY)) < 160


def test_class_ids_may_be_any_and_classes_without_examples_change_nothing():
    ids = np.arange(11) * 2**40 - 5
    known = dict(zip(ids.tolist(), SUPER_CLASSES.tolist(), strict=True)) | {1: 3, 2: 3}
    np.testing.assert_array_equal(take(make(super_classes=known), ids[LABELS], 5), take(HIERARCHY, LABELS, 5))
