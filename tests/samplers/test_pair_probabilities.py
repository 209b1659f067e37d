"""Pairs are drawn as frequently as Q says."""

import functools
import re

import numpy as np
import pytest
from scipy import stats

from tfdml import samplers

BATCHES = 20_000
COUNTS = np.array([2, 3, 1, 4, 6, 9])
LABELS = np.random.default_rng(3).permutation(np.repeat(10 * np.arange(6), COUNTS))
GROUP = {"classes_per_batch": 3, "examples_per_class": 2, "seed": 5}
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
}
every_design = pytest.mark.parametrize("sampler", DESIGNS.values(), ids=DESIGNS)


@functools.cache
def one_pair_per_batch(sampler):
    """Rows `(BATCHES, 2)` of one pair of each batch, selected by hand: independent draws from Q."""
    batches, rng = BATCHES, np.random.default_rng(0)
    rows = next(iter(sampler.index_batches(LABELS).batch(batches))).numpy()
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
    rows = next(iter(DESIGNS["pairs"].index_batches(LABELS).batch(4000))).numpy().reshape(-1, 2)
    assert (rows[:, 0] != rows[:, 1]).all()
    positive = LABELS[rows[:, 0]] == LABELS[rows[:, 1]]
    assert stats.binomtest(int(positive.sum()), len(rows), 0.3).pvalue > 1e-3
    assert 20 not in LABELS[rows]
    with_singles = next(iter(DESIGNS["pairs with single examples"].index_batches(LABELS).batch(400))).numpy()
    assert 20 in LABELS[with_singles]


@pytest.mark.parametrize(
    ("message", "make"),
    {
        "positive_fraction=0, expected a number above 0 and below 1": lambda: pair(positive_fraction=0),
        "positive_fraction=1.0, expected": lambda: pair(positive_fraction=1.0),
        "positive_fraction='half', expected": lambda: pair(positive_fraction="half"),
        "pairs_per_batch=0, expected a whole number of at least 1": lambda: pair(pairs_per_batch=0),
        "short_classes='repeat', expected one of 'drop', 'negatives', 'error'": lambda: pair(short_classes="repeat"),
        "1 classes of one example (class 20), which have no": lambda: pair(short_classes="error").index_batches(LABELS),
        "2 classes of one example each, expected one with two": lambda: pair().index_batches([0, 1]),
        "labels with 1 class that can be drawn, expected two": lambda: pair().index_batches([0, 0, 1]),
        "batch_size=0, expected a whole number of at least 1": lambda: samplers.UniformSampler(batch_size=0),
        "batch_size=9, but only 3 examples. Lower it": lambda: samplers.UniformSampler(batch_size=9).index_batches(
            [1, 1, 2]
        ),
        "seed=0.5, expected a whole number": lambda: samplers.UniformSampler(batch_size=3, seed=0.5),
    }.items(),
)
def test_bad_settings_are_refused_at_the_call(message, make):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def pair(**settings):
    return samplers.PairSampler(**{"pairs_per_batch": 2, "positive_fraction": 0.5, **settings})
