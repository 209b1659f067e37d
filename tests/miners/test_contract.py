"""What every miner promises. Adding a miner is adding a row."""

import json
from functools import partial

import keras
import numpy as np
import pytest

from tests.backend import BACKEND, compiled, gradient, numbers
from tests.miners import loops
from tfdml import losses, miners, models, pairs

pytestmark = pytest.mark.backends


def row(make, by_loops, **settings):
    """A miner and its oracle, with the same settings."""
    return make(**settings), partial(by_loops, **settings)


EXACT = {
    "valid triplets": row(miners.ValidTriplets, loops.valid_triplets),
    "valid triplets, wider": row(miners.ValidTriplets, loops.valid_triplets, margin=0.5),
    "triplet violations": row(miners.TripletViolations, loops.triplet_violations),
    "triplet violations on plain distances": row(
        miners.TripletViolations, loops.triplet_violations, margin=-0.1, distance="euclidean"
    ),
    "angular": row(miners.Angular, loops.angular),
    "angular, wider": row(miners.Angular, loops.angular, angle=35.0),
    "semi-hard, the nearest beyond 0.5": row(miners.SemiHard, loops.semi_hard),
    "semi-hard, a band beyond 1": row(miners.SemiHard, loops.semi_hard, lower=1.0, margin=0.3),
    "semi-hard, the nearest beyond each positive": row(miners.SemiHard, loops.semi_hard, lower="positive"),
    "semi-hard, bands beyond positives": row(
        miners.SemiHard, loops.semi_hard, lower="positive", margin=0.1, distance="squared"
    ),
    "pair margin": row(miners.PairMargin, loops.pair_margin),
    "pair margin on cosine distances": row(
        miners.PairMargin, loops.pair_margin, positive_margin=0.5, negative_margin=1.1, distance="cosine"
    ),
    "hardest negatives": row(miners.HardestNegatives, loops.hardest_negatives),
    "hardest positives": row(miners.HardestPositives, loops.hardest_positives),
    "easy positives": row(miners.EasyPositives, loops.easy_positives, distance="squared"),
    "distance weighted, expected": (miners.DistanceWeighted(expected=True), loops.distance_weighted),
    "distance weighted, other limits": (
        miners.DistanceWeighted(cutoff=0.9, far=1.7, expected=True),
        partial(loops.distance_weighted, cutoff=0.9, far=1.7),
    ),
    "hardest positives, then valid triplets": (
        miners.compose(miners.HardestPositives(), miners.PairMargin(0.0, 1.2)),
        lambda labels, x: tuple(
            a * b
            for a, b in zip(loops.hardest_positives(labels, x), loops.pair_margin(labels, x, 0.0, 1.2), strict=True)
        ),
    ),
}
RANDOM = {
    "distance weighted": partial(miners.DistanceWeighted, seed=3),
    "balanced pairs": partial(miners.BalancedPairs, seed=3),
    "uniform histogram": partial(miners.UniformHistogram, seed=3, positives_per_bin=2, negatives_per_bin=2, bins=5),
    "composition": lambda: miners.compose(miners.EasyPositives(), miners.BalancedPairs(seed=3)),
}
FIRST = {type(miner): name for name, (miner, _) in reversed(EXACT.items())}
# JAX compiles each operation of each row: one row a class there, but for the weights.
FEWER = EXACT if BACKEND == "tensorflow" else {name: EXACT[name] for name in FIRST.values()}
MINERS = {**{name: (lambda miner=miner: miner) for name, (miner, _) in FEWER.items()}, **RANDOM}
every_miner = pytest.mark.parametrize("make", MINERS.values(), ids=MINERS)

LABELS = np.repeat(np.arange(7), [1, 2, 3, 4, 5, 3, 2])


