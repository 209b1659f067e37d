"""What every loss promises. Adding a loss is adding a row."""

import functools
import importlib
import inspect
import json
import pydoc
from functools import partial

import keras
import numpy as np
import pytest

from tests.backend import BACKEND, compiled, fast, float64, gradient, gradient_of, numbers
from tests.losses import loops
from tfdml import losses, miners, pairs
from tfdml.losses.histogram import soft_histogram

pytestmark = pytest.mark.backends
quadruplets_module = importlib.import_module("tfdml.losses.quadruplet")  # `losses.quadruplet` is the function

COUNTS = {0: 3, 1: 4, 2: 5, 3: 6, 4: 2, 5: 3, 6: 4, 7: 9, 8: 12, 9: 2}
CONSECUTIVE = {"pairing": pairs.consecutive_pairs}


@keras.saving.register_keras_serializable("tests")
def softplus(d):
    return keras.ops.softplus(d)


def row(make, by_loops, **settings):
    """A loss and its oracle, with the same settings."""
    return make(**settings), partial(by_loops, **settings)


def consecutive(make, cost, **settings):
    """A loss over a batch that is a list of pairs, and its oracle."""
    return make(**settings, **CONSECUTIVE), partial(loops.consecutive, cost=cost, **settings)


def chosen(negatives, rule, band=None, **settings):
    """The triplet loss with one negative for each positive, and its oracle."""
    by_loops = partial(loops.triplet, negatives=rule, band=band, **settings)
    return losses.TripletLoss(negatives=negatives, **settings), by_loops


def robust(uncertainty, weights, base=None, cost=loops.margin_on_similarities, **settings):
    """A robust loss, over the margin loss on similarities by default, and its oracle."""
    base = base or losses.MarginLoss(margin=0.2, boundary=0.5, distance="cosine")
    return (
        losses.RobustLoss(base, uncertainty=uncertainty),
        partial(loops.robust, cost=cost, weights=partial(weights, **settings)),
    )


