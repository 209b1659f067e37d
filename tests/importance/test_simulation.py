"""Simulated pair probabilities against the closed forms."""

import numpy as np
import pytest

from tfdml import importance, samplers
from tfdml.pairs import even_against_odd

LABELS = np.random.default_rng(3).permutation(np.repeat(10 * np.arange(6), [2, 3, 1, 4, 6, 9]))
DESIGNS = {
    "group of repeated examples": samplers.GroupSampler(
        classes_per_batch=3, examples_per_class=5, short_classes="repeat", seed=5
    ),
    "pk": samplers.PKSampler(classes_per_batch=3, examples_per_class=2, seed=5),
    "pairs with single examples": samplers.PairSampler(
        pairs_per_batch=8, positive_fraction=0.8, short_classes="negatives", seed=5
    ),
    "uniform": samplers.UniformSampler(batch_size=7, seed=5),
}


@pytest.mark.parametrize(
    "design", ["pk", *(pytest.param(name, marks=pytest.mark.slow) for name in DESIGNS if name != "pk")]
)
def test_simulation_finds_the_closed_form(design):
    sampler = DESIGNS[design]
    q = sampler.pair_probabilities(LABELS)
    labels = LABELS[np.isin(LABELS, q.ids)]
    found = importance.simulated_probabilities(sampler, labels, batches=3000)
    np.testing.assert_array_equal(found.ids, q.ids)
    np.testing.assert_array_equal(found.counts, q.counts)
    between = ~np.eye(len(q.ids), dtype=bool)
    expected = np.concatenate([q.within, (q.anchor_factors @ q.reference_factors.T)[between]])
    estimates = np.concatenate([found.within, (found.anchor_factors @ found.reference_factors.T)[between]])
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
        return self.batches


@pytest.mark.slow
def test_the_standard_error_of_a_simulation_is_its_spread():
    labels = np.repeat([0, 1, 2], [3, 4, 5])
    sampler = samplers.PairSampler(pairs_per_batch=4, positive_fraction=0.5)
    parts = sampler.index_batches(labels)[:6000].reshape(100, 60, 8)
    runs = [importance.simulated_probabilities(Recorded(sampler, part), labels, batches=60) for part in parts]
    off = ~np.eye(3, dtype=bool)
    for estimates, errors in (
        ([run.within for run in runs], [run.within_error for run in runs]),
        ([run.anchor_factors[off] for run in runs], [run.between_error[off] for run in runs]),
    ):
        np.testing.assert_allclose(np.mean(errors, axis=0), np.std(estimates, axis=0), rtol=0.25)


def test_the_pairs_of_a_simulation_are_those_of_the_pairing():
    class EvenAgainstOdd(samplers.GroupSampler):
        pairing = staticmethod(even_against_odd)

    labels = np.repeat(np.arange(4), 3)
    found = importance.simulated_probabilities(
        EvenAgainstOdd(classes_per_batch=3, examples_per_class=2), labels, batches=2000
    )
    # Of the 9 pairs of a batch 3 are positive; 4 classes of 6 ordered pairs share them.
    assert found.within.sum() * 6 == pytest.approx(3 / 9, rel=0.02)
    assert found.within[0] == pytest.approx(3 / 9 / 24, rel=0.1)


def test_a_design_that_never_draws_a_pair_says_so():
    labels = np.repeat([0, 1, 2], 4)
    one_class = samplers.GroupSampler(classes_per_batch=1, examples_per_class=2)
    with pytest.raises(
        ValueError, match=r"Received 50 batches without a pair of class 0 with class 1 \(6 of 9 ordered"
    ):
        importance.simulated_probabilities(one_class, labels, batches=50)
    with pytest.raises(ValueError, match="Received batches=1, expected a whole number of at least 2"):
        importance.simulated_probabilities(one_class, labels, batches=1)