def batch(labels=LABELS, dim=4, seed=0):
    """Unit vectors, those of a class near each other."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((len(labels), dim)) + 1.5 * rng.standard_normal((labels.max() + 1, dim))[labels]
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype("float32")


def weights(mined):
    return numbers(mined.positive), numbers(mined.negative)


@pytest.mark.parametrize(("miner", "by_loops"), EXACT.values(), ids=EXACT)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_weights_are_those_of_loops_over_the_rule(miner, by_loops, seed):
    x = batch(seed=seed)
    for ours, expected in zip(
        weights(miner(pairs.all_pairs(LABELS, x))), by_loops(LABELS, x.astype("float64")), strict=True
    ):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in EXACT if "distance weighted" not in name])
def test_every_rule_keeps_some_pairs_of_the_batch_and_drops_others(name):
    made = pairs.all_pairs(LABELS, batch())
    before, after = (sum(part.sum() for part in weights(some)) for some in (made, EXACT[name][0](made)))
    assert 0 < after < before


@pytest.mark.parametrize("miner", [miner for miner, _ in FEWER.values()], ids=FEWER)
def test_compiled_by_xla_it_chooses_the_same(miner):
    x = batch()
    found = compiled(lambda v: miner(pairs.all_pairs(LABELS, v))[4:6])(x)
    for one, other in zip(found, weights(miner(pairs.all_pairs(LABELS, x))), strict=True):
        np.testing.assert_allclose(numbers(one), other, rtol=1e-4, atol=1e-5)


@every_miner
def test_pairs_stay_what_they_are_and_no_gradient_flows_through_the_choice(make):
    miner, x = make(), batch()
    made = pairs.all_pairs(LABELS, x)
    mined = miner(made)
    positive, negative = weights(mined)
    assert mined.within
    assert not positive[numbers(made.positive) == 0].any()
    assert not negative[numbers(made.negative) == 0].any()
    assert (positive >= 0).all()
    assert (negative >= 0).all()
    slope = gradient(lambda v: sum(miner(pairs.all_pairs(LABELS, v))[4:6]) + 0 * keras.ops.sum(v), x)
    np.testing.assert_array_equal(slope, np.zeros_like(x))


@every_miner
@pytest.mark.parametrize("labels", [np.zeros(6, int), np.arange(6), np.zeros(1, int)], ids=["one", "many", "alone"])
def test_batches_without_one_kind_of_pairs_are_mined_too(make, labels):
    mined = make()(pairs.all_pairs(labels, batch(labels)))
    for weight in weights(mined):
        assert np.isfinite(weight).all()
    loss = losses.ContrastiveLoss(miner=make())
    assert np.isfinite(numbers(loss(labels, batch(labels))))


@every_miner
def test_equal_embeddings_are_mined_too(make):
    x = np.tile(batch()[:1], (len(LABELS), 1))
    for weight in weights(make()(pairs.all_pairs(LABELS, x))):
        assert np.isfinite(weight).all()


@every_miner
def test_half_precision_embeddings_are_mined_in_float32(make):
    x = keras.ops.cast(batch(), "bfloat16")
    mined = make()(pairs.all_pairs(LABELS, x))
    assert keras.backend.standardize_dtype(mined.negative.dtype) == "float32"


@every_miner
def test_anchors_may_have_other_references(make):
    if make().__class__ is miners.Angular:
        with pytest.raises(ValueError, match="a batch against itself"):
            make()(pairs.pairs_with(LABELS, batch(), LABELS, batch(seed=1)))
        return
    mined = make()(pairs.pairs_with(LABELS[:9], batch()[:9], LABELS, batch(seed=1)))
    assert tuple(mined.negative.shape) == (9, len(LABELS))


@every_miner
def test_a_miner_comes_back_from_its_config(make):
    text = json.dumps(keras.saving.serialize_keras_object(make()))
    again = keras.saving.deserialize_keras_object(json.loads(text))
    made = pairs.all_pairs(LABELS, batch())
    for one, other in zip(weights(again(made)), weights(make()(made)), strict=True):
        np.testing.assert_array_equal(one, other)


@every_miner
def test_a_model_trains_with_it(make):
    inputs = keras.Input((4,))
    model = models.EmbeddingModel(inputs, keras.layers.UnitNormalization()(keras.layers.Dense(4)(inputs)))
    model.compile("sgd", loss=losses.MarginLoss(miner=make()), jit_compile=True)
    history = model.fit(batch(), LABELS, batch_size=len(LABELS), epochs=2, verbose=0, shuffle=False)
    assert np.isfinite(history.history["loss"]).all()


@pytest.mark.parametrize("make", RANDOM.values(), ids=RANDOM)
def test_draws_of_one_seed_are_the_same_and_differ_from_batch_to_batch(make):
    made = pairs.all_pairs(LABELS, batch())
    one, other = make(), make()
    first, second, third = (numbers(miner(made).negative) for miner in (one, other, one))
    np.testing.assert_array_equal(first, second)
    assert (first != third).any()


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: miners.SemiHard(lower=-1.0), "lower=-1.0"),
        (lambda: miners.SemiHard(lower="hard"), "lower='hard'"),
        (lambda: miners.SemiHard(margin=0.0), "margin=0.0"),
        (lambda: miners.ValidTriplets(margin=float("nan")), "margin=nan"),
        (lambda: miners.SemiHardNegatives(margin=-8), "margin=-8"),
        (lambda: miners.SemiHard(distance="manhattan"), "distance='manhattan'"),
        (lambda: miners.PairMargin(positive_margin=-0.1), "positive_margin=-0.1"),
        (lambda: miners.PairMargin(negative_margin=0.0), "negative_margin=0.0"),
        (lambda: miners.TripletViolations(margin=float("nan")), "margin=nan"),
        (lambda: miners.Angular(angle=90.0), "angle=90.0"),
        (lambda: miners.HardestNegatives(distance="far"), "distance='far'"),
        (lambda: miners.DistanceWeighted(cutoff=1.5, far=1.4), "cutoff=1.5 and far=1.4"),
        (lambda: miners.DistanceWeighted(far=2.1), "far=2.1"),
        (lambda: miners.DistanceWeightedNegatives(clip=0), "clip=0"),
        (lambda: miners.UniformHistogram(bins=0), "bins=0"),
        (lambda: miners.UniformHistogram(negatives_per_bin=1.5), "negatives_per_bin=1.5"),
        (lambda: miners.compose(), "one or more functions"),
        (lambda: miners.compose(miners.BalancedPairs(), 3), "functions of Pairs"),
    ],
)
def test_settings_that_make_no_sense_are_refused_at_once(make, error):
    with pytest.raises(ValueError, match=error):
        make()
