"""What robust weights recover, and what they refuse. Their values are rows of the contract."""

import keras
import numpy as np
import pytest

from tests.backend import compiled, fast, gradient, numbers
from tests.losses import loops
from tfdml import losses, miners, pairs
from tfdml.losses.uncertainty import _kth_largest

on_every_backend = pytest.mark.backends

LABELS = np.repeat(np.arange(5), [2, 3, 4, 2, 3])
ALL_COST = 3.0  # a margin beyond every similarity: no pair's cost is 0


def batch(seed=0, rows=14):
    x = np.random.default_rng(seed).standard_normal((rows, 6))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype("float32")


def on_similarities(uncertainty, **options):
    base = losses.MarginLoss(margin=ALL_COST, boundary=0.5, distance="cosine")
    return losses.RobustLoss(base, uncertainty=uncertainty, **options)


def same_gradients(one, other, x):
    ours, theirs = (gradient(lambda v, loss=loss: loss(LABELS, v), x) for loss in (one, other))
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@on_every_backend
def test_grouped_kl_has_the_gradient_of_the_lifted_structure_loss():
    lifted = losses.GeneralizedLiftedLoss(margin=10.0, distance="cosine")  # so large that its hinge is open
    same_gradients(on_similarities(losses.uncertainty.GroupedKL(gamma=1.0)), lifted, batch())


def clipped_distance(made):
    """1 - s, held where the margin loss on similarities with margin 0.2 and threshold 0.5 becomes 0."""
    distance = 1 - pairs.cosine(made)
    return keras.ops.where(
        made.positive > 0, keras.ops.maximum(distance, 0.5 - 0.2), keras.ops.minimum(distance, 0.5 + 0.2)
    )


def with_zero_losses(x):
    """Whether each pair of a batch has zero loss under that margin loss."""
    same = LABELS[:, None] == LABELS
    return np.where(same, x @ x.T > 0.7, x @ x.T < 0.3) & ~np.eye(len(x), dtype=bool)


@on_every_backend
def test_grouped_kl_that_keeps_zero_losses_has_the_gradient_of_the_lifted_structure_loss_of_clipped_similarities():
    x = batch()
    assert with_zero_losses(x).sum() > 20
    base = losses.MarginLoss(margin=0.2, boundary=0.5, distance="cosine")
    lifted = losses.GeneralizedLiftedLoss(margin=10.0, distance=clipped_distance)
    kept, left_out = (
        losses.RobustLoss(base, uncertainty=losses.uncertainty.GroupedKL(1.0, keep_zero_losses=keep))
        for keep in (True, False)
    )
    same_gradients(kept, lifted, x)
    with pytest.raises(AssertionError):
        same_gradients(left_out, lifted, x)


@on_every_backend
def test_grouped_kl_shares_weight_with_pairs_of_zero_loss_as_in_eq_7_if_it_keeps_them():
    x = batch()
    base = losses.MarginLoss(margin=0.2, boundary=0.5, distance="cosine")
    made = pairs.all_pairs(LABELS, x)
    uncertainty = losses.uncertainty.GroupedKL(0.5, negative_gamma=0.2, keep_zero_losses=True)
    p = numbers(uncertainty(base.pair_losses(made), made)) * len(LABELS)
    s = x.astype("float64") @ x.T.astype("float64")
    for a in range(len(LABELS)):
        for group, gamma, y in zip(loops.others_of(a, LABELS), (0.5, 0.2), (1, -1), strict=True):
            shares = {j: np.exp(max(0.0, 0.2 + y * (0.5 - s[a, j])) / gamma) for j in group}
            for j in group:
                np.testing.assert_allclose(p[a, j], shares[j] / sum(shares.values()), rtol=1e-4)
    np.testing.assert_allclose(np.trace(p), 0.0)


@pytest.mark.parametrize(("alpha", "beta", "threshold"), [(2.0, 50.0, 0.5), (5.0, 20.0, 0.5)])
@on_every_backend
def test_grouped_kl_with_pseudo_pairs_has_the_gradient_of_the_multi_similarity_loss(alpha, beta, threshold):
    uncertainty = losses.uncertainty.GroupedKL(gamma=1 / alpha, negative_gamma=1 / beta, pseudo_loss=ALL_COST)
    loss = losses.MultiSimilarityLoss(alpha=alpha, beta=beta, threshold=threshold)
    same_gradients(on_similarities(uncertainty), loss, batch())


