"""Mined pairs: each anchor comes with its hardest positives and negatives, by the current embeddings."""

import numpy as np
import pytest
from scipy import stats

from tests.samplers.frequencies import take
from tfdml import samplers, search
from tfdml.search.hard_pairs import hardest_pairs

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(6), [4, 1, 3, 9, 5, 2]))
X = np.random.default_rng(1).standard_normal((len(LABELS), 3))
ALONE = int(np.flatnonzero(LABELS == 1)[0])


def refreshed(labels=LABELS, x=X, **options):
    pairs = samplers.MinedPairs(labels, **{"positives": 2, "negatives": 3, **options})
    pairs.refresh(x)
    return pairs


def make(pairs, **settings):
    return samplers.MinedSampler(**{"anchors_per_batch": 4, "pairs": pairs, **settings})


def triplets(sampler, steps, labels=LABELS):
    """`(steps, anchors, 3)` rows of anchor, positive and negative."""
    return take(sampler, labels, steps).reshape(steps, -1, 3)


def p_value(outcomes, number):
    """Chi-square of `number` equally likely outcomes."""
    times = np.unique(outcomes, axis=0, return_counts=True)[1]
    assert len(times) <= number
    return stats.chisquare(np.pad(times, (0, number - len(times)))).pvalue


@pytest.mark.parametrize("metric", ["cosine", "dot", "euclidean"])
def test_a_refresh_keeps_the_hardest_pairs(metric):
    pairs = refreshed(metric=metric)
    expected = hardest_pairs(X, LABELS, positives=2, negatives=3, metric=metric)
    np.testing.assert_array_equal(pairs.positives, expected.positives)
    np.testing.assert_array_equal(pairs.negatives, expected.negatives)
    assert int(pairs.refreshes) == 1


def test_a_refresh_searches_with_what_it_is_given():
    made = []

    def make_index(vectors, metric):
        made.append(metric)
        return search.Exact(vectors, metric=metric)

    pairs = samplers.MinedPairs(LABELS, metric="dot")
    pairs.refresh(X, index=make_index)
    assert made == ["dot"]


def share_of_active(pairs, x, margin):
    """Share of the triplets of the mined pairs with a distance d_ap + margin above d_an, by loops over anchors."""
    active = []
    for a in range(len(x)):
        for p in pairs.positives[a]:
            if p >= 0:
                limit = np.linalg.norm(x[a] - x[p]) + margin
                active.append([np.linalg.norm(x[a] - x[n]) < limit for n in pairs.negatives[a]])
    return np.mean(active)


@pytest.mark.parametrize("target", [0.75, 0.6, 0.45])
def test_a_target_skips_as_few_negatives_as_make_at_most_that_share_active(target):
    options = dict(x=2 * X + LABELS[:, None], positives=1, metric="euclidean")
    pairs = refreshed(target=target, margin=0.1, **options)
    assert share_of_active(pairs, options["x"], 0.1) <= target
    fewer = refreshed(guard=search.FalseNegativeGuard(skip=pairs.rank - 1, candidates=3), **options)
    assert share_of_active(fewer, options["x"], 0.1) > target
    np.testing.assert_array_equal(pairs.negatives[:, 0], fewer.negatives[:, 1])


def test_a_target_that_the_hardest_negatives_do_not_reach_skips_none_and_keeps_those_of_the_guard():
    x, labels = np.array([[0.0], [0.1], [10.0], [10.1], [20.0], [20.1]]), [0, 0, 1, 1, 2, 2]
    options = dict(positives=1, negatives=1, metric="euclidean", target=0.5)
    for skip, expected in [(0, 2), (3, 5)]:
        guard = search.FalseNegativeGuard(skip=skip, candidates=1)
        pairs = samplers.MinedPairs(labels, margin=1.0, guard=guard, **options)
        pairs.refresh(x)
        assert (pairs.rank, pairs.negatives[0].tolist()) == (0, [expected])
    pairs = samplers.MinedPairs(labels, margin=15.0, **options)  # d_an is 10 for four anchors, 20 for the others
    pairs.refresh(x)
    assert pairs.rank == 2


@pytest.mark.parametrize("metric", ["cosine", "dot", "euclidean"])
def test_a_target_of_1_skips_none(metric):
    np.testing.assert_array_equal(refreshed(metric=metric, target=1.0).negatives, refreshed(metric=metric).negatives)


@pytest.mark.slow
def test_each_anchor_is_followed_by_one_of_its_positives_and_one_of_its_negatives():
    pairs = refreshed()
    for batch in triplets(make(pairs), 300):
        for a, p, n in batch:
            assert p in set(pairs.positives[a]) - {-1}
            assert n in set(pairs.negatives[a]) - {-1}
    assert make(pairs).batch_size == 12


def test_anchors_are_uniform_without_replacement_among_those_with_a_positive():
    anchors = triplets(make(refreshed()), 6_000)[:, :, 0]
    assert all(len(set(batch)) == 4 for batch in anchors)
    assert ALONE not in anchors
    for place in range(4):
        assert p_value(anchors[:, place], len(LABELS) - 1) > 1e-4
    assert p_value(anchors[:, [0, 3]], (len(LABELS) - 1) * (len(LABELS) - 2)) > 1e-4


def test_pairs_are_uniform_among_those_that_are_kept():
    drawn = triplets(make(refreshed(), seed=3), 8_000).reshape(-1, 3)
    for row in np.flatnonzero(LABELS != 1)[::5]:
        positives = min(2, np.sum(LABELS[row] == LABELS) - 1)
        assert p_value(drawn[drawn[:, 0] == row, 1:], positives * 3) > 1e-4


def test_an_example_alone_in_its_class_comes_as_a_negative():
    assert (triplets(make(refreshed(negatives=10)), 200)[:, :, 2] == ALONE).any()


def test_before_the_first_refresh_mined_pairs_are_uniform_over_the_class_and_the_other_classes():
    pairs = samplers.MinedPairs(LABELS, positives=4_000, negatives=4_000)
    for row in range(len(LABELS)):
        same = np.flatnonzero((LABELS[row] == LABELS) & (np.arange(len(LABELS)) != row))
        others = np.flatnonzero(LABELS[row] != LABELS)
        positives, negatives = pairs.positives[row], pairs.negatives[row]
        assert set(positives) == (set(same) or {-1})
        assert set(negatives) == set(others)
        assert row == ALONE or len(same) == 1 or p_value(positives, len(same)) > 1e-4
        assert p_value(negatives, len(others)) > 1e-4
    assert int(pairs.refreshes) == 0
    classes = LABELS[triplets(make(pairs), 50)]
    assert (classes[..., 1] == classes[..., 0]).all()
    assert (classes[..., 2] != classes[..., 0]).all()


def test_before_the_first_refresh_the_seed_says_which():
    tables = [samplers.MinedPairs(LABELS, seed=seed).negatives for seed in (0, 0, 1, -1)]
    np.testing.assert_array_equal(tables[0], tables[1])
    assert all((tables[0] != other).any() for other in tables[2:])
