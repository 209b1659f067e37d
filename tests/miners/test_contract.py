"""What every miner promises, and what it refuses. Adding a miner is adding a row to `table`."""

import dataclasses
import functools
import inspect
import json
from typing import NamedTuple

import keras
import numpy as np
import pytest

from tests.backend import compiled, fast, gradient_of, numbers, spec
from tests.miners.table import DISTINCT, EXACT, LABELS, MINERS, RANDOM, batch
from tfdml import losses, miners, pairs

on_every_backend = pytest.mark.backends
every_miner = pytest.mark.parametrize("name", DISTINCT)


class Mined(NamedTuple):
    positive: np.ndarray
    negative: np.ndarray
    loss: np.ndarray
    gradient: np.ndarray
    state: list


def stateless(miner, made, state):
    """The mined pairs, and the state of the miner afterwards."""
    return miner.stateless_call([], state, made) if isinstance(miner, keras.Layer) else (miner(made), state)


def state_of(name):
    """The state of a new miner: its random seed, if it has one."""
    return [numbers(variable) for variable in getattr(MINERS[name](), "non_trainable_variables", [])]


@functools.cache
def function_of(name):
    """One function per miner, of a batch and the state, that all tests share: JAX compiles it once."""
    miner = MINERS[name]()

    def mine(labels, x, state):
        def weights(v):
            mined, _ = stateless(miner, pairs.all_pairs(labels, v), state)
            return mined.positive + mined.negative + 0 * keras.ops.sum(v)

        mined, after = stateless(miner, pairs.all_pairs(labels, x), state)
        return mined.positive, mined.negative, losses.functional.contrastive(mined), gradient_of(weights, x), after

    return fast(mine)


def mine(name, x, labels=LABELS, state=None):
    found = function_of(name)(
        keras.ops.convert_to_tensor(labels), keras.ops.convert_to_tensor(x), state_of(name) if state is None else state
    )
    return Mined(*map(numbers, found[:4]), list(found[4]))


def weights(mined):
    return numbers(mined.positive), numbers(mined.negative)


# Rules.