@on_every_backend
def test_grouped_kl_has_the_gradient_of_hap2s():
    temperature = 0.3
    hap2s = losses.HAP2SLoss(margin=10.0, temperature=temperature)
    same_gradients(on_similarities(losses.uncertainty.GroupedKL(gamma=temperature)), hap2s, batch())


@pytest.mark.parametrize("way", [fast, compiled])
@pytest.mark.parametrize("rho", [0.5, 20.0, 1e4])
@on_every_backend
def test_weights_by_variance_are_a_distribution_however_near_the_costs_are_to_each_other(rho, way):
    rows = 37  # 1 / 37 is not exact
    made = pairs.all_pairs(np.zeros(rows, int), np.eye(rows, dtype="float32"))
    weights = way(lambda costs: losses.uncertainty.Variance(rho)(costs, made))
    others, noise = numbers(made.positive), np.random.default_rng(0).standard_normal((rows, rows))
    for spread in (0.0, 1e-7, 1e-5, 1e-4, 1e-2):
        costs = (others * 1.4 * (1 + spread * noise)).astype("float32")
        p = numbers(weights(keras.ops.convert_to_tensor(costs))).astype("float64")
        assert (p >= 0).all()
        np.testing.assert_allclose(p.sum(), 1, rtol=3e-6)
        if spread <= 1e-7:
            np.testing.assert_allclose(p, others / others.sum(), rtol=3e-6)


@pytest.mark.slow
@on_every_backend
def test_draws_from_the_weights_have_them_as_their_mean():
    made = pairs.all_pairs(LABELS, batch())
    costs = losses.MarginLoss(margin=ALL_COST, boundary=0.5, distance="cosine").pair_losses(made)
    costs = (made.positive + made.negative) * costs
    exact, sampled = (
        numbers(losses.uncertainty.KL(0.3)(costs, made)),
        losses.uncertainty.KL(0.3, num_samples=12, seed=0),
    )
    draws = np.array([numbers(sampled(costs, made)) for _ in range(500)])
    np.testing.assert_allclose(draws.mean(axis=0), exact, atol=0.008)
    np.testing.assert_allclose(draws.sum(axis=(1, 2)), 1, rtol=1e-5)
    np.testing.assert_allclose(12 * draws, np.round(12 * draws), atol=1e-4)
    assert not draws[:, np.arange(len(LABELS)), np.arange(len(LABELS))].any()


@on_every_backend
def test_weights_of_pairs_multiply_their_costs():
    x = batch()
    made = pairs.all_pairs(LABELS, x)
    loss = on_similarities(losses.uncertainty.TopK(1))
    doubled = np.ones(tuple(made.negative.shape), dtype="float32")
    doubled[3, 11] = 2.0
    values = numbers(loss.on_pairs(made.scale(negative=doubled)))
    assert np.flatnonzero(values).tolist() == [3]
    costs = numbers(loss.base.pair_losses(made))
    np.testing.assert_allclose(values.mean(), 2 * costs[3, 11], rtol=1e-5)


@keras.saving.register_keras_serializable("tests")
def half_of_the_negatives(pairs):
    return pairs._replace(negative=0.5 * pairs.negative)


@keras.saving.register_keras_serializable("tests")
def same_parity(a, b):
    return a[:, None] % 2 == b % 2


def test_the_pairs_are_those_of_the_base():
    options = {
        "miner": miners.PairMargin(positive_margin=0.5, negative_margin=1.2),
        "importance": half_of_the_negatives,
        "match": same_parity,
    }
    for pairing in (pairs.all_pairs, pairs.consecutive_pairs):
        base = losses.MarginLoss(margin=ALL_COST, boundary=0.5, distance="cosine", pairing=pairing, **options)
        loss = losses.RobustLoss(base, uncertainty=losses.uncertainty.KL(0.5))
        made = half_of_the_negatives(options["miner"](pairing(LABELS, batch(), match=same_parity)))
        expected = losses.functional.robust(made, base=base, uncertainty=losses.uncertainty.KL(0.5))
        assert numbers(expected).any()
        np.testing.assert_array_equal(numbers(loss.call(LABELS, batch())), numbers(expected))


