"""What every miner promises on every backend. Adding a miner is adding a row to `table`."""

import functools
from typing import NamedTuple

import keras
import numpy as np
import pytest

from tests.backend import XLA, compiled, fast, gradient_of, numbers, spec
from tests.miners.table import EXACT, LABELS, MINERS, RANDOM, batch, each
from tfdml import losses, miners, models, pairs

pytestmark = pytest.mark.backends

every_miner, every_random_miner = each(MINERS), each(RANDOM)


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


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_weights_are_those_of_loops_over_the_rule(name, seed):
    x, by_loops = batch(seed=seed), EXACT[name][1]
    for ours, expected in zip(mine(name, x)[:2], by_loops(LABELS, x.astype("float64")), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


@each(name for name in EXACT if "distance weighted" not in name)
def test_every_rule_keeps_some_pairs_of_the_batch_and_drops_others(name):
    mined = mine(name, batch())
    assert 0 < mined.positive.sum() + mined.negative.sum() < len(LABELS) * (len(LABELS) - 1)


@every_miner
def test_only_pairs_have_weights_and_no_gradient_flows_through_the_selection(name):
    mined, same = mine(name, batch()), LABELS[:, None] == LABELS
    assert not mined.positive[~same | np.eye(len(LABELS), dtype=bool)].any()
    assert not mined.negative[same].any()
    assert (mined.positive >= 0).all()
    assert (mined.negative >= 0).all()
    np.testing.assert_array_equal(mined.gradient, np.zeros_like(batch()))


@every_miner
@pytest.mark.parametrize("labels", [np.zeros(20, int), np.arange(20)], ids=["one class", "classes of one"])
def test_batches_without_one_kind_of_pairs_are_mined_too(name, labels):
    for part in mine(name, batch(labels), labels)[:3]:
        assert np.isfinite(part).all()


def mined_spec(name, made):
    """Shape and type of the negative weights of the pairs that `made` makes of a batch."""
    miner = MINERS[name]()
    return spec(lambda x, state: stateless(miner, made(x), state)[0].negative, batch(), state_of(name))


@every_miner
def test_half_precision_embeddings_are_mined_in_float32(name):
    def made(x):
        return pairs.all_pairs(LABELS, keras.ops.cast(x, "bfloat16"))

    assert mined_spec(name, made) == ((20, 20), "float32")


@every_miner
def test_anchors_may_have_other_references(name):
    def made(x):
        return pairs.pairs_with(LABELS[:9], x[:9], LABELS, batch(seed=1))

    if name.startswith("angular"):
        with pytest.raises(ValueError, match="a batch against itself"):
            mined_spec(name, made)
    else:
        assert mined_spec(name, made) == ((9, 20), "float32")


@every_random_miner
def test_draws_of_one_seed_are_the_same_and_differ_from_batch_to_batch(name):
    first, same = mine(name, batch()), mine(name, batch())
    following = mine(name, batch(), state=first.state)
    np.testing.assert_array_equal(first.negative, same.negative)
    assert (first.negative != following.negative).any()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["angular", "distance weighted", "composition"])
def test_a_model_trains_with_it(name):
    inputs = keras.Input((4,))
    model = models.EmbeddingModel(inputs, keras.layers.UnitNormalization()(keras.layers.Dense(4)(inputs)))
    model.compile("sgd", loss=losses.MarginLoss(miner=MINERS[name]()), jit_compile=XLA)
    history = model.fit(batch(), LABELS, batch_size=len(LABELS), epochs=2, verbose=0, shuffle=False)
    assert np.isfinite(history.history["loss"]).all()


def test_weights_of_kept_pairs_do_not_change():
    @compiled
    def mine(x):
        made = pairs.all_pairs(LABELS, x).scale(positive=3.0, negative=0.5)
        return miners.ValidTriplets(margin=0.3)(made)[4:6]

    positive, negative = map(numbers, mine(batch()))
    assert set(np.unique(positive)) == {0, 3}
    assert set(np.unique(negative)) == {0, 0.5}


@pytest.mark.parametrize("labels", [np.zeros(20, int), np.arange(20)], ids=["no negatives", "no positives"])
@pytest.mark.parametrize("name", ["valid triplets", "triplet violations", "angular"])
def test_an_anchor_without_both_kinds_of_pairs_is_in_no_triplet(name, labels):
    mined = mine(name, batch(labels), labels)
    assert not mined.positive.any()
    assert not mined.negative.any()