@on_every_backend
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_weights_are_those_of_loops_over_the_rule(name, seed):
    x, by_loops = batch(seed=seed), EXACT[name][1]
    for ours, expected in zip(mine(name, x)[:2], by_loops(LABELS, x.astype("float64")), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


@on_every_backend
@every_miner
def test_some_pairs_and_nothing_else_keep_weights_and_no_gradient_flows_through_the_selection(name):
    mined, same = mine(name, batch()), LABELS[:, None] == LABELS
    assert not mined.positive[~same | np.eye(len(LABELS), dtype=bool)].any()
    assert not mined.negative[same].any()
    assert (mined.positive >= 0).all()
    assert (mined.negative >= 0).all()
    assert 0 < mined.positive.sum() + mined.negative.sum() < len(LABELS) * (len(LABELS) - 1)
    np.testing.assert_array_equal(mined.gradient, np.zeros_like(batch()))


@on_every_backend
@every_miner
@pytest.mark.parametrize("labels", [np.zeros(20, int), np.arange(20)], ids=["one class", "classes of one"])
def test_batches_without_one_kind_of_pairs_are_mined_too(name, labels):
    for part in mine(name, batch(labels), labels)[:3]:
        assert np.isfinite(part).all()


@on_every_backend
@pytest.mark.parametrize("labels", [np.zeros(20, int), np.arange(20)], ids=["no negatives", "no positives"])
@pytest.mark.parametrize("name", ["valid triplets", "triplet violations", "angular"])
def test_an_anchor_without_both_kinds_of_pairs_is_in_no_triplet(name, labels):
    mined = mine(name, batch(labels), labels)
    assert not mined.positive.any()
    assert not mined.negative.any()


@every_miner
def test_a_batch_of_one_row_is_mined_too(name):
    loss = losses.ContrastiveLoss(miner=MINERS[name]())
    assert numbers(loss(np.zeros(1, int), batch()[:1])) == 0


@on_every_backend
@every_miner
def test_other_references_in_half_precision_are_mined_in_float32(name):
    miner = MINERS[name]()

    def negative(x, state):
        anchors, references = (keras.ops.cast(v, "bfloat16") for v in (x, batch(seed=1)))
        made = pairs.pairs_with(LABELS[:9], anchors[:9], LABELS, references)
        if name == "angular":
            made = pairs.all_pairs(LABELS, anchors)
        return stateless(miner, made, state)[0].negative

    assert spec(negative, batch(), state_of(name)) == ((20 if name == "angular" else 9, 20), "float32")


@every_miner
def test_a_copy_of_the_batch_as_references_is_mined_like_the_batch_itself(name):
    x, not_itself = batch(), 1 - np.eye(len(LABELS), dtype="float32")
    against = pairs.pairs_with(LABELS, x, LABELS, x).scale(positive=not_itself)
    itself = MINERS[name]()(pairs.all_pairs(LABELS, x))
    assert itself.is_self
    if name == "angular":
        with pytest.raises(ValueError, match="a batch against itself"):
            MINERS[name]()(against)
        return
    mined = MINERS[name]()(against)
    assert not mined.is_self
    for ours, expected in zip(weights(mined), weights(itself), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


@on_every_backend
def test_weights_of_kept_pairs_do_not_change():
    @compiled
    def mine(x):
        made = pairs.all_pairs(LABELS, x).scale(positive=3.0, negative=0.5)
        return miners.ValidTriplets(margin=0.3)(made)[4:6]

    positive, negative = map(numbers, mine(batch()))
    assert set(np.unique(positive)) == {0, 3}
    assert set(np.unique(negative)) == {0, 0.5}


@on_every_backend
@pytest.mark.parametrize("name", RANDOM)
def test_draws_of_one_seed_are_the_same_and_differ_from_batch_to_batch(name):
    first, same = mine(name, batch()), mine(name, batch())
    following = mine(name, batch(), state=first.state)
    np.testing.assert_array_equal(first.negative, same.negative)
    assert (first.negative != following.negative).any()


# Compiled, saved and trained.


@pytest.fixture(scope="module")
def by_xla():
    """The weights of the miners for one batch, computed by one compiled function."""
    made = {name: MINERS[name]() for name in DISTINCT}
    return compiled(lambda x: {name: made[name](pairs.all_pairs(LABELS, x))[4:6] for name in made})(batch())


@pytest.mark.slow
@every_miner
def test_compiled_by_xla_it_selects_the_same(name, by_xla):
    found = [numbers(part) for part in by_xla[name]]
    if name in RANDOM:  # XLA has other random numbers
        assert np.isfinite(found).all()
    else:
        expected = weights(MINERS[name]()(pairs.all_pairs(LABELS, batch())))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@every_miner
def test_a_miner_comes_back_from_its_config(name):
    text = json.dumps(keras.saving.serialize_keras_object(MINERS[name]()))
    again = keras.saving.deserialize_keras_object(json.loads(text))
    made = pairs.all_pairs(LABELS, batch())
    for one, other in zip(weights(again(made)), weights(MINERS[name]()(made)), strict=True):
        np.testing.assert_array_equal(one, other)


# Settings.


@pytest.mark.parametrize("make", [getattr(miners, name) for name in miners.__all__ if name[0].isupper()])
def test_options_are_keyword_only(make):
    parameters = inspect.signature(make).parameters.values()
    positional = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    assert positional == []


def test_miners_with_the_same_settings_are_equal():
    assert miners.ValidTriplets(margin=0.25) == miners.ValidTriplets(margin=0.25) != miners.ValidTriplets()
    assert all(dataclasses.is_dataclass(EXACT[name][0].func) for name in ("valid triplets", "angular", "pair margin"))


REFUSED = {  # beside the limits of each number, in tests/test_limits.py
    "cutoff=1.5 and max_distance=1.4": lambda: miners.DistanceWeighted(cutoff=1.5),
    "one or more functions": miners.compose,
    "functions of Pairs": lambda: miners.compose(miners.BalancedPairs(), 3),
}


@pytest.mark.parametrize("error", REFUSED)
def test_settings_that_make_no_sense_together_are_refused_at_once(error):
    with pytest.raises(ValueError, match=f"^Received .*{error}"):
        REFUSED[error]()


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


@pytest.mark.parametrize("miner", [miners.HardestNegatives(), lambda pairs: pairs, miners.BalancedPairs(seed=0)])
def test_a_miner_is_refused_as_a_selector_of_negatives(miner):
    with pytest.raises(ValueError, match=r"Received negatives=.*, expected a selector, .* is for miner="):
        losses.TripletLoss(negatives=miner)


def test_functions_of_ones_own_are_taken_for_both():
    losses.TripletLoss(negatives=lambda pairs, d: lambda p: p, miner=lambda pairs: pairs)
    losses.TripletLoss(
        negatives=lambda *both: lambda p: p, miner=lambda pairs, weight=2.0: pairs.scale(negative=weight)
    )