def test_options_of_pairs_are_the_bases_to_take():
    with pytest.raises(TypeError, match=r"Received miner=None for RobustLoss, expected .* base, uncertainty, name, "):
        losses.RobustLoss(losses.MarginLoss(), uncertainty=losses.uncertainty.TopK(2), miner=None)


SUMS_OVER_PAIRS = {
    "contrastive": losses.ContrastiveLoss(negative_margin=2.0),
    "weighted contrastive": losses.WeightedContrastiveLoss(eta=0.3),
    "balanced contrastive": losses.BalancedContrastiveLoss(class_counts=[4, 6, 8, 5, 7], margin=2.0),
    "cosine contrastive": losses.CosineContrastiveLoss(threshold=-0.2),
    "cosine regression": losses.CosineRegressionLoss(),
    "distance logistic": losses.DistanceLogisticLoss(),
    "margin": losses.MarginLoss(normalize="all"),
}


@pytest.mark.parametrize("base", SUMS_OVER_PAIRS.values(), ids=SUMS_OVER_PAIRS)
def test_a_loss_that_is_a_sum_over_pairs_is_the_mean_of_its_costs_and_a_base(base):
    made = pairs.all_pairs(LABELS, batch())
    costs = numbers(base.pair_losses(made)) * (1 - np.eye(len(LABELS)))
    np.testing.assert_allclose(
        numbers(base.call(LABELS, batch())), costs.sum(axis=1) / (len(LABELS) - 1), rtol=1e-5, atol=1e-6
    )
    worst = losses.RobustLoss(base, uncertainty=losses.uncertainty.TopK(5))(LABELS, batch())
    np.testing.assert_allclose(numbers(worst), np.sort(costs, axis=None)[-5:].mean(), rtol=1e-5)


@on_every_backend
@pytest.mark.parametrize("blocks", [None, 3])
def test_of_more_pairs_than_there_are_all_are_taken(blocks):
    x = batch()
    base = losses.MarginLoss(margin=0.2, boundary=0.5, distance="cosine", anchors_per_block=blocks)
    costs = numbers(base.pair_losses(pairs.all_pairs(LABELS, x))) * (1 - np.eye(len(LABELS)))
    for uncertainty in (losses.uncertainty.TopK(1000), losses.uncertainty.TopKBalanced(1000)):
        loss = losses.RobustLoss(base, uncertainty=uncertainty)
        np.testing.assert_allclose(numbers(loss(LABELS, x)), costs[costs > 0].mean(), rtol=1e-5)
        assert numbers(loss(LABELS[:1], x[:1])) == 0


@pytest.mark.parametrize(("size", "k"), [(7, 7), (100, 1), (1000, 3), (5000, 40), (4097, 256), (20000, 11)])
@on_every_backend
def test_the_kth_largest_is_found_among_many_with_ties(size, k):
    rng = np.random.default_rng(size)
    for values in (
        np.maximum(rng.standard_normal(size), 0),
        rng.integers(0, 5, size),
        np.sort(rng.exponential(size=size)),
        np.zeros(size),
    ):
        values = values.astype("float32")
        expected = np.sort(values)[-k]
        tensor = keras.ops.convert_to_tensor(values)
        assert numbers(_kth_largest(tensor, k)) == expected
        assert numbers(compiled(lambda v: _kth_largest(v, k))(tensor)) == expected


@on_every_backend
def test_costs_that_tie_for_the_last_places_share_them_and_free_pairs_get_nothing():
    made = pairs.all_pairs(np.array([0, 0, 1]), np.eye(3, dtype="float32"))
    costs = np.array([[0, 5, 2], [2, 0, 1], [2, 0, 0]], dtype="float32")
    found = numbers(losses.uncertainty.TopK(3)(keras.ops.convert_to_tensor(costs), made))
    np.testing.assert_allclose(found, np.array([[0, 3, 2], [2, 0, 0], [2, 0, 0]]) / 9, rtol=1e-6)
    found = numbers(losses.uncertainty.TopK(6)(keras.ops.convert_to_tensor(costs), made))
    np.testing.assert_allclose(found, (costs > 0) / 5, rtol=1e-6)
