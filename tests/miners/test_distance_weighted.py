"""Distance-weighted sampling: its density, its distribution, and what it refuses."""

import keras
import numpy as np
import pytest

from tests.backend import fast, numbers, traced
from tests.losses.loops import others_of
from tests.miners import loops
from tfdml import losses, miners, pairs
from tfdml.miners.distance_weighted import inverse_density

backends = pytest.mark.backends

LABELS = np.repeat(np.arange(6), [2, 3, 4, 3, 1, 5])


def on_sphere(rows, dim, seed=0):
    x = np.random.default_rng(seed).standard_normal((rows, dim))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype("float32")


@pytest.mark.parametrize("dim", [3, 4, 16, 128, 512])
def test_the_density_of_distances_sums_to_one_and_is_the_formula_of_the_paper(dim):
    d = np.linspace(0, 2, 200_001)[1:-1]
    density = np.exp(numbers(miners.log_sphere_density(d, dim)).astype("float64"))
    assert abs(density.sum() * 1e-5 - 1) < 1e-3
    inside = (d > 0.8) & (d < 1.8)
    ratio = density[inside] / loops.sphere_density(d[inside], dim)
    np.testing.assert_allclose(ratio, ratio[0], rtol=2e-3)


def test_the_density_is_that_of_random_points():
    x = on_sphere(1000, 8).astype("float64")
    d = np.sqrt(np.maximum(2 - 2 * x @ x.T, 0))[np.triu_indices(1000, 1)]
    found, edges = np.histogram(d, bins=40, range=(0, 2), density=True)
    expected = np.exp(numbers(miners.log_sphere_density((edges[1:] + edges[:-1]) / 2, 8)))
    np.testing.assert_allclose(found, expected, atol=0.02)


@pytest.mark.slow
def test_many_draws_have_the_exact_expectation_as_their_mean():
    made = pairs.all_pairs(LABELS, on_sphere(len(LABELS), 6))
    expected = numbers(miners.DistanceWeighted(expectation=True)(made).negative)
    sampled = miners.DistanceWeighted(seed=1)
    draws = np.array([numbers(sampled(made).negative) for _ in range(300)])
    np.testing.assert_allclose(draws.mean(axis=0), expected, atol=0.1)
    num_positives = np.array([len(others_of(a, LABELS)[0]) for a in range(len(LABELS))])
    np.testing.assert_array_equal(draws.sum(axis=2), np.tile(num_positives, (300, 1)))  # one for each positive
    assert (draws >= np.floor(expected - 1e-3)).all()  # spread evenly: rounded up or down
    assert (draws <= np.ceil(expected + 1e-3)).all()


@pytest.mark.slow
def test_the_loss_of_the_expectation_is_the_mean_loss_over_draws():
    x = on_sphere(len(LABELS), 6)
    for loss in (losses.MarginLoss, losses.ContrastiveLoss, losses.BinomialDevianceLoss):
        options = {"normalize": "all"} if loss is losses.MarginLoss else {}
        sampled = loss(miner=miners.DistanceWeighted(seed=2), **options)
        exact = numbers(loss(miner=miners.DistanceWeighted(expectation=True), **options)(LABELS, x))
        drawn = [numbers(sampled(LABELS, x)) for _ in range(50)]
        assert abs(np.mean(drawn) - exact) < 4 * np.std(drawn) / np.sqrt(50) + 1e-6


@backends
def test_lambda_limits_how_much_likelier_a_negative_becomes():
    x = on_sphere(len(LABELS), 6)
    constant = np.exp(float(numbers(miners.log_sphere_density(1.0, 6)))) / loops.sphere_density(1.0, 6)
    miner = miners.DistanceWeighted(cutoff=0.0, clip=2.0, expectation=True)
    mined = fast(lambda v: miner(pairs.all_pairs(LABELS, v)).negative)(x)
    expected = loops.distance_weighted(LABELS, x.astype("float64"), cutoff=0.0, clip=2.0, constant=constant)
    np.testing.assert_allclose(numbers(mined), expected[1], rtol=1e-3, atol=1e-5)
    free = loops.distance_weighted(LABELS, x.astype("float64"), cutoff=0.0, constant=constant)
    assert np.abs(free[1] - expected[1]).max() > 0.1