# name: (loss, the same by loops). The first row of each class has its defaults.
ROWS = {
    "contrastive": row(losses.ContrastiveLoss, loops.contrastive),
    "contrastive with both margins": row(
        losses.ContrastiveLoss, loops.contrastive, positive_margin=0.5, negative_margin=2.5
    ),
    "contrastive on squared distances": row(
        losses.ContrastiveLoss, loops.contrastive, distance="squared", negative_margin=4.0
    ),
    "contrastive on cosine distances": row(losses.ContrastiveLoss, loops.contrastive, distance="cosine"),
    "contrastive on consecutive pairs": (
        losses.ContrastiveLoss(negative_margin=3.0, **CONSECUTIVE),
        partial(loops.contrastive_of_consecutive, negative_margin=3.0),
    ),
    "weighted contrastive": row(losses.WeightedContrastiveLoss, loops.weighted_contrastive),
    "weighted contrastive with functions": (
        losses.WeightedContrastiveLoss(g=softplus, h=losses.HingeSquared(2.0), eta=0.3, distance="squared"),
        partial(
            loops.weighted_contrastive,
            g=lambda d: np.log1p(np.exp(d)),
            h=lambda d: max(0, 2 - d) ** 2,
            eta=0.3,
            distance="squared",
        ),
    ),
    "weighted contrastive on consecutive pairs": consecutive(
        losses.WeightedContrastiveLoss, loops.weighted_contrastive_cost, eta=0.5
    ),
    "balanced contrastive": row(losses.BalancedContrastiveLoss, loops.balanced_contrastive, class_counts=COUNTS),
    "balanced contrastive with other settings": row(
        losses.BalancedContrastiveLoss,
        loops.balanced_contrastive,
        class_counts=COUNTS,
        negatives_per_positive=8.0,
        margin=3.0,
        distance="squared",
    ),
    "balanced contrastive on consecutive pairs": consecutive(
        losses.BalancedContrastiveLoss, loops.balanced_contrastive_cost, class_counts=COUNTS, margin=3.0
    ),
    "cosine contrastive": row(losses.CosineContrastiveLoss, loops.cosine_contrastive),
    "cosine contrastive on consecutive pairs": consecutive(
        losses.CosineContrastiveLoss, loops.cosine_contrastive_cost, threshold=-0.3
    ),
    "cosine regression": row(losses.CosineRegressionLoss, loops.cosine_regression),
    "cosine regression on consecutive pairs": consecutive(losses.CosineRegressionLoss, loops.cosine_regression_cost),
    "distance logistic": row(losses.DistanceLogisticLoss, loops.distance_logistic),
    "distance logistic on squared distances": row(
        losses.DistanceLogisticLoss, loops.distance_logistic, margin=3.0, distance="squared"
    ),
    "distance logistic on consecutive pairs": consecutive(
        losses.DistanceLogisticLoss, loops.distance_logistic_cost, margin=2.0
    ),
    "binomial deviance": row(losses.BinomialDevianceLoss, loops.binomial_deviance),
    "binomial deviance on consecutive pairs": consecutive(
        losses.BinomialDevianceLoss, loops.binomial_deviance_cost, alpha=3.0, beta=10.0, threshold=0.1
    ),
    "margin": row(losses.MarginLoss, loops.margin_loss),
    "margin over all pairs": row(losses.MarginLoss, loops.margin_loss, normalize="all", margin=0.4, boundary=1.0),
    "margin on consecutive pairs": (
        losses.MarginLoss(boundary=1.4, **CONSECUTIVE),
        partial(loops.margin_loss_of_consecutive, boundary=1.4),
    ),
    "margin on similarities": row(losses.MarginLoss, loops.margin_loss, distance="cosine", boundary=0.5),
    "robust, KL": robust(losses.KL(0.1), loops.kl),
    "robust, KL over binomial deviance": robust(
        losses.KL(0.5),
        loops.kl,
        losses.BinomialDevianceLoss(beta=5.0),
        partial(loops.binomial_deviance_cost, beta=5.0),
        gamma=0.5,
    ),
    "robust, top k": robust(losses.TopK(2), loops.top_k, k=2),
    "robust, top k over the contrastive loss": robust(
        losses.TopK(2), loops.top_k, losses.ContrastiveLoss(), loops.contrastive_pair, k=2
    ),
    "robust, top k balanced": robust(losses.TopKBalanced(2), loops.top_k_balanced, k=2),
    "robust, grouped KL": robust(losses.GroupedKL(), loops.grouped_kl),
    "robust, grouped KL with pseudo pairs": robust(
        losses.GroupedKL(0.2, negative_gamma=0.05, pseudo=0.1),
        loops.grouped_kl,
        gamma=0.2,
        negative_gamma=0.05,
        pseudo=0.1,
    ),
    "robust, variance": robust(losses.Variance(1.0), loops.variance),
    "robust, more variance": robust(losses.Variance(20.0), loops.variance, rho=20.0),
    "robust, maximal": robust(losses.Maximal(), loops.maximal),
    "triplet": row(losses.TripletLoss, loops.triplet),
    "triplet on plain distances": row(losses.TripletLoss, loops.triplet, distance="euclidean", margin=1.0),
    "triplet, mean of active": row(losses.TripletLoss, loops.triplet, distance="cosine", normalize="active"),
    "triplet, soft": row(losses.TripletLoss, loops.triplet, soft=True, distance="euclidean"),
    "triplet, ratio": row(losses.TripletLoss, loops.triplet, ratio=True, margin=1.0),
    "triplet, swapped": row(losses.TripletLoss, loops.triplet, swap=True, margin=1.0),
    "triplet, swapped, mean of active": row(losses.TripletLoss, loops.triplet, swap=True, normalize="active"),
    "triplet, hardest negatives": chosen(miners.hardest_negatives, "hardest", distance="euclidean"),
    "triplet, hardest negatives, swapped": chosen(miners.hardest_negatives, "hardest", swap=True, margin=1.0),
    "triplet, semi-hard negatives": chosen(miners.semi_hard_negatives, "semi_hard", margin=1.0),
    "triplet, semi-hard negatives inside a margin": chosen(
        miners.SemiHardNegatives(margin=2.0), "semi_hard", band=2.0, margin=2.0, normalize="active"
    ),
    "batch hard": row(losses.BatchHardTripletLoss, loops.batch_hard_triplet),
    "batch hard on squared distances": row(
        losses.BatchHardTripletLoss, loops.batch_hard_triplet, distance="squared", margin=1.0
    ),
    "batch hard, soft": row(losses.BatchHardTripletLoss, loops.batch_hard_triplet, soft=True, distance="cosine"),
    "batch hard, swapped, mean of active": row(
        losses.BatchHardTripletLoss, loops.batch_hard_triplet, swap=True, normalize="active"
    ),
    "lifted structure": row(losses.LiftedStructureLoss, loops.lifted_structure),
    "lifted structure with the nested maximum": row(
        losses.LiftedStructureLoss, loops.lifted_structure, hard=True, margin=3.0
    ),
    "lifted structure, not squared": row(
        losses.LiftedStructureLoss, loops.lifted_structure, squared=False, distance="cosine"
    ),
    "generalized lifted": row(losses.GeneralizedLiftedLoss, loops.generalized_lifted),
    "generalized lifted on similarities": row(
        losses.GeneralizedLiftedLoss, loops.generalized_lifted, distance="cosine", margin=0.1
    ),
    "n-pairs": row(losses.NPairsLoss, loops.n_pairs),
    "n-pairs with a regularizer": row(losses.NPairsLoss, loops.n_pairs, l2=0.02),
    "n-pairs, two a class": (
        losses.NPairsLoss(l2=0.1, pairing=pairs.even_against_odd),
        partial(loops.n_pairs_even_against_odd, l2=0.1),
    ),
    "NCA": row(losses.NCALoss, loops.nca),
    "NCA, logarithm": row(losses.NCALoss, loops.nca, log=True),
    "NT-Xent": row(losses.NTXentLoss, loops.nt_xent),
    "NT-Xent, warmer": row(losses.NTXentLoss, loops.nt_xent, temperature=0.5),
    "SupCon": row(losses.SupConLoss, loops.sup_con),
    "circle": row(losses.CircleLoss, loops.circle),
    "circle for re-identification": row(losses.CircleLoss, loops.circle, margin=0.25, scale=128.0),
    "tuplet margin": row(losses.TupletMarginLoss, loops.tuplet_margin),
    "tuplet margin, softer": row(losses.TupletMarginLoss, loops.tuplet_margin, margin=20.0, scale=5.0),
    "multi-similarity": row(losses.MultiSimilarityLoss, loops.multi_similarity),
    "multi-similarity with other settings": row(
        losses.MultiSimilarityLoss, loops.multi_similarity, alpha=5.0, beta=20.0, threshold=-0.2
    ),
    "multi-similarity of valid triplets": (
        losses.MultiSimilarityLoss(miner=miners.ValidTriplets(margin=0.1)),
        loops.mined_multi_similarity,
    ),
    "RAW": row(losses.RAWLoss, loops.raw),
    "HAP2S": row(losses.HAP2SLoss, loops.hap2s),
    "HAP2S, harder": row(losses.HAP2SLoss, loops.hap2s, margin=0.5, temperature=0.1),
    "angular": row(losses.AngularLoss, loops.angular),
    "angular, narrower": row(losses.AngularLoss, loops.angular, angle=30.0),
    "quadruplet": row(losses.QuadrupletLoss, loops.quadruplet),
    "quadruplet on plain distances": row(
        losses.QuadrupletLoss, loops.quadruplet, margin=0.5, second_margin=0.2, distance="euclidean"
    ),
    "histogram": row(losses.HistogramLoss, loops.histogram),
    "histogram of few bins": row(losses.HistogramLoss, loops.histogram, bins=7),
    "FastAP": row(losses.FastAPLoss, loops.fast_ap),
    "FastAP of many bins": row(losses.FastAPLoss, loops.fast_ap, bins=50),
    "SmoothAP": row(losses.SmoothAPLoss, loops.smooth_ap),
    "SmoothAP, smoother": row(losses.SmoothAPLoss, loops.smooth_ap, temperature=0.2),
    "ranked list": row(losses.RankedListLoss, loops.ranked_list),
    "ranked list with hard positives": row(
        losses.RankedListLoss, loops.ranked_list, margin=0.2, boundary=1.4, positive_temperature=5.0, balance=0.3
    ),
    "coupled clusters": row(losses.CoupledClustersLoss, loops.coupled_clusters),
    "prototypical": row(losses.PrototypicalLoss, loops.prototypical),
    "prototypical of two shots": row(losses.PrototypicalLoss, loops.prototypical, shots=2),
}
DEFAULTS = {type(loss).__name__: loss for loss, _ in reversed(ROWS.values())}
# JAX compiles each row for minutes: one row a class there, but for values and gradients.
FEWER = ROWS if BACKEND == "tensorflow" else {name: row for name, row in ROWS.items() if row[0] in DEFAULTS.values()}
LOSSES = {name: loss for name, (loss, _) in FEWER.items()}
every_row = pytest.mark.parametrize(("loss", "by_loops"), ROWS.values(), ids=ROWS)
every_row_in_random_batches = pytest.mark.parametrize(("loss", "by_loops"), FEWER.values(), ids=FEWER)
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
every_class = pytest.mark.parametrize("loss", DEFAULTS.values(), ids=DEFAULTS)

