"""What the samplers draw is as likely as their docstrings say, at fixed seeds."""

import itertools

import numpy as np
import pytest
from scipy import stats

from tests.samplers.frequencies import take
from tfdml import samplers
from tfdml.samplers.draws import random_bits, sample_without_replacement, shuffle

COUNTS = np.array([2, 3, 4, 6, 9])
LABELS = np.repeat(np.arange(5), COUNTS)


def evenly_often(outcomes, number):
    """The p-value of `number` equally likely outcomes."""
    _, times = np.unique(outcomes, axis=0, return_counts=True)
    assert len(times) <= number
    return stats.chisquare(np.pad(times, (0, number - len(times)))).pvalue


def test_group_batches_are_independent_of_the_one_before():
    sampler = samplers.GroupSampler(classes_per_batch=3, examples_per_class=2, seed=11)
    chosen = LABELS[take(sampler, LABELS, 20_000)[:, ::2]]
    sets = np.array([1 << chosen[:, place] for place in range(3)]).sum(axis=0)
    table = stats.contingency.crosstab(sets[0::2], sets[1::2]).count
    assert stats.chi2_contingency(table).pvalue > 1e-4


@pytest.mark.parametrize(("classes", "per_batch"), [(12, 4), (11, 4), (5, 5), (7, 1), (130, 3)])
def test_a_pk_epoch_shows_every_class_once_and_fills_up_with_those_that_opened_it(classes, per_batch):
    labels = np.repeat(np.arange(classes), 2)
    sampler = samplers.PKSampler(classes_per_batch=per_batch, examples_per_class=2)
    steps = sampler.steps_per_epoch(labels)
    assert steps == -(-classes // per_batch)
    epochs = labels[take(sampler, labels, 6 * steps)][:, ::2].reshape(6, -1)
    for epoch in epochs:
        assert sorted(epoch[:classes]) == list(range(classes))
        np.testing.assert_array_equal(epoch[classes:], epoch[: steps * per_batch - classes])
    if classes > 5:
        assert len(np.unique(epochs, axis=0)) == 6


def test_steps_per_epoch_counts_the_classes_that_may_be_drawn():
    drop = samplers.PKSampler(classes_per_batch=2, examples_per_class=4)
    repeat = samplers.PKSampler(classes_per_batch=2, examples_per_class=4, short_classes="repeat")
    assert drop.steps_per_epoch(LABELS) == 2
    assert repeat.steps_per_epoch(LABELS) == 3


def test_sampling_without_replacement_reaches_every_ordered_choice_by_exactly_one_row_of_remainders():
    bits = np.array(list(itertools.product(range(5), range(4), range(3))))
    chosen = sample_without_replacement(bits, 5)
    assert sorted(map(tuple, chosen)) == sorted(itertools.permutations(range(5), 3))


def test_shuffle_gives_every_order_equally_often():
    assert evenly_often(shuffle(random_bits(3, np.arange(24_000), 4)), 24) > 1e-4


def test_bits_depend_on_their_own_step_only_and_fill_all_64():
    steps = np.array([5, -5, 2**40])
    drawn = random_bits(7, steps, 3000)
    np.testing.assert_array_equal(drawn[1:2], random_bits(7, steps[1:2], 3000))
    np.testing.assert_array_equal(drawn[:, :10], random_bits(7, steps, 10))
    assert len(np.unique(drawn)) == drawn.size
    bits = (drawn.ravel()[:, None] >> np.arange(64)) & 1
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 4.5 * 0.5 / np.sqrt(drawn.size)
