"""Pairs are drawn as frequently as Q says."""

import functools

import numpy as np
import pytest
from scipy import stats

from tfdml import samplers

BATCHES = 20_000
COUNTS = np.array([2, 3, 1, 4, 3, 5, 2, 4])
LABELS = np.random.default_rng(3).permutation(np.repeat(10 * np.arange(8), COUNTS))
SUPER_CLASSES = {0: 7, 10: 7, 20: 7, 30: 5, 40: 5, 50: 9, 60: 5, 70: 9}
GROUP = {"classes_per_batch": 3, "examples_per_class": 2, "seed": 5}


def mixed(*parts):
    return samplers.MixedSampler(samplers=parts, weights=(3, 1), seed=0)


def hierarchical(**changes):
    settings = {"super_classes_per_batch": 2, "classes_per_super_class": 2, "examples_per_class": 2, **changes}
    return samplers.HierarchicalSampler(super_classes=SUPER_CLASSES, seed=3, **settings)


DESIGNS = {
    "group": samplers.GroupSampler(**GROUP),
    "group of repeated examples": samplers.GroupSampler(
        classes_per_batch=3, examples_per_class=5, short_classes="repeat", seed=5
    ),
    "pk": samplers.PKSampler(**GROUP),
    "pairs": samplers.PairSampler(pairs_per_batch=8, positive_fraction=0.3, seed=5),
    "pairs with single examples": samplers.PairSampler(
        pairs_per_batch=8, positive_fraction=0.8, short_classes="negatives", seed=5
    ),
    "uniform": samplers.UniformSampler(batch_size=7, seed=5),
    "episodes": samplers.EpisodeSampler(ways=3, shots=1, queries=2, seed=4),
    "a mixture": mixed(samplers.GroupSampler(**GROUP), samplers.UniformSampler(batch_size=6)),
    "a mixture that drops classes": mixed(
        samplers.GroupSampler(classes_per_batch=2, examples_per_class=3), samplers.UniformSampler(batch_size=6)
    ),
    "super-classes": hierarchical(),
    "all super-classes": hierarchical(super_classes_per_batch=3),
    "one super-class": hierarchical(super_classes_per_batch=1),
    "larger super-classes": hierarchical(super_classes_per_batch=1, classes_per_super_class=3),
    "super-classes of one class": hierarchical(classes_per_super_class=1),
    "super-classes of single examples": hierarchical(examples_per_class=1),
    "super-classes of repeated examples": hierarchical(examples_per_class=3, short_classes="repeat"),
}
every_design = pytest.mark.parametrize("sampler", DESIGNS.values(), ids=DESIGNS)


@functools.cache
def one_pair_per_batch(sampler):
    """Rows `(BATCHES, 2)` of one pair of each batch, selected by hand: independent draws from Q."""
    batches, rng = BATCHES, np.random.default_rng(0)
    rows = sampler.index_batches(LABELS)[:batches]
    if isinstance(sampler, samplers.PairSampler):
        first = 2 * rng.integers(0, rows.shape[1] // 2, batches)
        second = first + 1
    else:
        first = rng.integers(0, rows.shape[1], batches)
        second = (first + rng.integers(1, rows.shape[1], batches)) % rows.shape[1]
    return np.stack([rows[np.arange(batches), first], rows[np.arange(batches), second]], axis=1)


@every_design
def test_single_pairs_are_as_frequent_as_q(sampler):
    q = sampler.pair_probabilities(LABELS)
    drawable = np.flatnonzero(np.isin(LABELS, q.ids))
    expected = np.zeros((len(LABELS), len(LABELS)))
    expected[np.ix_(drawable, drawable)] = q.of(LABELS[drawable])
    found = np.zeros_like(expected)
    np.add.at(found, tuple(one_pair_per_batch(sampler).T), 1)
    copies = np.trace(found)  # Repeated examples form pairs with their own copies.
    cells = expected > 0
    assert not found[~cells & ~np.eye(len(LABELS), dtype=bool)].any()
    outcomes, chances = found[cells], BATCHES * expected[cells]
    if "repeat" in str(sampler):
        outcomes, chances = np.append(outcomes, copies), np.append(chances, BATCHES * (1 - expected.sum()))
    else:
        assert copies == 0
    assert chances.sum() == pytest.approx(BATCHES)
    assert stats.chisquare(outcomes, chances).pvalue > 1e-3


def test_a_sampler_without_closed_form_names_the_simulation():
    class Own(samplers.UniformSampler):
        def pair_probabilities(self, labels):
            return samplers.Sampler.pair_probabilities(self, labels)

    with pytest.raises(ValueError, match=r"Received Own, whose pair probabilities have no closed form. Estimate them"):
        Own(batch_size=3).importance(LABELS)


def test_weights_of_many_classes_are_made_at_once():
    labels = np.repeat(np.arange(6_000), 3)
    weights = samplers.GroupSampler(classes_per_batch=16, examples_per_class=2).importance(labels)
    assert weights.probabilities.of(np.array([5, 5, 5_999])).shape == (3, 3)


# Pairs.


def test_rows_of_a_pair_are_adjacent_and_positive_with_their_probability():
    rows = DESIGNS["pairs"].index_batches(LABELS)[:4000].reshape(-1, 2)
    assert (rows[:, 0] != rows[:, 1]).all()
    positive = LABELS[rows[:, 0]] == LABELS[rows[:, 1]]
    assert stats.binomtest(int(positive.sum()), len(rows), 0.3).pvalue > 1e-3
    assert 20 not in LABELS[rows]
    with_singles = DESIGNS["pairs with single examples"].index_batches(LABELS)[:400]
    assert 20 in LABELS[with_singles]