UNEVEN = {
    "three classes": [0, 0, 1, 1, 1, 7, 7, 7],
    "one of its own": [3, 3, 3, 9, 5, 5, 6, 6],
    "large": np.repeat(np.arange(9), [1, 2, 3, 4, 5, 6, 2, 1, 8]).tolist(),
}
# JAX compiles every operation for every shape: there, all batches have one.
LARGEST = UNEVEN["large"] if BACKEND == "tensorflow" else UNEVEN["three classes"]
every_batch = pytest.mark.parametrize("labels", UNEVEN.values(), ids=UNEVEN)

UNIT = np.array([[0.6, 0.8], [-0.6, 0.8], [1.0, 0.0], [0.0, -1.0]], dtype="float32")
EMPTY = {
    "one class": ([4, 4, 4, 4], UNIT),
    "no class twice": ([1, 2, 3, 4], UNIT),
    "one class twice": ([1, 2, 1, 4], UNIT),
    "duplicates": ([0, 0, 1, 1], UNIT[[0, 0, 1, 1]]),
    "duplicates across classes": ([0, 1, 0, 1], UNIT[[0, 0, 1, 1]]),
    "opposites": ([0, 0, 1, 1], UNIT * [[1], [-1], [1], [-1]]),
    "all embeddings equal": ([0, 0, 1, 1], UNIT[[0, 0, 0, 0]]),
    "zero embeddings": ([0, 0, 1, 1], 0 * UNIT),
    "tiny embeddings": ([0, 0, 1, 1], 1e-6 * UNIT),
    "huge embeddings": ([0, 0, 1, 1], 1e6 * UNIT),
}


def batch(labels, dim=5, seed=0, dtype="float32"):
    rng = np.random.default_rng(seed)
    return np.array(labels), (rng.standard_normal((len(labels), dim)) / np.sqrt(dim)).astype(dtype)


@functools.cache
def of_batch(loss):
    """Values per anchor and the gradient of their sum, as a function of labels and embeddings; compiled once on JAX."""
    return fast(lambda labels, x: (loss.call(labels, x), gradient_of(lambda v: loss.call(labels, v), x)))


def values_and_gradient(loss, labels, x):
    found = of_batch(loss)(*(keras.ops.convert_to_tensor(part) for part in (labels, x)))
    return tuple(numbers(part) for part in found)


