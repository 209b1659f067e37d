"""Mixtures of samplers: which one draws a batch, and how likely pairs are."""

import numpy as np
import pytest

from tests.samplers.frequencies import take
from tfdml import importance, samplers

COUNTS = np.array([3, 2, 4, 6, 9])
LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(5), COUNTS))
GROUP = samplers.GroupSampler(classes_per_batch=3, examples_per_class=2)
LARGE = samplers.GroupSampler(classes_per_batch=2, examples_per_class=3)
UNIFORM = samplers.UniformSampler(batch_size=6)
PAIRS = samplers.PairSampler(pairs_per_batch=3, positive_fraction=0.5)


def make(*parts, weights=None, seed=0):
    return samplers.MixedSampler(samplers=parts, weights=weights or [1] * len(parts), seed=seed)


@pytest.mark.slow
def test_each_batch_is_that_of_one_of_the_samplers_at_its_step_as_often_as_the_weights_say():
    parts = [take(part, LABELS, 10_000) for part in (GROUP, LARGE, UNIFORM)]
    rows = take(make(GROUP, LARGE, UNIFORM, weights=(2, 1, 5)), LABELS, 10_000)
    is_part = np.array([(rows == part).all(axis=1) for part in parts])
    assert (is_part.sum(axis=0) == 1).all()
    expected = 10_000 * np.array([2, 1, 5]) / 8
    assert ((is_part.sum(axis=1) - expected) ** 2 / expected).sum() < 18.4  # Two degrees of freedom, p = 1e-4.


@pytest.mark.slow
def test_the_choice_shares_no_random_number_with_the_samplers():
    parts = [samplers.PairSampler(pairs_per_batch=1, positive_fraction=p) for p in (0.2, 0.6)]
    labels = LABELS[take(make(*parts), LABELS, 10_000)]
    assert (labels[:, 0] == labels[:, 1]).mean() == pytest.approx(0.4, abs=4 * np.sqrt(0.24 / 10_000))


def test_a_mixture_takes_on_the_pairing_of_its_samplers():
    sampler = make(PAIRS, samplers.PairSampler(pairs_per_batch=3, positive_fraction=0.1))
    assert sampler.pairing is PAIRS.pairing
    assert sampler.batch_size == 6
    assert sampler.pair_probabilities(LABELS).of(LABELS).sum() == pytest.approx(1)


def test_a_part_without_a_closed_form_leaves_none():
    centers = samplers.ClassCenters(LABELS, dim=2)
    hard = samplers.HardClassSampler(classes_per_batch=3, examples_per_class=2, centers=centers)
    sampler = make(hard, UNIFORM)
    with pytest.raises(ValueError, match="Received HardClassSampler, whose pair probabilities have no closed form"):
        sampler.importance(LABELS)
    assert importance.simulated_probabilities(sampler, LABELS, batches=2_000).of(LABELS).sum() == pytest.approx(1)


def test_the_smallest_block_is_the_block_of_all():
    centers = samplers.ClassCenters(LABELS, dim=2)
    hard = samplers.HardClassSampler(classes_per_batch=3, examples_per_class=2, centers=centers)
    sampler = make(hard, UNIFORM)
    assert sampler.block_steps(sampler.prepare(LABELS)) == 8
