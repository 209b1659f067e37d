"""The pairs that samplers draw are as frequent as they say."""

import re

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tfdml import importance, samplers
from tfdml.pairs import even_against_odd

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


def one_pair_a_batch(sampler, batches):
    """Rows `(batches, 2)` of one pair of each batch, chosen by hand: independent draws from Q."""
    rows = next(iter(sampler.index_batches(LABELS).batch(batches))).numpy()
    rng = np.random.default_rng(0)
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
    batches = 30_000
    found = np.zeros_like(expected)
    np.add.at(found, tuple(one_pair_a_batch(sampler, batches).T), 1)
    copies = np.trace(found)  # Repeated examples stand beside themselves in a batch.
    cells = expected > 0
    assert not found[~cells & ~np.eye(len(LABELS), dtype=bool)].any()
    outcomes, chances = found[cells], batches * expected[cells]
    if "repeat" in str(sampler):
        outcomes, chances = np.append(outcomes, copies), np.append(chances, batches * (1 - expected.sum()))
    else:
        assert copies == 0
    assert chances.sum() == pytest.approx(batches)
    assert stats.chisquare(outcomes, chances).pvalue > 1e-3


@every_design
def test_the_mean_weight_of_drawn_pairs_is_one(sampler):
    q = sampler.pair_probabilities(LABELS)
    first, second = one_pair_a_batch(sampler, 30_000).T
    place = {int(row): k for k, row in enumerate(np.flatnonzero(np.isin(LABELS, q.ids)))}
    of_pairs = q.of(LABELS[list(place)])
    first, second = (np.array([place[row] for row in rows.tolist()]) for rows in (first, second))
    chance = of_pairs[first, second]
    w = np.divide(q.uniform, chance, out=np.zeros_like(chance), where=first != second)
    assert abs(w.mean() - 1) < 4 * w.std() / np.sqrt(len(w)) + 1e-12


@every_design
def test_simulation_finds_the_closed_form(sampler):
    q = sampler.pair_probabilities(LABELS)
    labels = LABELS[np.isin(LABELS, q.ids)]
    found = importance.simulated(sampler, labels, batches=3000)
    np.testing.assert_array_equal(found.ids, q.ids)
    np.testing.assert_array_equal(found.counts, q.counts)
    between = ~np.eye(len(q.ids), dtype=bool)
    expected = np.concatenate([q.within, (q.left @ q.right.T)[between]])
    estimates = np.concatenate([found.within, (found.left @ found.right.T)[between]])
    errors = np.concatenate([found.within_error, found.between_error[between]])
    possible = expected > 0
    assert not estimates[~possible].any()
    assert (errors[possible] > 0).all()
    assert (errors[possible] < 0.5 * expected[possible]).all()
    z = (estimates - expected)[possible] / errors[possible]
    assert np.abs(z).max() < 4.5
    importance.ImportanceWeights(found)


class Recorded:
    """Batches drawn before, as a sampler."""

    def __init__(self, like, batches):
        self.pairing, self.batch_size, self.batches = like.pairing, like.batch_size, batches

    def index_batches(self, labels):
        return tf.data.Dataset.from_tensor_slices(self.batches)


def test_the_standard_error_of_a_simulation_is_its_spread():
    labels = np.repeat([0, 1, 2], [3, 4, 5])
    sampler = samplers.PairSampler(pairs_per_batch=4, positive_fraction=0.5)
    parts = next(iter(sampler.index_batches(labels).batch(6000))).numpy().reshape(100, 60, 8)
    runs = [importance.simulated(Recorded(sampler, part), labels, batches=60) for part in parts]
    off = ~np.eye(3, dtype=bool)
    for estimates, errors in (
        ([run.within for run in runs], [run.within_error for run in runs]),
        ([run.left[off] for run in runs], [run.between_error[off] for run in runs]),
    ):
        np.testing.assert_allclose(np.mean(errors, axis=0), np.std(estimates, axis=0), rtol=0.25)


def test_the_pairs_of_a_simulation_are_those_of_the_pairing():
    class EvenAgainstOdd(samplers.GroupSampler):
        pairing = staticmethod(even_against_odd)

    labels = np.repeat(np.arange(4), 3)
    found = importance.simulated(EvenAgainstOdd(classes_per_batch=3, examples_per_class=2), labels, batches=2000)
    # Of the 9 pairs of a batch 3 are positive; 4 classes of 6 ordered pairs share them.
    assert found.within.sum() * 6 == pytest.approx(3 / 9, rel=0.02)
    assert found.within[0] == pytest.approx(3 / 9 / 24, rel=0.1)


def test_a_design_that_never_draws_a_pair_says_so():
    labels = np.repeat([0, 1, 2], 4)
    one_class = samplers.GroupSampler(classes_per_batch=1, examples_per_class=2)
    with pytest.raises(
        ValueError, match=r"Received 50 batches without a pair of class 0 with class 1 \(6 of 9 ordered"
    ):
        importance.simulated(one_class, labels, batches=50)
    with pytest.raises(ValueError, match="Received batches=1, expected a whole number of at least 2"):
        importance.simulated(one_class, labels, batches=1)


def test_a_sampler_without_closed_form_names_the_simulation():
    class Own(samplers.UniformSampler):
        def pair_probabilities(self, labels):
            return samplers.Sampler.pair_probabilities(self, labels)

    with pytest.raises(ValueError, match=r"Received Own, whose pair probabilities have no closed form. Estimate them"):
        Own(batch_size=3).importance(LABELS)


def test_weights_of_many_classes_are_made_at_once():
    labels = np.repeat(np.arange(22_634), 3)
    weights = samplers.GroupSampler(classes_per_batch=16, examples_per_class=2).importance(labels)
    assert weights.probabilities.of(np.array([5, 5, 22_633])).shape == (3, 3)


# The draws of pairs and of uniform batches.


def test_rows_of_a_pair_stand_side_by_side_and_are_positive_with_their_probability():
    rows = next(iter(DESIGNS["pairs"].index_batches(LABELS).batch(4000))).numpy().reshape(-1, 2)
    assert (rows[:, 0] != rows[:, 1]).all()
    positive = LABELS[rows[:, 0]] == LABELS[rows[:, 1]]
    assert stats.binomtest(int(positive.sum()), len(rows), 0.3).pvalue > 1e-3
    assert 20 not in LABELS[rows]
    with_singles = next(iter(DESIGNS["pairs with single examples"].index_batches(LABELS).batch(400))).numpy()
    assert 20 in LABELS[with_singles]


def test_uniform_batches_hold_no_row_twice():
    for rows in next(iter(DESIGNS["uniform"].index_batches(LABELS).batch(300))).numpy():
        assert len(set(rows)) == 7


@pytest.mark.parametrize(
    ("message", "make"),
    {
        "positive_fraction=0, expected a number above 0 and below 1": lambda: pair(positive_fraction=0),
        "positive_fraction=1.0, expected": lambda: pair(positive_fraction=1.0),
        "positive_fraction='half', expected": lambda: pair(positive_fraction="half"),
        "pairs_per_batch=0, expected a whole number of at least 1": lambda: pair(pairs_per_batch=0),
        "short_classes='repeat', expected 'drop', 'negatives' or 'error'": lambda: pair(short_classes="repeat"),
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