def even(labels, x):
    """A batch without its last row where it has an odd number of them."""
    return labels[: len(labels) // 2 * 2], x[: len(labels) // 2 * 2]


def with_ids(loss, rename):
    """The loss for classes of other names: class_counts are counts of ids."""
    counts = loss.settings.get("class_counts")
    if counts is None:
        return loss
    renamed = {rename(int(label)): count for label, count in counts.items()}
    return type(loss)(**{**loss.settings, "class_counts": renamed}, pairing=loss.pairing)


def is_of_all_pairs(loss):
    return loss.pairing is pairs.all_pairs


def with_options(loss, **options):
    """The same loss with other options of pairs, which a robust loss leaves to its base."""
    if isinstance(loss, losses.RobustLoss):
        return type(loss)(with_options(loss.base, **options), uncertainty=loss.settings["uncertainty"])
    return type(loss)(**{**loss.settings, **options})


@every_row
@every_batch
def test_values_agree_with_loops_over_the_equation(loss, by_loops, labels):
    labels, x = even(*batch(labels))
    values, _ = values_and_gradient(loss, labels, x)
    np.testing.assert_allclose(values, by_loops(labels, x.astype("float64")), rtol=1e-5, atol=2e-6)


@every_row_in_random_batches
def test_values_agree_with_loops_for_random_batches(loss, by_loops):
    rng, call = np.random.default_rng(7), fast(loss.call)
    for size, dim, classes in ((2, 1, 2), (4, 7, 1), (6, 2, 9), (14, 3, 4)):
        labels, x = batch(rng.integers(0, classes, size), dim, seed=size)
        np.testing.assert_allclose(
            numbers(call(labels, x)), by_loops(labels, x.astype("float64")), rtol=2e-5, atol=5e-6
        )


@every_row
def test_gradients_agree_with_finite_differences_of_the_loops(loss, by_loops):
    labels, x = batch(UNEVEN["three classes"], seed=3)
    (_, ours), step = values_and_gradient(loss, labels, x), 1e-6
    if "fixed" in inspect.signature(by_loops).parameters:  # weights that are constants in the gradient
        by_loops = partial(by_loops, fixed=x.astype("float64"))
    expected = np.zeros(x.shape)
    for place in np.ndindex(x.shape):
        shift = np.zeros(x.shape)
        shift[place] = step
        expected[place] = (by_loops(labels, x + shift).sum() - by_loops(labels, x - shift).sum()) / (2 * step)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4 * max(1.0, np.abs(expected).max() / 10))


@every_loss
def test_values_follow_a_permutation_of_the_rows(loss):
    labels, x = batch(UNEVEN["three classes"])
    if isinstance(loss, losses.PrototypicalLoss):
        order = anchors = np.array([5, 2, 0, 6, 3, 1, 4, 7])  # the support of a class stays before its queries
    elif is_of_all_pairs(loss):
        order = anchors = np.random.default_rng(1).permutation(8)
    else:
        order = np.array([4, 5, 0, 1, 6, 7, 2, 3])  # pairs move as a whole
        anchors = order[::2] // 2
    moved, _ = values_and_gradient(loss, labels[order], x[order])
    np.testing.assert_allclose(moved, values_and_gradient(loss, labels, x)[0][anchors], rtol=1e-5, atol=2e-6)


@every_class
def test_renaming_the_classes_changes_nothing(loss):
    labels, x = batch(UNEVEN["one of its own"])
    names = np.array([100, -5, 7, 2**31 - 1, 0, 13, 12, 11, 10, 9])
    renamed = with_ids(loss, lambda label: int(names[label]))
    np.testing.assert_array_equal(numbers(renamed.call(names[labels], x)), numbers(loss.call(labels, x)))


@every_class
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_embeddings_are_scored_in_float32(loss, dtype):
    labels, x = batch(UNEVEN["three classes"])
    half = keras.ops.cast(x, dtype)
    values = loss.call(labels, half)
    assert keras.backend.standardize_dtype(values.dtype) == "float32"
    np.testing.assert_allclose(numbers(values), numbers(loss.call(labels, keras.ops.cast(half, "float32"))), rtol=1e-6)
    np.testing.assert_allclose(numbers(loss(labels, half)), numbers(loss(labels, x)), rtol=1e-2, atol=1e-2)


@every_loss
def test_degenerate_batches_have_finite_values_and_gradients(loss):
    call = fast(loss.call)
    slope = fast(lambda labels, x: gradient_of(lambda v: loss.call(labels, v), x))
    for name, (labels, x) in EMPTY.items():
        labels, x = (keras.ops.convert_to_tensor(part) for part in (np.array(labels), x.astype("float32")))
        assert np.isfinite(numbers(call(labels, x))).all(), name
        assert np.isfinite(numbers(slope(labels, x))).all(), name


@every_class
def test_a_batch_without_pairs_costs_nothing(loss):
    labels, x = batch([5])
    assert numbers(loss(labels, x)) == 0
    np.testing.assert_array_equal(gradient(lambda v: loss(labels, v), x), np.zeros_like(x))


@every_loss
def test_an_embedding_that_is_not_finite_is_not_hidden(loss):
    labels, x = batch(np.repeat(np.arange(4), 16))
    call = fast(loss)
    for bad in (np.nan, np.inf):
        x[0, 0] = bad
        assert not np.isfinite(numbers(call(labels, x)))


@every_class
def test_labels_may_stand_in_a_column(loss):
    labels, x = batch(UNEVEN["three classes"])
    np.testing.assert_array_equal(numbers(loss.call(labels[:, None], x)), numbers(loss.call(labels, x)))


@every_class
def test_a_large_class_id_is_never_merged_with_its_neighbour_or_is_refused(loss):
    labels, x = batch(UNEVEN["three classes"])
    values = numbers(loss.call(labels, x))
    for far in (2**24, 2**62):
        moved = with_ids(loss, lambda label, far=far: label + far)
        if BACKEND == "jax" and far > 2**31:
            with pytest.raises(ValueError, match="32-bit"):
                moved(labels + far, x)
        else:
            np.testing.assert_array_equal(numbers(moved.call(labels + far, x)), values)


