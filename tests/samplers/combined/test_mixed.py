"""Mixtures of samplers: which one draws a batch, and how likely pairs are."""

import numpy as np
import pytest

from tests.samplers.frequencies import largest_z, take
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
def test_pairs_are_as_frequent_as_the_weighted_sum_also_where_all_seeds_are_one():
    sampler = make(GROUP, UNIFORM, weights=(3, 1), seed=GROUP.seed)
    q = sampler.pair_probabilities(LABELS).of(LABELS)
    assert q.sum() == pytest.approx(1)
    parts = GROUP.pair_probabilities(LABELS).of(LABELS), UNIFORM.pair_probabilities(LABELS).of(LABELS)
    np.testing.assert_allclose(q, 0.75 * parts[0] + 0.25 * parts[1])
    assert largest_z(take(sampler, LABELS, 15_000), LABELS, q) < 4.5
    sampler = make(LARGE, UNIFORM)  # LARGE drops the class of two examples
    assert largest_z(take(sampler, LABELS, 10_000), LABELS, sampler.pair_probabilities(LABELS).of(LABELS)) < 4.5


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


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], r"Received samplers=\(\), expected one or more tfdml.samplers"),
        ([GROUP, "pk"], "expected one or more tfdml.samplers"),
        ([GROUP, make(GROUP, UNIFORM)], "In place of a MixedSampler give the samplers that it mixes"),
        ([GROUP, samplers.UniformSampler(batch_size=8)], "Received samplers of batch_size 6, 8, expected the same"),
        ([GROUP, PAIRS], "Received samplers of pairing all_pairs, consecutive_pairs, expected the same for all"),
    ],
)
def test_samplers_that_cannot_be_mixed_are_refused(parts, message):
    with pytest.raises(ValueError, match=message):
        make(*parts)


@pytest.mark.parametrize(
    "weights", [(1,), (1, 2, 3), (1, 0), (1, -1), (1, float("nan")), (1, float("inf")), (1, "2"), ()]
)
def test_weights_that_are_none_are_refused(weights):
    with pytest.raises(ValueError, match=r"Received weights=.* for 2 samplers, expected a positive number for each"):
        samplers.MixedSampler(samplers=(GROUP, UNIFORM), weights=weights)


def test_a_bad_seed_is_refused():
    with pytest.raises(ValueError, match="Received seed=None"):
        make(GROUP, UNIFORM, seed=None)


def test_labels_that_do_not_fit_one_of_the_samplers_are_refused():
    with pytest.raises(ValueError, match="Received classes_per_batch=3, but labels have only 2 classes"):
        make(UNIFORM, GROUP).index_batches([0, 0, 0, 1, 1, 1])