def test_negatives_beyond_the_far_limit_are_never_drawn():
    x = np.array([[1, 0, 0], [1, 0, 0], [-1, 0, 0], [0, 0, -1]], dtype="float32")
    mined = miners.DistanceWeighted(seed=0)(pairs.all_pairs(np.array([0, 0, 1, 2]), x))
    assert not numbers(mined.negative).any()


def test_weights_of_pairs_make_draws_likelier():
    made = pairs.all_pairs(LABELS, on_sphere(len(LABELS), 6))
    tripled = np.ones(tuple(made.negative.shape), dtype="float32")
    tripled[:, -1] = 3.0
    plain, weighted = (numbers(inverse_density(some)) for some in (made, made.scale(negative=tripled)))
    np.testing.assert_allclose(weighted, plain * tripled, rtol=1e-5)


@pytest.mark.slow
def test_each_positive_of_a_triplet_has_its_own_negative_with_these_probabilities():
    x = on_sphere(len(LABELS), 6)
    made, d = pairs.all_pairs(LABELS, x), pairs.euclidean(pairs.all_pairs(LABELS, x))
    expected = numbers(inverse_density(made))
    expected = expected / expected.sum(axis=1, keepdims=True)
    selector = miners.DistanceWeightedNegatives(seed=5)
    columns = np.array([numbers(selector(made, d)(np.full(len(x), 1, dtype="int32"))) for _ in range(300)])
    for a in range(len(x)):
        found = np.bincount(columns[:, a], minlength=len(x)) / 300
        np.testing.assert_allclose(found, expected[a], atol=0.1)


def test_embeddings_off_the_sphere_are_refused_where_they_can_be_read():
    x = 3 * on_sphere(len(LABELS), 6)
    for miner in (miners.DistanceWeighted(), miners.DistanceWeighted(expectation=True)):
        with pytest.raises(ValueError, match=r"norms from 3 to 3, expected norm 1.*UnitNormalization"):
            miner(pairs.all_pairs(LABELS, x))
    with pytest.raises(ValueError, match="expected norm 1"):
        losses.TripletLoss(negatives=miners.DistanceWeightedNegatives())(LABELS, x)


@pytest.mark.slow
@backends
def test_embeddings_off_the_sphere_make_the_loss_of_a_compiled_function_nan():
    miner = miners.DistanceWeighted(expectation=True)
    x = on_sphere(len(LABELS), 6)
    for loss in (losses.MarginLoss(miner=miner), losses.MultiSimilarityLoss(miner=miner)):
        compute = traced(lambda v, loss=loss: loss(LABELS, v))
        assert np.isfinite(numbers(compute(x)))
        assert np.isnan(numbers(compute(3 * x)))


@backends
def test_zero_vectors_and_half_precision_count_as_on_the_sphere():
    x = on_sphere(len(LABELS), 6)
    x[3] = 0
    miner = miners.DistanceWeighted(expectation=True)

    @fast
    def mine(v):
        mined = miner(pairs.all_pairs(LABELS, keras.ops.cast(v, "bfloat16")))
        return keras.ops.cast(mined.anchors, "float32"), mined.negative

    for part in mine(x):
        assert np.isfinite(numbers(part)).all()


@pytest.mark.parametrize("dim", [1, 2])
def test_a_sphere_of_fewer_than_three_dimensions_is_refused(dim):
    made = pairs.all_pairs(LABELS, on_sphere(len(LABELS), dim))
    for call in (miners.DistanceWeighted(), lambda p: miners.log_sphere_density(1.0, p.anchors.shape[1])):
        with pytest.raises(ValueError, match=f"dimension {dim}, expected 3 or more"):
            call(made)
