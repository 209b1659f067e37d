"""Losses in blocks of anchors: the value and the gradient of the whole batch."""

import math
import re
from functools import partial

import keras
import numpy as np
import pytest

from tests.backend import XLA, compiled, fast, float64, gradient, gradient_and_values, gradient_of, numbers
from tests.losses.rows import BRANCHES, DEFAULTS, FAMILIES, LARGE, LISTED, ROWS, WHOLE, batch, each, having, lacking
from tfdml import layers, losses, miners, models, pairs, samplers
from tfdml.losses.uncertainty import KL, Maximal, TopK, TopKBalanced
from tfdml.pairs import chunked
from tfdml.pairs.base import may_be_in_blocks
from tfdml.pairs.batch_reductions import BatchMean, batch_largest, batch_max, batch_rows, batch_sum, of_references
from tfdml.pairs.pairings import compare

LABELS, X = batch(LARGE)
SIZE = 11  # of three blocks of 32 anchors, of which the last is filled up

# One row for each way in which a loss depends on the whole batch.
WAYS = ["lifted structure", "histogram", "prototypical", "robust, top k"]


def evaluated(loss, way=fast, labels=LABELS, x=X):
    """The reduced loss, its gradient, and the values, which are computed in another way than the reduced loss."""

    def both(v):
        return loss(labels, v), loss.call(labels, v)

    scalar, slope, values = way(lambda v: gradient_and_values(both, v))(keras.ops.convert_to_tensor(x))
    return numbers(scalar), numbers(slope), numbers(values)


def require_equal(in_blocks, whole, rtol=1e-5):
    for received, expected in zip(in_blocks, whole, strict=True):
        np.testing.assert_allclose(received, expected, rtol=rtol, atol=rtol * max(np.abs(expected).max(), 0.1))


SLOW = ["dynamic soft margin", "dynamic soft margin of all triplets", "triplet, semi-hard negatives"]


@each(lacking(BRANCHES, WHOLE, LISTED), test=FAMILIES, ci=DEFAULTS, slow=SLOW)
def test_blocks_have_the_value_and_the_gradient_of_the_whole_batch(row):
    require_equal(evaluated(row.with_options(anchors_per_block=SIZE)), evaluated(row.with_options()), rtol=3e-5)


@each(having(BRANCHES, WHOLE))
def test_losses_that_need_the_whole_batch_refuse_blocks_with_the_reason(row):
    with pytest.raises(ValueError, match=r"anchors_per_block for .*: "):
        row.with_options(anchors_per_block=SIZE)(LABELS, X)


@pytest.mark.backends
@each({name: ROWS[name] for name in WAYS}, test={})
def test_compiled_blocks_have_the_value_and_the_gradient_of_the_whole_batch(row):
    in_blocks, whole = (evaluated(row.with_options(**way), compiled) for way in ({"anchors_per_block": SIZE}, {}))
    require_equal(in_blocks, whole, rtol=3e-5)


of_xla = pytest.mark.skipif(not XLA, reason="reads the text of what XLA has compiled")
LARGER = np.random.default_rng(0).integers(0, 64, 512)


@pytest.mark.backends
@pytest.mark.slow
@of_xla
def test_memory_grows_with_rows_and_not_with_pairs():
    def largest(loss, rows):
        labels, x = batch(LARGER[:rows].tolist(), dim=16)
        return largest_buffer(lambda v: gradient_and_values(lambda x: (loss(labels, x), x), v)[:2], x)

    whole, in_blocks = losses.MultiSimilarityLoss(), losses.MultiSimilarityLoss(anchors_per_block=8)
    assert largest(whole, 512) >= 512 * 512
    assert largest(in_blocks, 512) <= 2 * largest(in_blocks, 256) <= 64 * 512