@every_loss
def test_keras_reduces_one_value_an_anchor(loss):
    labels, x = batch(UNEVEN["three classes"])
    anchors = len(x) if is_of_all_pairs(loss) else len(x) // 2
    total = type(loss).from_config({**loss.get_config(), "reduction": "sum"})
    weights = np.arange(anchors, dtype="float32")
    reduce = fast(lambda y, v: (loss.call(y, v), loss(y, v), loss(y, v, weights), total(y, v)))
    values, mean, weighed, summed = (numbers(part) for part in reduce(labels, x))
    assert values.shape == (anchors,)
    np.testing.assert_allclose(mean, values.mean(), rtol=1e-6)
    np.testing.assert_allclose(weighed, (values * weights).mean(), rtol=1e-6)
    np.testing.assert_allclose(summed, values.sum(), rtol=1e-6)


@every_loss
def test_a_sample_weight_weighs_the_gradient_of_its_anchor_alone(loss):
    labels, x = batch(UNEVEN["three classes"])
    anchors = len(x) if is_of_all_pairs(loss) else len(x) // 2
    only = np.eye(anchors, dtype="float32")[2]
    weighed = gradient(lambda v: loss(labels, v, only), x)
    of_anchor = gradient(lambda v: loss.call(labels, v)[2] / anchors, x)
    np.testing.assert_allclose(weighed, of_anchor, rtol=1e-4, atol=1e-6 * max(1.0, np.abs(of_anchor).max()))


@every_loss
def test_a_loss_comes_back_from_its_config(loss):
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(keras.saving.serialize_keras_object(loss))))
    labels, x = batch(UNEVEN["three classes"])
    assert type(again) is type(loss)
    assert again.get_config() == loss.get_config()
    np.testing.assert_array_equal(numbers(again.call(labels, x)), numbers(loss.call(labels, x)))


@every_class
def test_float_labels_and_other_lengths_are_refused(loss):
    labels, x = batch(UNEVEN["three classes"])
    with pytest.raises(ValueError, match="labels of dtype float32, expected integer class ids"):
        loss(labels.astype("float32"), x)
    with pytest.raises(ValueError, match="6 labels and 8 embeddings"):
        loss(labels[:6], x)
    with pytest.raises(ValueError, match=r"embeddings of shape \(8, 5, 1\)"):
        loss(labels, x[:, :, None])
    with pytest.raises(ValueError, match=r"labels of shape \(8, 2\)"):
        loss(np.stack([labels, labels], axis=1), x)


@keras.saving.register_keras_serializable("tests")
def share_a_tag(a, b):
    """Multi-label relevance: two rows of 0 and 1 with a 1 in the same place."""
    a, b = (keras.ops.cast(labels, "float32") for labels in (a, b))
    return keras.ops.matmul(a, keras.ops.transpose(b)) > 0


@keras.saving.register_keras_serializable("tests")
def same_family(a, b):
    """Hierarchical relevance: ids that share their tens."""
    return a[:, None] // 10 == b // 10


