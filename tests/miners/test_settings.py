"""Configs, refusals and eager calls of miners: what is the same on every backend."""

import dataclasses
import inspect
import json

import keras
import numpy as np
import pytest

from tests.backend import compiled, numbers
from tests.miners.table import DISTINCT, EXACT, LABELS, MINERS, RANDOM, batch, each
from tests.miners.test_contract import every_miner
from tfdml import losses, miners, pairs


def weights(mined):
    return numbers(mined.positive), numbers(mined.negative)


@pytest.fixture(scope="module")
def by_xla():
    """The weights of the miners for one batch, computed by one compiled function."""
    made = {name: MINERS[name]() for name in DISTINCT}
    return compiled(lambda x: {name: made[name](pairs.all_pairs(LABELS, x))[4:6] for name in made})(batch())


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTINCT)
def test_compiled_by_xla_it_selects_the_same(name, by_xla):
    found = [numbers(part) for part in by_xla[name]]
    if name in RANDOM:  # XLA has other random numbers
        assert np.isfinite(found).all()
    else:
        expected = weights(MINERS[name]()(pairs.all_pairs(LABELS, batch())))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@every_miner
def test_pairs_of_a_batch_against_itself_stay_so(name):
    assert MINERS[name]()(pairs.all_pairs(LABELS, batch())).is_self


@every_miner
def test_a_batch_of_one_row_is_mined_too(name):
    loss = losses.ContrastiveLoss(miner=MINERS[name]())
    assert numbers(loss(np.zeros(1, int), batch()[:1])) == 0


@each(name for name in MINERS if not name.startswith("angular"))
def test_a_copy_of_the_batch_as_references_is_mined_like_the_batch_itself(name):
    x, not_itself = batch(), 1 - np.eye(len(LABELS), dtype="float32")
    against = pairs.pairs_with(LABELS, x, LABELS, x).scale(positive=not_itself)
    mined = MINERS[name]()(against)
    assert not mined.is_self
    for ours, expected in zip(weights(mined), weights(MINERS[name]()(pairs.all_pairs(LABELS, x))), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", RANDOM)
def test_each_call_of_a_random_miner_draws_other_pairs(name):
    made, miner = pairs.all_pairs(LABELS, batch()), MINERS[name]()
    assert (weights(miner(made))[1] != weights(miner(made))[1]).any()


@every_miner
def test_a_miner_comes_back_from_its_config(name):
    text = json.dumps(keras.saving.serialize_keras_object(MINERS[name]()))
    again = keras.saving.deserialize_keras_object(json.loads(text))
    made = pairs.all_pairs(LABELS, batch())
    for one, other in zip(weights(again(made)), weights(MINERS[name]()(made)), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("make", [getattr(miners, name) for name in miners.__all__ if name[0].isupper()])
def test_options_are_keyword_only(make):
    parameters = inspect.signature(make).parameters.values()
    positional = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    assert positional == (["miners"] if make is miners.Composition else [])


def test_miners_with_the_same_settings_are_equal():
    assert miners.ValidTriplets(margin=0.25) == miners.ValidTriplets(margin=0.25) != miners.ValidTriplets()
    assert all(dataclasses.is_dataclass(EXACT[name][0].func) for name in ("valid triplets", "angular", "pair margin"))


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: miners.SemiHard(min_distance=-1.0), "min_distance=-1.0"),
        (lambda: miners.SemiHard(min_distance="hard"), "min_distance='hard'"),
        (lambda: miners.SemiHard(margin=0.0), "margin=0.0"),
        (lambda: miners.SemiHard(distance="manhattan"), "distance='manhattan'"),
        (lambda: miners.PairMargin(positive_margin=-0.1), "positive_margin=-0.1"),
        (lambda: miners.PairMargin(negative_margin=0.0), "negative_margin=0.0"),
        (lambda: miners.TripletViolations(margin=float("nan")), "margin=nan"),
        (lambda: miners.Angular(angle_degrees=90.0), "angle_degrees=90.0"),
        (lambda: miners.HardestNegatives(distance="far"), "distance='far'"),
        (lambda: miners.HardestNegativesOfBatch(fraction=0), "fraction=0"),
        (lambda: miners.EasyPositives(k=0), "k=0"),
        (lambda: miners.ModeratePositives(distance="far"), "distance='far'"),
        (lambda: miners.AdaptiveNegatives(target=0), "target=0"),
        (lambda: miners.AdaptiveNegatives(initial=2.0), "initial=2.0"),
        (lambda: miners.AdaptiveNegatives(minimum=0.6), "minimum=0.6, expected a share above 0, at most initial=0.5"),
        (lambda: miners.AdaptiveNegatives(rate=0), "rate=0"),
        (lambda: miners.AdaptiveNegatives(margin=-1), "margin=-1"),
        (lambda: miners.DistanceWeighted(cutoff=1.5, max_distance=1.4), "cutoff=1.5 and max_distance=1.4"),
        (lambda: miners.DistanceWeighted(max_distance=2.1), "max_distance=2.1"),
        (lambda: miners.DistanceWeightedNegatives(clip=0), "clip=0"),
        (lambda: miners.SemiHardNegatives(margin=0), "Received margin=0, expected a distance above 0"),
        (lambda: miners.UniformHistogram(bins=0), "bins=0"),
        (lambda: miners.UniformHistogram(negatives_per_bin=1.5), "negatives_per_bin=1.5"),
        (lambda: miners.compose(), "one or more functions"),
        (lambda: miners.compose(miners.BalancedPairs(), 3), "functions of Pairs"),
    ],
)
def test_settings_that_make_no_sense_are_refused_at_once(make, error):
    with pytest.raises(ValueError, match=error):
        make()


SELECTORS = [miners.hardest_negatives, miners.SemiHardNegatives(), miners.RandomNegatives(seed=0)]


@pytest.mark.parametrize("selector", SELECTORS, ids=["function", "settings", "layer"])
def test_a_selector_of_negatives_is_refused_as_a_miner(selector):
    for make in (
        lambda: losses.ContrastiveLoss(miner=selector),
        lambda: losses.ContrastiveLoss(importance=selector),
        lambda: miners.compose(miners.ValidTriplets(), selector),
    ):
        with pytest.raises(ValueError, match=r"expected a function Pairs -> Pairs. A selector .* is for TripletLoss"):
            make()


@pytest.mark.parametrize("miner", [miners.HardestNegatives(), miners.valid_triplets, miners.BalancedPairs(seed=0)])
def test_a_miner_is_refused_as_a_selector_of_negatives(miner):
    with pytest.raises(ValueError, match=r"Received negatives=.*, expected a selector, .* is for miner="):
        losses.TripletLoss(negatives=miner)


def test_functions_of_ones_own_are_taken_for_both():
    losses.TripletLoss(negatives=lambda pairs, d: lambda p: p, miner=lambda pairs: pairs)
    losses.TripletLoss(
        negatives=lambda *both: lambda p: p, miner=lambda pairs, weight=2.0: pairs.scale(negative=weight)
    )