@pytest.mark.backends
@pytest.mark.slow
@of_xla
@pytest.mark.parametrize("make", [losses.NTXentLoss, partial(losses.MarginLoss, distance="cosine")])
def test_a_compiled_evaluation_takes_one_product_and_training_three(make):
    labels, x = batch(LARGER[:64].tolist(), dim=256)
    loss = make(anchors_per_block=16)
    evaluation = text_of(lambda v: loss(labels, v), x)
    training = text_of(lambda v: gradient_and_values(lambda x: (loss(labels, x), x), v)[:2], x)
    assert [len(re.findall(r"\bdot\(", text)) for text in (evaluation, training)] == [1, 3]


def largest_buffer(function, x):
    """Entries of the largest array of a function that XLA has compiled."""
    shapes = re.findall(r"\b[fsu]\d+\[([\d,]+)\]", text_of(function, x))
    return max(math.prod(map(int, shape.split(","))) for shape in shapes)


def text_of(function, x):
    """A function as XLA has compiled it."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function).lower(x).compile().as_text()
    import tensorflow as tf

    return tf.function(function, jit_compile=True).experimental_get_compiler_ir(tf.constant(x))("optimized_hlo")


TOWERS = batch(range(64))[1].reshape(32, 2, 5)
SAMPLER = samplers.GroupSampler(classes_per_batch=4, examples_per_class=2, seed=0)
KNOWN = np.isin(LABELS, np.flatnonzero(np.bincount(LABELS) > 1))


def over(pairing, labels=LABELS, x=X, make=losses.NTXentLoss):
    return lambda size: evaluated(make(pairing=pairing, anchors_per_block=size), labels=labels, x=x)


def mined(miner):
    return lambda size: evaluated(losses.MultiSimilarityLoss(miner=miner, anchors_per_block=size))


def robust(uncertainty):
    base = partial(losses.ContrastiveLoss, negative_margin=2.0)
    return lambda size: evaluated(losses.RobustLoss(base(anchors_per_block=size), uncertainty=uncertainty))


def remembering(size):
    memory = layers.Memory(40, warm_up=0)
    loss = losses.ContrastiveLoss(pairing=memory, anchors_per_block=size)
    memory(LABELS, X)
    memory.update(LABELS, X[::-1].copy())
    return evaluated(loss)


def weighted(size):
    """The gradient of the reduced loss, and of its values, for weights of the anchors."""
    loss, weights = losses.MarginLoss(anchors_per_block=size), np.linspace(0.0, 2.0, 32).astype("float32")
    by_hand = gradient(lambda v: keras.ops.multiply(weights, loss.call(LABELS, v)), X)
    return gradient(lambda v: loss(LABELS, v, weights), X), by_hand


def with_importance(size):
    loss = losses.ContrastiveLoss(importance=SAMPLER.importance(LABELS), anchors_per_block=size)
    return evaluated(loss, labels=LABELS[KNOWN], x=X[KNOWN])


SAME = {  # what it computes, as a function of the size of the blocks, None for the whole batch
    "even against odd": over(pairs.even_against_odd),
    "two views": over(pairs.two_views),
    "two towers": over(pairs.two_towers, x=TOWERS),
    "two towers with labels of each": over(pairs.two_towers, np.stack([LABELS, LABELS[::-1]], 1), TOWERS),
    "proxies": over(layers.Proxies(LABELS, per_class=2, seed=0)),
    "a memory": remembering,
    "CLIP": over(pairs.two_towers, x=TOWERS, make=losses.CLIPLoss),
    "CLIP of unique labels": over(pairs.two_towers, np.arange(32), TOWERS, make=losses.CLIPLoss),
    "CLIP, mined": over(pairs.two_towers, x=TOWERS, make=partial(losses.CLIPLoss, miner=miners.EasyPositives())),
    "sigmoid": over(pairs.two_towers, x=TOWERS, make=losses.SigmoidLoss),
    "valid triplets": mined(miners.ValidTriplets()),
    "semi-hard": mined(miners.SemiHard(min_distance="positive", margin=0.5)),
    "hardest negatives": mined(miners.HardestNegatives()),
    "two miners": mined(miners.compose(miners.EasyPositives(k=2), miners.TripletViolations())),
    "importance": with_importance,
    "top k": robust(TopK(200)),
    "top k balanced": robust(TopKBalanced(100)),
    "KL": robust(KL(0.3)),
    "maximal": robust(Maximal()),
    "means of a sum": lambda n: evaluated(losses.MatryoshkaLoss(losses.MarginLoss(anchors_per_block=n), dims=(2, 5))),
    "weights of anchors": weighted,
}


@pytest.mark.parametrize("compute", SAME.values(), ids=SAME)
def test_all_that_a_loss_may_hold_has_blocks(compute):
    require_equal(compute(SIZE), compute(None))


@pytest.mark.parametrize("reduction", [None, "sum", "mean_with_sample_weight"])
def test_reductions_are_those_of_keras(reduction):
    whole, in_blocks = (losses.NTXentLoss(reduction=reduction, anchors_per_block=n) for n in (None, 32))
    weights = np.linspace(0.0, 2.0, len(LABELS)).astype("float32")
    np.testing.assert_allclose(in_blocks(LABELS, X, weights), whole(LABELS, X, weights), rtol=1e-5)


def test_random_layers_draw_other_numbers_in_each_block_and_in_each_step():
    labels, x = np.arange(16).repeat(2), np.tile(X[:1] / np.linalg.norm(X[:1]), (32, 1))  # all distances are equal
    drawn, dropout = [], keras.layers.Dropout(0.5, seed=0)

    def recorded(pairs, *, noise):
        drawn.append([numbers(y) for y in (pairs.negative, noise(keras.ops.ones_like(pairs.negative), training=True))])
        return keras.ops.sum(pairs.negative * pairs.negative, axis=1)

    loss = losses.PairLoss(recorded, noise=dropout, miner=miners.BalancedPairs(seed=0), anchors_per_block=8)
    for _ in range(2):
        loss.call(labels, x)
    assert [len({draws.tobytes() for draws in kind}) for kind in zip(*drawn, strict=True)] == [8, 8]  # of two steps
    assert all(negative.sum() == 8 for negative, _ in drawn)


def test_what_a_loss_learns_has_the_same_gradient():
    def trained(size):
        boundary = layers.Boundaries(class_ids=LABELS)
        loss = losses.MarginLoss(
            boundary=boundary, nu=0.1, pairing=layers.Proxies(LABELS, seed=0), anchors_per_block=size
        )
        inputs = keras.Input((5,))
        model = models.EmbeddingModel(inputs, keras.layers.Dense(5, kernel_initializer="identity")(inputs))
        model.compile(keras.optimizers.SGD(1.0), loss=loss)
        model.train_on_batch(X, LABELS)
        return [numbers(weight) for weight in model.trainable_variables]

    for received, expected in zip(trained(SIZE), trained(None), strict=True):
        np.testing.assert_allclose(received, expected, rtol=1e-5, atol=1e-6)


def test_half_precision_is_compared_in_single_precision():
    x = keras.ops.cast(X, "bfloat16")
    whole, in_blocks = (losses.MultiSimilarityLoss(anchors_per_block=n) for n in (None, SIZE))
    np.testing.assert_allclose(in_blocks(LABELS, x), whole(LABELS, x), rtol=1e-5)
    slope = lambda loss: numbers(keras.ops.cast(gradient_of(lambda v: loss(LABELS, v), x), "float32"))  # noqa: E731
    np.testing.assert_allclose(slope(in_blocks), slope(whole), rtol=0.02, atol=1e-4)


def test_double_precision_stays():
    x = X.astype("float64")
    in_blocks, whole = (losses.LiftedStructureLoss(anchors_per_block=n, dtype="float64") for n in (SIZE, None))
    with float64():
        np.testing.assert_allclose(in_blocks(LABELS, x), whole(LABELS, x), rtol=1e-13)


LEARNED = {  # each has a layer with float32 weights that its function reads
    "temperature": lambda **options: losses.CLIPLoss(pairing=pairs.even_against_odd, **options),
    "boundaries": lambda **options: losses.MarginLoss(boundary=layers.Boundaries(class_ids=LABELS), **options),
    "regressors": lambda **options: losses.AdversarialLoss(
        losses.ContrastiveLoss(anchors_per_block=options.pop("anchors_per_block")),
        dims=(2, 3),
        regressors=layers.Regressors((2, 3), units=4, seed=0),
        **options,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "reduction"), [("temperature", None), *((name, "sum_over_batch_size") for name in LEARNED)]
)
def test_embeddings_in_double_precision_may_meet_learned_numbers_in_single_precision(name, reduction):
    def total(loss):
        return lambda x: (keras.ops.sum(loss(LABELS, x)), loss.call(LABELS, x))

    with float64():
        x = keras.ops.convert_to_tensor(X.astype("float64"))
        made = (LEARNED[name](anchors_per_block=n, dtype="float64", reduction=reduction) for n in (SIZE, None))
        received, expected = ([*map(numbers, fast(partial(gradient_and_values, total(loss)))(x))] for loss in made)
    require_equal(received, expected, rtol=1e-6)


def test_a_batch_of_unknown_size_has_blocks():
    import tensorflow as tf

    loss = losses.MarginLoss(anchors_per_block=SIZE)
    signature = [tf.TensorSpec((None,), tf.int64), tf.TensorSpec((None, 5), tf.float32)]
    graph = tf.function(lambda labels, x: loss(labels, x), input_signature=signature)
    for rows in (32, 30, 3):
        expected = losses.MarginLoss()(LABELS[:rows], X[:rows])
        np.testing.assert_allclose(graph(LABELS[:rows], X[:rows]), expected, rtol=1e-5)


def test_a_large_batch_is_in_blocks_by_itself(monkeypatch):
    expected = evaluated(losses.MultiSimilarityLoss())
    monkeypatch.setattr(chunked, "BLOCK_BYTES", 4 * 32 * 7)
    loss = losses.MultiSimilarityLoss()
    assert loss.comparison(LABELS, X).num_anchors == 32
    assert chunked.block_size(None, loss.comparison(LABELS, X)) == 7
    require_equal(evaluated(loss), expected)


def test_blocks_are_even_small_on_a_cpu_and_large_on_an_accelerator(monkeypatch):
    def size(anchors, references):
        rows = np.zeros((anchors, 5), "float32"), np.zeros((references, 5), "float32")
        comparison = compare(np.zeros(anchors, "int32"), rows[0], np.zeros(references, "int32"), rows[1])
        return chunked.block_size(None, comparison)

    monkeypatch.setattr(chunked, "BLOCK_BYTES", 4 * 1000 * 30)
    assert [size(anchors, 1000) for anchors in (60, 61, 100)] == [None, 21, 25]
    assert size(5, 100_000) is None  # the pairs take no more than the references
    assert size(6, 100_000) == 1
    assert size(40_000, 2) == 507  # of 79 blocks
    monkeypatch.setattr(chunked, "only_cpus", lambda: False)
    monkeypatch.setattr(chunked, "BLOCK_BYTES_OF_ACCELERATORS", 4 * 1000 * 90)
    assert [size(anchors, 1000) for anchors in (180, 181, 270)] == [None, 61, 90]
    assert size(400_000, 2) == 44_445  # of 9 blocks


def test_what_may_need_the_whole_batch_gets_it(monkeypatch):
    expected = {loss: numbers(loss(LABELS, X)) for loss in (losses.ClusteringLoss(), losses.PairLoss(mean_of_block))}
    monkeypatch.setattr(chunked, "BLOCK_BYTES", 4 * 32 * 7)
    for loss, value in expected.items():
        np.testing.assert_allclose(loss(LABELS, X), value, rtol=1e-6)
    assert not np.allclose(losses.PairLoss(mean_of_block, anchors_per_block=7)(LABELS, X), expected.popitem()[1])


def test_losses_miners_and_distances_declare_whether_they_have_blocks():
    own_cost = "weighted contrastive with functions"
    assert {name for name, row in ROWS.items() if not row.loss.in_blocks} == {own_cost, *having(ROWS, WHOLE)}
    assert [name for name, make in DECLARED.items() if not may_be_in_blocks(make())] == []
    assert [name for name, make in {**UNDECLARED, **NEED_ALL}.items() if may_be_in_blocks(make())] == []


class OwnMargin(losses.MarginLoss):
    """A loss of a user, whose values may depend on all anchors."""


DECLARED = {
    "a composition": lambda: miners.compose(miners.EasyPositives(), miners.UniformHistogram(seed=0)),
    "a distance": lambda: miners.SemiHard(distance=pairs.snr),
    "a base": lambda: losses.RobustLoss(losses.MarginLoss(miner=miners.EasyPositives()), uncertainty=KL(0.1)),
}
UNDECLARED = {
    "a miner": lambda: losses.TripletLoss(miner=lambda p: p),
    "importance": lambda: losses.TripletLoss(importance=lambda p: p),
    "a miner in a composition": lambda: losses.TripletLoss(miner=miners.compose(lambda p: p)),
    "a distance": lambda: losses.TripletLoss(distance=lambda p: p.positive),
    "a distance of a miner": lambda: miners.UniformHistogram(distance=lambda p: p.positive),
    "a base": lambda: losses.MatryoshkaLoss(OwnMargin()),
    "uncertainty": lambda: losses.RobustLoss(losses.MarginLoss(), uncertainty=lambda losses, pairs: losses),
    "a loss": OwnMargin,
}


def mean_of_block(p):
    """A loss of a user who takes the pairs for all of the batch."""
    return keras.ops.sum(p.positive * pairs.squared(p), axis=1) / keras.ops.sum(p.positive)


def mean_times_a_sum_of_a_sum(p):
    d = keras.ops.sum(p.positive * pairs.squared(p), axis=1)
    total = batch_sum(keras.ops.sum(d), p, has_gradient=True)
    total = batch_sum(keras.ops.sum(total * d), p, has_gradient=True)
    return total * d / batch_sum(keras.ops.sum(p.positive), p)


def sums_and_numbers(p):
    return BatchMean(keras.ops.sum(p.positive * pairs.squared(p), axis=1), keras.ops.sum(p.positive, axis=1))


def largest_and_last_row(p):
    norms = keras.ops.sum(p.anchors, axis=1)
    masked = norms - 9.0 if p.block is None else keras.ops.where(p.block.is_valid, norms - 9.0, -float("inf"))
    third, largest = batch_largest(keras.ops.sort(masked)[-3:], 3, p)[0], batch_max(keras.ops.amax(masked), p)
    return 0.0 * norms + third + largest + batch_rows(norms, p)[-1]


@pytest.mark.parametrize("function", [mean_times_a_sum_of_a_sum, sums_and_numbers, largest_and_last_row])
def test_own_losses_take_numbers_of_the_batch(function):
    in_blocks, whole = (evaluated(losses.PairLoss(function, anchors_per_block=n)) for n in (7, None))
    require_equal(in_blocks, whole)


def test_a_subclass_with_values_of_its_own_has_them_in_blocks():
    class Doubled(losses.MarginLoss):
        def values(self, pairs_of_batch):
            return 2.0 * super().values(pairs_of_batch)

    received, expected = Doubled(anchors_per_block=SIZE), losses.MarginLoss()
    np.testing.assert_allclose(received(LABELS, X), 2.0 * numbers(expected(LABELS, X)), rtol=1e-5)


def test_functions_of_the_references_are_computed_once_for_all_blocks():
    calls = []

    def largest(references):
        calls.append(references)
        return keras.ops.amax(references, axis=0)

    def to_largest(pairs):
        number_of_blocks = batch_sum(keras.ops.ones(()), pairs)
        return keras.ops.sum(pairs.anchors * of_references(largest, pairs), axis=1) / number_of_blocks

    values = losses.PairLoss(to_largest, anchors_per_block=8).call(LABELS, X)
    assert len(calls) == 1
    np.testing.assert_allclose(values, X @ X.max(0) / 4, rtol=1e-5, atol=1e-6)  # of four blocks


@pytest.mark.parametrize("name", ["margin", "margin over all pairs", "triplet", "hierarchical triplet"])
def test_a_mean_over_the_batch_takes_no_loop_of_its_own(name):
    calls = []
    match = lambda labels, others: calls.append(others) or labels[:, None] == others  # noqa: E731
    ROWS[name].with_options(match=match, anchors_per_block=8).call(LABELS, X)
    assert len(calls) == 5  # block 0, then all four


def test_a_batch_that_is_not_finite_has_no_finite_loss():
    x = X.copy()
    x[17] = np.nan
    scalar, slope, values = evaluated(losses.ContrastiveLoss(anchors_per_block=SIZE), x=x)
    assert np.isnan(scalar)
    assert np.isnan(slope).all()
    assert np.isnan(values).all()


class HalfProxies(layers.Proxies):
    """Proxies with a pairing of their own, which halves the weights of positive pairs."""

    def call(self, labels, embeddings, match=None):
        batch_pairs = super().call(labels, embeddings, match)
        return batch_pairs._replace(positive=batch_pairs.positive / 2)


REFUSED = {
    "no anchors": lambda: losses.ContrastiveLoss(anchors_per_block=0),
    "a fraction": lambda: losses.ContrastiveLoss(anchors_per_block=2.5),
    "a list of pairs": lambda: losses.ContrastiveLoss(pairing=pairs.consecutive_pairs, anchors_per_block=4),
    "own pairing": lambda: losses.ContrastiveLoss(pairing=lambda y, x: pairs.all_pairs(y, x), anchors_per_block=4),
    "own references": lambda: losses.ContrastiveLoss(pairing=HalfProxies(LABELS, seed=0), anchors_per_block=4),
}
NEED_ALL = {
    "miner of the batch": lambda: losses.ContrastiveLoss(miner=miners.HardestNegativesOfBatch(), anchors_per_block=8),
    "angular miner": lambda: losses.ContrastiveLoss(miner=miners.Angular(), anchors_per_block=8),
    "distance in two ways": lambda: losses.BatchHardTripletLoss(distance=pairs.two_way_euclidean, anchors_per_block=8),
    "draws from all pairs": lambda: losses.RobustLoss(
        losses.ContrastiveLoss(anchors_per_block=8), uncertainty=KL(0.1, num_samples=9)
    ),
}


@pytest.mark.parametrize("make", [*REFUSED.values(), *NEED_ALL.values()], ids=[*REFUSED, *NEED_ALL])
def test_what_has_no_blocks_is_refused_with_the_reason(make):
    with pytest.raises(ValueError, match=r"^Received .*anchors_per_block"):
        make()(LABELS, X)


def test_references_with_their_own_call_are_compared_as_a_whole():
    expected = losses.ContrastiveLoss(pairing=layers.Proxies(8, seed=0))
    loss = losses.ContrastiveLoss(pairing=HalfProxies(8, seed=0))
    assert float(loss(LABELS % 8, X)) != pytest.approx(float(expected(LABELS % 8, X)))


@pytest.mark.backends
def test_a_batch_smaller_than_a_block_is_one_block():
    require_equal(evaluated(losses.NTXentLoss(anchors_per_block=1000)), evaluated(losses.NTXentLoss()), rtol=3e-5)


def test_blocks_are_saved_with_the_loss():
    loss = losses.ContrastiveLoss(anchors_per_block=8)
    assert type(loss).from_config(loss.get_config()).anchors_per_block == 8
    assert losses.RobustLoss(loss, uncertainty=TopK(4)).anchors_per_block == 8