@every_class
def test_match_says_which_labels_belong_together(loss):
    labels, x = batch(UNEVEN["three classes"])
    expected = numbers(loss.call(labels, x))
    by_family = with_options(loss, match=same_family)
    ids = 10 * labels + np.arange(8)
    if isinstance(loss, losses.BalancedContrastiveLoss):
        by_family = type(loss)(class_counts={int(i): COUNTS[i // 10] for i in ids}, match=same_family)
        scale = (len(COUNTS) - 1) / (len(ids) - 1)
        positive_part = numbers(type(loss)(class_counts=COUNTS, negatives_per_positive=1e-9).call(labels, x))
        expected = positive_part + scale * (expected - positive_part)
        with pytest.raises(ValueError, match="class_counts holds one value per class"):
            type(loss)(class_counts=COUNTS, match=share_a_tag)(np.eye(8, dtype="int32"), x)
    else:
        by_tags = with_options(loss, match=share_a_tag)
        np.testing.assert_allclose(numbers(by_tags.call(np.eye(8, dtype="int32")[labels], x)), expected, rtol=1e-6)
    np.testing.assert_allclose(numbers(by_family.call(ids, x)), expected, rtol=1e-5, atol=1e-6)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(by_family))
    np.testing.assert_array_equal(numbers(again.call(ids, x)), numbers(by_family.call(ids, x)))
    with pytest.raises(ValueError, match=r"matrix of shape \(8,\) from match, expected \(anchors, references\)"):
        with_options(loss, match=lambda a, b: a == b).call(ids, x)


NEEDS_ITS_OWN_ROWS = (
    losses.AngularLoss,
    losses.PrototypicalLoss,
    losses.QuadrupletLoss,
)


@every_loss
def test_anchors_against_other_references_follow_the_same_equation(loss):
    labels, x = batch(UNEVEN["three classes"])
    against = pairs.pairs_with(labels, x, labels, x)
    others = 1.0 - np.eye(8, dtype="float32")
    against = against.scale(positive=others)  # a row compared with itself is no pair
    if isinstance(loss, NEEDS_ITS_OWN_ROWS) or loss.settings.get("swap"):
        with pytest.raises(ValueError, match="Received anchors against other references"):
            loss.on_pairs(against)
    elif is_of_all_pairs(loss):
        np.testing.assert_allclose(numbers(loss.on_pairs(against)), numbers(loss.call(labels, x)), rtol=1e-5, atol=2e-6)
    else:
        assert np.isfinite(numbers(loss.on_pairs(against))).all()


@every_class
def test_a_miner_that_returns_another_shape_is_refused(loss):
    labels, x = batch(UNEVEN["three classes"])
    wrong = {
        r"positive weights of shape \(4, 8\)": lambda pairs: pairs._replace(positive=pairs.positive[:4]),
        "positive weights of shape None": lambda pairs: pairs.positive,
    }
    for message, miner in wrong.items():
        with pytest.raises(ValueError, match=f"Received {message} from miner=.*, expected \\(8, 8\\)"):
            with_options(loss, miner=miner)(labels, x)


@keras.saving.register_keras_serializable("tests")
def lightly(pairs):
    """Weights that no loss has by itself."""
    return pairs.scale(positive=0.25, negative=0.5)


@every_loss
def test_importance_weights_come_after_the_miner_and_stay_with_the_loss(loss):
    labels, x = batch(UNEVEN["three classes"])
    config = {**loss.get_config(), "importance": keras.saving.serialize_keras_object(lightly)}
    weighted = type(loss).from_config(json.loads(json.dumps(config)))
    expected = loss.values(lightly(loss.reweight(loss.pair(labels, x))))
    np.testing.assert_array_equal(numbers(weighted.call(labels, x)), numbers(expected))


WRONG = {
    "positive_margin=-1": lambda: losses.ContrastiveLoss(positive_margin=-1),
    "negative_margin=0.5": lambda: losses.ContrastiveLoss(positive_margin=1.0, negative_margin=0.5),
    "distance='manhattan'": lambda: losses.ContrastiveLoss(distance="manhattan"),
    "g=2": lambda: losses.WeightedContrastiveLoss(g=2),
    "eta=-1": lambda: losses.WeightedContrastiveLoss(eta=-1),
    "margin=0": lambda: losses.HingeSquared(margin=0),
    r"class_counts=\[0, 0\]": lambda: losses.BalancedContrastiveLoss(class_counts=[0, 0]),
    "negatives_per_positive=0": lambda: losses.BalancedContrastiveLoss(class_counts=[2], negatives_per_positive=0),
    "margin=-1": lambda: losses.BalancedContrastiveLoss(class_counts=[2], margin=-1),
    "threshold=1.5": lambda: losses.CosineContrastiveLoss(threshold=1.5),
    "margin=0.0": lambda: losses.DistanceLogisticLoss(margin=0.0),
    "alpha=-2": lambda: losses.BinomialDevianceLoss(alpha=-2),
    "boundary=2.5": lambda: losses.MarginLoss(boundary=2.5),
    "margin=-0.1": lambda: losses.MarginLoss(margin=-0.1),
    "normalize='mean'": lambda: losses.MarginLoss(normalize="mean"),
    "alpha=0": lambda: losses.MultiSimilarityLoss(alpha=0),
    "beta=-50": lambda: losses.MultiSimilarityLoss(beta=-50),
    "threshold=2": lambda: losses.RAWLoss(threshold=2),
    "margin=-0.2": lambda: losses.BatchHardTripletLoss(margin=-0.2),
    "margin=-0.5": lambda: losses.TripletLoss(margin=-0.5),
    "margin=0 with ratio=True": lambda: losses.TripletLoss(margin=0, ratio=True),
    "soft=True and ratio=True": lambda: losses.TripletLoss(soft=True, ratio=True),
    "negatives='hardest'": lambda: losses.TripletLoss(negatives="hardest"),
    "normalize=None": lambda: losses.TripletLoss(normalize=None),
    "margin=-3": lambda: losses.LiftedStructureLoss(margin=-3),
    "margin=-4": lambda: losses.GeneralizedLiftedLoss(margin=-4),
    "margin=2": lambda: losses.CircleLoss(margin=2),
    "scale=0": lambda: losses.CircleLoss(scale=0),
    "l2=-1": lambda: losses.NPairsLoss(l2=-1),
    "temperature=0": lambda: losses.NTXentLoss(temperature=0),
    "temperature=-0.1": lambda: losses.SupConLoss(temperature=-0.1),
    "margin=180": lambda: losses.TupletMarginLoss(margin=180),
    "scale=-1": lambda: losses.TupletMarginLoss(scale=-1),
    "temperature=-1": lambda: losses.HAP2SLoss(temperature=-1),
    "margin=-5": lambda: losses.HAP2SLoss(margin=-5),
    "angle=90": lambda: losses.AngularLoss(angle=90),
    "margin=-6": lambda: losses.QuadrupletLoss(margin=-6),
    "second_margin=2": lambda: losses.QuadrupletLoss(second_margin=2),
    "bins=0": lambda: losses.HistogramLoss(bins=0),
    "bins=-1": lambda: losses.FastAPLoss(bins=-1),
    "temperature=-2": lambda: losses.SmoothAPLoss(temperature=-2),
    "margin=1.5": lambda: losses.RankedListLoss(margin=1.5),
    "balance=2": lambda: losses.RankedListLoss(balance=2),
    "positive_temperature=-1": lambda: losses.RankedListLoss(positive_temperature=-1),
    "margin=-7": lambda: losses.CoupledClustersLoss(margin=-7),
    "shots=0": lambda: losses.PrototypicalLoss(shots=0),
    "nu=0.1 with boundary=1.2": lambda: losses.MarginLoss(nu=0.1),
    "nu=-1": lambda: losses.MarginLoss(boundary=losses.Boundaries(), nu=-1),
    "initial=3": lambda: losses.Boundaries(initial=3),
    "examples=-1": lambda: losses.Boundaries(examples=-1),
    "base=None": lambda: losses.RobustLoss(None, uncertainty=losses.TopK(2)),
    "uncertainty='top k'": lambda: losses.RobustLoss(losses.MarginLoss(), uncertainty="top k"),
    "a base loss with nu=0.5": lambda: losses.RobustLoss(
        losses.MarginLoss(boundary=losses.Boundaries(), nu=0.5), uncertainty=losses.TopK(2)
    ),
    "k=0": lambda: losses.TopK(0),
    "k=2.5": lambda: losses.TopK(2.5),
    "k=3": lambda: losses.TopKBalanced(3),
    "gamma=0": lambda: losses.KL(0),
    "sampled=0": lambda: losses.KL(0.1, sampled=0),
    "gamma=-1": lambda: losses.GroupedKL(-1),
    "negative_gamma=-2": lambda: losses.GroupedKL(negative_gamma=-2),
    "rho=0": lambda: losses.Variance(0),
    "miner='hard'": lambda: losses.MultiSimilarityLoss(miner="hard"),
    "pairing=None": lambda: losses.MultiSimilarityLoss(pairing=None),
    "match='equal'": lambda: losses.MultiSimilarityLoss(match="equal"),
    "margin=nan": lambda: miners.ValidTriplets(margin=float("nan")),
    "margin=-8": lambda: miners.SemiHardNegatives(margin=-8),
}


@every_class
def test_an_unknown_option_is_named_beside_those_that_there_are(loss):
    own = set(loss.settings)
    shared = {"name", "reduction", "dtype"}
    if not isinstance(loss, losses.RobustLoss):
        shared |= {"pairing", "miner", "importance", "match"}
    shown = inspect.signature(type(loss)).parameters
    assert set(shown) == own | shared
    assert shown["reduction"].default == "sum_over_batch_size"
    with pytest.raises(TypeError, match=r"Received marign=0.3 for .*, expected options among ") as error:
        type(loss)(**loss.settings, marign=0.3)
    message, _, options = str(error.value).rstrip(".").partition(" among ")
    assert type(loss).__name__ in message
    assert set(options.split(", ")) == own | shared


def test_help_shows_every_option_with_its_default():
    shown = pydoc.render_doc(losses.CosineContrastiveLoss, renderer=pydoc.plaintext).partition("Contrastive loss on")[0]
    for option in ("threshold", "pairing", "miner", "importance", "match", "name", "reduction", "dtype"):
        assert option in shown


@pytest.mark.parametrize(("received", "make"), WRONG.items(), ids=WRONG)
def test_a_wrong_option_is_named_where_it_is_given(received, make):
    with pytest.raises(ValueError, match=f"Received {received}.* expected "):
        make()


def test_a_weight_multiplies_its_pair_and_does_not_count_in_the_divisor():
    labels, x = batch([0, 0, 1])
    plain = pairs.all_pairs(labels, x)
    doubled = plain.scale(positive=2.0)
    positives_only = plain.scale(negative=0.0)
    added = numbers(losses.contrastive(doubled)) - numbers(losses.contrastive(plain))
    np.testing.assert_allclose(added, numbers(losses.contrastive(positives_only)) * [0.5, 0.5, 0], rtol=1e-5)


def test_a_class_without_a_count_is_named_or_shows_as_nan_where_labels_cannot_be_read():
    labels, x = batch([0, 0, 1, 1, 4, 4])
    loss = losses.BalancedContrastiveLoss(class_counts={0: 5, 1: 7})
    with pytest.raises(ValueError, match="Received label 4, which class_counts does not cover; expected one of its 2"):
        loss(labels, x)
    tensor = keras.ops.convert_to_tensor(labels)
    assert np.isnan(numbers(compiled(lambda y, v: loss(y, v))(tensor, keras.ops.convert_to_tensor(x))))


def test_class_counts_may_be_an_array_indexed_by_class():
    labels, x = batch([0, 0, 2, 2, 3])
    by_array = losses.BalancedContrastiveLoss(class_counts=np.array([3, 0, 4, 9]))
    by_dict = losses.BalancedContrastiveLoss(class_counts={0: 3, 2: 4, 3: 9})
    np.testing.assert_array_equal(numbers(by_array.call(labels, x)), numbers(by_dict.call(labels, x)))


def test_the_soft_histogram_counts_each_value_once_with_its_weight():
    values = np.array([[-1.0, -0.75, 0.1, 1.0, 0.999]], dtype="float32")
    weights = np.array([[1.0, 2.0, 0.0, 1.0, 1.0]], dtype="float32")
    counted = numbers(soft_histogram(values, weights, 4, -1.0, 1.0))
    np.testing.assert_allclose(counted, [[1 + 1, 1, 0, 0.002, 1.998]], atol=1e-6)


def test_a_selector_that_returns_another_shape_is_refused():
    labels, x = batch(UNEVEN["three classes"])
    loss = losses.TripletLoss(negatives=lambda pairs, d: lambda p: p[:3])
    with pytest.raises(ValueError, match=r"columns of shape \(3,\) from negatives, expected \(8,\)"):
        loss(labels, x)


def test_a_negative_as_near_to_the_positive_as_to_the_anchor_is_not_swapped():
    x = np.array([[-1, 0], [1, 0], [0, 2], [3, 0], [-3, -2]], dtype="float32")  # row 2 is as near to row 0 as to row 1
    labels = np.array([0, 0, 1, 2, 3])
    for normalize in ("all", "active"):
        swapped = losses.TripletLoss(swap=True, normalize=normalize, margin=2.0)
        expected = loops.triplet(labels, x.astype("float64"), swap=True, normalize=normalize, margin=2.0)
        np.testing.assert_allclose(numbers(swapped.call(labels, x)), expected, rtol=1e-5)


def weighted_pairs(labels, x, seed=2):
    """All pairs with weights 0, 1 or 2 that are not the same both ways."""
    made, rng = pairs.all_pairs(labels, x), np.random.default_rng(seed)
    weights = [keras.ops.cast(rng.integers(0, 3, (len(x), len(x))), made.positive.dtype) for _ in range(2)]
    return made.scale(positive=weights[0], negative=weights[1])


OVER_POSITIVES = {
    "all triplets": losses.triplet,
    "soft triplets": partial(losses.triplet, soft=True, distance="euclidean"),
    "ratios": partial(losses.triplet, ratio=True, margin=1.0),
    "semi-hard triplets": partial(losses.triplet, negatives=miners.semi_hard_negatives, margin=1.0),
    "smooth AP": partial(losses.smooth_ap, temperature=0.1),
    "angular": losses.angular,
    "quadruplet": losses.quadruplet,
}


@pytest.mark.parametrize("function", OVER_POSITIVES.values(), ids=OVER_POSITIVES)
def test_sums_over_positives_have_the_gradient_of_their_value_for_any_weights(function):
    labels, x = batch(UNEVEN["three classes"], dim=3, dtype="float64")
    with float64():
        value = fast(lambda v: keras.ops.sum(function(weighted_pairs(labels, v))))
        ours, step = gradient(value, x), 1e-6
        expected = np.zeros(x.shape)
        for place in np.ndindex(x.shape):
            shift = np.zeros(x.shape)
            shift[place] = step
            expected[place] = (numbers(value(x + shift)) - numbers(value(x - shift))) / (2 * step)
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


def test_a_quadruplet_weighs_the_product_of_its_pairs():
    labels, x = batch(UNEVEN["three classes"])
    made = weighted_pairs(labels, x)
    positive, negative = numbers(made.positive), numbers(made.negative)
    d = ((x.astype("float64")[:, None] - x) ** 2).sum(axis=2)
    total = number = 0
    for a, p in np.argwhere(positive):
        outside = [row for row in range(8) if row != a and not positive[a, row]]
        for n, m in np.argwhere(negative):
            if n in outside and m in outside:
                total += positive[a, p] * negative[n, m] * max(0, d[a, p] - d[n, m] + 0.5)
                number += 1
    quadruplets = numbers(losses.quadruplet(made)) - numbers(losses.triplet(made, margin=1.0))
    np.testing.assert_allclose(quadruplets, np.full(8, total / number), rtol=1e-4)


def test_quadruplets_of_large_classes_are_summed_one_positive_at_a_time(monkeypatch):
    calls, sum_of_hinges = [], quadruplets_module._sum_of_hinges
    monkeypatch.setattr(quadruplets_module, "_sum_of_hinges", lambda *parts: calls.append(1) or sum_of_hinges(*parts))
    labels, x = batch(np.repeat(np.arange(3), 12))
    d = ((x.astype("float64")[:, None] - x) ** 2).sum(axis=2)
    apart, total, number = labels[:, None] != labels, 0.0, 0
    for a, p in np.argwhere(~apart & ~np.eye(36, dtype=bool)):
        others = d[apart & apart[a] & apart[a][:, None]]
        total, number = total + np.maximum(0, d[a, p] - others + 0.5).sum(), number + len(others)
    made = pairs.all_pairs(labels, x)
    quadruplets = numbers(losses.quadruplet(made)) - numbers(losses.triplet(made, margin=1.0))
    np.testing.assert_allclose(quadruplets, np.full(36, total / number), rtol=1e-4)
    assert len(calls) == (11 if BACKEND == "tensorflow" else 1)  # JAX traces a loop once


@pytest.mark.parametrize("classes", [1, 2])
def test_one_or_two_large_classes_have_no_quadruplets(classes):
    labels, x = batch(np.repeat(np.arange(classes), 24))
    made = pairs.all_pairs(labels, x)
    np.testing.assert_array_equal(numbers(losses.quadruplet(made)), numbers(losses.triplet(made, margin=1.0)))


@pytest.mark.parametrize("hard", [False, True])
def test_lifted_pairs_meet_the_negatives_of_both_ends_among_other_references_too(hard):
    labels, x = batch([0, 1, 0, 0, 1, 1, 2, 0], seed=5)
    anchors, references = range(3), range(3, 8)
    d = np.linalg.norm(x.astype("float64")[:, None] - x, axis=2)
    together = max if hard else lambda nearness: np.log(np.exp(nearness).sum())
    costs = {
        (a, p): max(
            0,
            d[a, p]
            + together(
                [1 - d[a, n] for n in references if labels[n] != labels[a]]
                + [1 - d[n, p] for n in anchors if labels[n] != labels[p]]
            ),
        )
        ** 2
        / 2
        for a in anchors
        for p in references
        if labels[a] == labels[p]
    }
    expected = [3 / len(costs) * sum(cost for (row, _), cost in costs.items() if row == a) for a in anchors]
    against = pairs.pairs_with(labels[:3], x[:3], labels[3:], x[3:])
    np.testing.assert_allclose(numbers(losses.lifted_structure(against, hard=hard)), expected, rtol=1e-5)
