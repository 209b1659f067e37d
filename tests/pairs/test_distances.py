"""Distances and similarities of pairs, and their gradients."""

import functools

import keras
import numpy as np
import pytest

from tests.backend import BACKEND, compiled, fast, float64, gradient, gradient_of, numbers
from tfdml import losses, pairs
from tfdml.pairs.distances import cosine_distance

pytestmark = pytest.mark.backends

LABELS = np.array([0, 0, 1, 1, 2, 0])


@pytest.fixture
def x():
    return np.random.default_rng(0).standard_normal((6, 4)).astype("float32")


@pytest.mark.everywhere
def test_distances_agree_with_numpy(x):
    made = pairs.all_pairs(LABELS, x)
    y = x.astype("float64")
    unit = y / np.linalg.norm(y, axis=1, keepdims=True)
    square = ((y[:, None] - y[None]) ** 2).sum(-1)
    np.testing.assert_allclose(numbers(pairs.dot(made)), y @ y.T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(numbers(pairs.cosine(made)), unit @ unit.T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(numbers(cosine_distance(made)), 1 - unit @ unit.T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(numbers(pairs.squared(made)), square, rtol=1e-5)
    np.testing.assert_allclose(numbers(pairs.euclidean(made)), np.sqrt(square), rtol=1e-5, atol=1.1e-18)


def test_signal_to_noise_ratios_agree_with_numpy_and_do_not_change_with_scale_or_offset(x):
    y = x.astype("float64")
    expected = np.var(y[None] - y[:, None], axis=-1) / np.var(y, axis=-1)[:, None]
    for moved in (x, 1e-4 * x, x + np.float32(10.0)):
        np.testing.assert_allclose(numbers(pairs.snr(pairs.all_pairs(LABELS, moved))), expected, rtol=1e-4, atol=1e-6)
    others = pairs.pairs_with(LABELS[:2], x[:2], LABELS, x)
    np.testing.assert_allclose(numbers(pairs.snr(others)), expected[:2], rtol=1e-4, atol=1e-6)
    in_a_list = pairs.consecutive_pairs(LABELS, x)
    np.testing.assert_allclose(numbers(pairs.snr(in_a_list))[:, 0], expected[[0, 2, 4], [1, 3, 5]], rtol=1e-4)


def test_an_anchor_without_a_signal_has_distance_zero_and_gradient_zero(x):
    x[1], x[2] = 0.1, 0.0
    d = numbers(pairs.snr(pairs.all_pairs(LABELS, x)))
    np.testing.assert_array_equal(d[1:3], np.zeros((2, 6)))
    np.testing.assert_allclose(d[0, 1:3], [1, 1], rtol=1e-6)
    slope = gradient(lambda v: pairs.snr(pairs.pairs_with(LABELS, v, LABELS, x)), x)
    np.testing.assert_array_equal(slope[1:3], np.zeros((2, 4)))
    assert np.isfinite(slope).all()


@pytest.mark.slow
@pytest.mark.parametrize("way", [fast, compiled], ids=["eager", "xla"])
def test_hardest_in_batch_compares_with_the_nearest_negative_of_either_example(x, way):
    y = x.astype("float64")
    a, p = y[::2], y[1::2]
    expected = []
    for i in range(3):
        others = [j for j in range(3) if j != i]
        negative = min(min(np.linalg.norm(a[i] - p[j]), np.linalg.norm(a[j] - p[i])) for j in others)
        expected.append(max(0.0, 1.0 + np.linalg.norm(a[i] - p[i]) - negative))
    loss = losses.BatchHardTripletLoss(
        margin=1.0, pairing=pairs.even_against_odd, distance=pairs.two_way_euclidean, reduction=None
    )
    labels = keras.ops.convert_to_tensor([4, 4, 1, 1, 2, 2])
    np.testing.assert_allclose(numbers(way(lambda labels, x: loss(labels, x))(labels, x)), expected, rtol=1e-5)
    copy = keras.losses.deserialize(keras.losses.serialize(loss))
    np.testing.assert_allclose(numbers(copy(labels, x)), expected, rtol=1e-5)


def test_other_numbers_of_references_than_anchors_have_no_second_way(x):
    with pytest.raises(ValueError, match=r"distances of shape \(2, 6\), expected as many references as anchors"):
        pairs.two_way_euclidean(pairs.pairs_with(LABELS[:2], x[:2], LABELS, x))


@pytest.mark.everywhere
@pytest.mark.parametrize("dim", [2, 300, 5000])
def test_duplicates_are_at_distance_zero_with_gradient_zero(dim):
    row = np.random.default_rng(0).standard_normal((1, dim)).astype("float32")
    x, labels = np.repeat(row, 3, axis=0), np.zeros(3, int)

    @fast
    def compute(v):
        return of_both_powers_of(lambda v: pairs.all_pairs(labels, v), v)

    for scale in (1e-6, 1.0, 1e6):
        for ours, slope in compute(keras.ops.convert_to_tensor(x * np.float32(scale))).values():
            np.testing.assert_allclose(numbers(ours), np.zeros((3, 3)), atol=1.1e-18)
            np.testing.assert_array_equal(numbers(slope), np.zeros_like(x))


@pytest.mark.everywhere
def test_a_zero_vector_has_similarity_zero_and_gradient_zero(x):
    x[1] = 0
    np.testing.assert_array_equal(numbers(pairs.cosine(pairs.all_pairs(LABELS, x)))[1], np.zeros(6))
    np.testing.assert_array_equal(gradient(lambda v: pairs.cosine(pairs.all_pairs(LABELS, v)), x)[1], np.zeros(4))


def test_half_precision_embeddings_are_compared_in_float32(x):
    made = pairs.all_pairs(LABELS, keras.ops.cast(x, "bfloat16"))
    for distance in (pairs.dot, pairs.cosine, pairs.squared, pairs.euclidean, pairs.snr):
        assert keras.backend.standardize_dtype(distance(made).dtype) == "float32"


@pytest.mark.parametrize("only_cpus", [True, False])
@pytest.mark.parametrize("distance", [pairs.dot, pairs.cosine, pairs.squared, pairs.euclidean, pairs.snr])
def test_the_gradient_within_a_batch_is_that_of_both_sides(distance, only_cpus, x, monkeypatch):
    monkeypatch.setattr(pairs.products, "only_cpus", lambda: only_cpus)
    weights = np.random.default_rng(1).standard_normal((6, 6)).astype("float32") * (1 - np.eye(6, dtype="float32"))

    @fast
    def gradients(v):
        within = gradient_of(lambda v: keras.ops.multiply(weights, distance(pairs.all_pairs(LABELS, v))), v)
        as_anchors = gradient_of(
            lambda v: keras.ops.multiply(weights, distance(pairs.pairs_with(LABELS, v, LABELS, x))), v
        )
        as_references = gradient_of(
            lambda v: keras.ops.multiply(weights, distance(pairs.pairs_with(LABELS, x, LABELS, v))), v
        )
        return within, as_anchors, as_references

    within, as_anchors, as_references = map(numbers, gradients(keras.ops.convert_to_tensor(x)))
    np.testing.assert_allclose(within, as_anchors + as_references, rtol=1e-4, atol=1e-5)


def test_normalized_pairs_have_norm_one_and_stay_a_batch_with_itself(x):
    made = pairs.normalized(pairs.all_pairs(LABELS, x))
    assert made.is_self
    np.testing.assert_allclose(np.linalg.norm(numbers(made.anchors), axis=1), np.ones(6), rtol=1e-6)
    against = pairs.normalized(pairs.pairs_with(LABELS, x, LABELS, 2 * x))
    np.testing.assert_allclose(numbers(against.references), numbers(made.anchors), rtol=1e-6)


@pytest.mark.everywhere
def test_distances_far_from_the_origin_are_those_near_it(x):
    far = x + np.float32(300)  # rounds x itself to steps of 3e-5
    exact = np.sqrt(((far.astype("float64")[:, None] - far) ** 2).sum(axis=2))
    within = fast(lambda v: pairs.euclidean(pairs.all_pairs(LABELS, v)))(far)
    np.testing.assert_allclose(numbers(within), exact, rtol=1e-5, atol=1.1e-18)
    against = fast(lambda v: pairs.euclidean(pairs.pairs_with(LABELS, v, LABELS[1:], far[1:])))(far)
    np.testing.assert_allclose(numbers(against), exact[:, 1:], rtol=1e-5, atol=1.1e-18)


APART = np.array([1e-4, 3e-4, 1e-3, 2e-3, 5e-3, 0.015, 0.1])


def unit_rows(rng, *shape):
    rows = rng.standard_normal(shape)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def near_rows(dim, dtype="float32", others=50):
    """Unit vectors: rows 2k and 2k + 1 are APART[k] from each other, all others are at random."""
    rng = np.random.default_rng(dim)
    first, way = unit_rows(rng, len(APART), dim), unit_rows(rng, len(APART), dim)
    way = way - (way * first).sum(axis=1, keepdims=True) * first
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    second = np.cos(APART)[:, None] * first + np.sin(APART)[:, None] * way
    near = np.stack([first, second], axis=1).reshape(-1, dim)
    return np.concatenate([near, unit_rows(rng, others, dim)]).astype(dtype)


def by_differences(x, references, power):
    """Distances to a power of 1 or 2, and the gradient of their sum by each side, in float64."""
    away = x.astype("float64")[:, None] - references.astype("float64")
    d = np.linalg.norm(away, axis=2)
    slopes = np.divide(power * away, d[:, :, None] ** (2 - power), where=d[:, :, None] > 0, out=np.zeros_like(away))
    return d**power, slopes.sum(axis=1), -slopes.sum(axis=0)


def value_and_gradient(function, x, way):
    x = keras.ops.convert_to_tensor(x)
    return [numbers(part) for part in way(lambda v: (function(v), gradient_of(function, v)))(x)]


def assert_within(ours, exact, tolerance):
    """No row is farther from the exact one than a share of its norm."""
    distance = np.linalg.norm(ours.astype("float64") - exact, axis=-1)
    assert (distance <= tolerance * np.linalg.norm(exact, axis=-1) + 1e-30).all()


DISTANCES = {1: pairs.euclidean, 2: pairs.squared}

# On JAX both are compiled.
COMPILED = pytest.param(compiled, marks=pytest.mark.slow)
WAYS = pytest.mark.parametrize("way", [fast, COMPILED] if BACKEND == "tensorflow" else [compiled])


def of_both_powers_of(made, v):
    """For each power, the distances of the pairs that `made` makes of v, and the gradient of their sum by v."""
    return {power: (d(made(v)), gradient_of(lambda w, d=d: d(made(w)), v)) for power, d in DISTANCES.items()}


def of_both_powers(made, x, way):
    """The same as arrays, computed by one function."""
    found = way(lambda v: of_both_powers_of(made, v))(keras.ops.convert_to_tensor(x))
    return {power: [numbers(part) for part in both] for power, both in found.items()}


@pytest.fixture(params=["few near rows", "many near rows"])
def recomputed(request, monkeypatch):
    """Near rows are recomputed one by one, or, as if they were many, with all others."""
    if request.param == "many near rows":
        monkeypatch.setattr(pairs.squared_distances, "_MAX_NEAR", 0)


@pytest.mark.usefixtures("recomputed")
@pytest.mark.parametrize(
    ("dim", "way"),
    [(3, compiled), (512, fast), pytest.param(1500, compiled, marks=pytest.mark.slow)]
    + [(3, fast)] * (BACKEND == "tensorflow"),
)
def test_small_distances_within_a_batch_are_right_in_value_and_gradient(dim, way):
    x = near_rows(dim)
    labels = np.arange(len(x))
    for power, (ours, slope) in of_both_powers(lambda v: pairs.all_pairs(labels, v), x, way).items():
        exact, by_anchors, by_references = by_differences(x, x, power)
        np.testing.assert_allclose(ours, exact, rtol=0.005, atol=1.1e-18)
        assert_within(slope, by_anchors + by_references, 0.005)


@WAYS
@pytest.mark.usefixtures("recomputed")
def test_small_distances_to_other_references_are_right_in_value_and_gradient(way):
    x = near_rows(64)
    anchors, references = x[:14:2], np.concatenate([x[1:14:2], x[14:]])
    labels, others = np.arange(len(anchors)), np.arange(len(references))
    as_anchors = of_both_powers(lambda v: pairs.pairs_with(labels, v, others, references), anchors, way)
    as_references = of_both_powers(lambda v: pairs.pairs_with(labels, anchors, others, v), references, way)
    for power in DISTANCES:
        exact, by_anchors, by_references = by_differences(anchors, references, power)
        np.testing.assert_allclose(as_anchors[power][0], exact, rtol=0.005)
        assert_within(as_anchors[power][1], by_anchors, 0.005)
        assert_within(as_references[power][1], by_references, 0.005)


@pytest.mark.everywhere
def test_small_distances_of_consecutive_rows_are_exact():
    x = near_rows(64)
    labels = np.arange(len(x))
    for power, (ours, slope) in of_both_powers(lambda v: pairs.consecutive_pairs(labels, v), x, fast).items():
        exact = [by_differences(x[k : k + 1], x[k + 1 : k + 2], power) for k in range(0, len(x), 2)]
        np.testing.assert_allclose(ours[:, 0], [value[0, 0] for value, *_ in exact], rtol=1e-6)
        np.testing.assert_allclose(slope, np.concatenate([side for _, *sides in exact for side in sides]), rtol=1e-5)


@pytest.mark.usefixtures("recomputed")
@pytest.mark.parametrize("dim", [3, 512])
@pytest.mark.skipif(BACKEND == "torch", reason="Keras computes products of float64 in float32")
def test_in_float64_small_distances_are_right_to_rounding(dim):
    x = near_rows(dim, "float64")
    labels = np.arange(len(x))
    with float64():
        within = of_both_powers(lambda v: pairs.all_pairs(labels, v), x, fast)
        against = of_both_powers(
            lambda v: pairs.pairs_with(labels[:14:2], v, labels[1:14:2], x[1:14:2]), x[:14:2], fast
        )
    for power, (ours, slope) in within.items():
        exact, by_anchors, by_references = by_differences(x, x, power)
        np.testing.assert_allclose(ours, exact, rtol=1e-11, atol=1.1e-18)
        np.testing.assert_allclose(against[power][0], exact[:14:2, 1:14:2], rtol=1e-11)
        assert_within(slope, by_anchors + by_references, 1e-11)


@WAYS
@pytest.mark.parametrize(("largest", "dim"), [(1, 3), (9, 64), (255, 784)])
def test_distances_of_small_whole_numbers_are_exact(largest, dim, way):
    rng = np.random.default_rng(dim)
    x = rng.integers(0, largest + 1, (12, dim)).astype("float32")
    x[1], x[3], x[5] = x[0], x[2], x[4]
    x[1, 0], x[3, :2] = x[0, 0] + 1, x[2, :2] + 1
    labels = np.arange(12)

    @way
    def compute(v):
        within, against = pairs.all_pairs(labels, v), pairs.pairs_with(labels, v, labels, x)
        return pairs.squared(within), pairs.euclidean(within)[0, 1], pairs.euclidean(against)[0, 1]

    ours, *ones = map(numbers, compute(keras.ops.convert_to_tensor(x)))
    exact = ((x[:, None] - x) ** 2).sum(axis=2)
    np.testing.assert_array_equal(ours[exact < 2**17], exact[exact < 2**17])
    np.testing.assert_allclose(ours, exact, rtol=3e-7)
    assert ones == [1.0, 1.0]


@WAYS
@pytest.mark.parametrize("distance", DISTANCES.values())
def test_duplicates_among_near_rows_have_gradient_zero_however_large_the_upstream(distance, way):
    x = near_rows(512)
    x[20:30], labels = x[20], np.arange(len(x))
    weights = np.zeros((len(x), len(x)), dtype="float32")
    weights[20:30, 20:30] = 1e9
    ours, slope = value_and_gradient(
        lambda v: keras.ops.multiply(weights, distance(pairs.all_pairs(labels, v))), x, way
    )
    np.testing.assert_allclose(ours, np.zeros_like(weights), atol=1.1e-9)
    np.testing.assert_array_equal(slope, np.zeros_like(x))
    _, between = value_and_gradient(
        lambda v: keras.ops.multiply(weights, distance(pairs.pairs_with(labels, v, labels, x))), x, way
    )
    np.testing.assert_array_equal(between, np.zeros_like(x))


@functools.cache
def euclidean_of_thirty():
    """Euclidean distances of a batch of 30 rows and their gradient, compiled once."""
    labels = np.arange(30)
    return fast(lambda v: of_both_powers_of(lambda v: pairs.all_pairs(labels, v), v)[1])


@pytest.mark.parametrize("offset", [0.0, 300.0])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_distances_of_a_collapsed_batch_are_right_at_every_scale(scale, offset):
    rng = np.random.default_rng(0)
    classes = offset + unit_rows(rng, 6, 32).repeat(5, axis=0)
    x = (scale * (classes + 1e-3 * rng.standard_normal((30, 32)))).astype("float32")
    exact, *slopes = by_differences(x, x, 1)
    ours, slope = map(numbers, euclidean_of_thirty()(keras.ops.convert_to_tensor(x)))
    np.testing.assert_allclose(ours, exact, rtol=0.005, atol=1.1e-18)
    assert_within(slope, sum(slopes), 0.005)


def test_small_distances_are_right_among_rows_of_very_different_norms():
    x = near_rows(64)
    x[14:20] *= np.float32(1e6)
    x[20:26] *= np.float32(1e-3)
    labels, (exact, *_) = np.arange(len(x)), by_differences(x, x, 1)
    ours = numbers(fast(lambda v: pairs.euclidean(pairs.all_pairs(labels, v)))(x))
    np.testing.assert_allclose(ours[:14, :14], exact[:14, :14], rtol=0.005, atol=1.1e-18)


def test_few_near_rows_are_recomputed_alone_and_many_with_all_others(monkeypatch):
    monkeypatch.setattr(pairs.squared_distances, "_levels", lambda x: [(0 * x, 0 * x)])  # distances 0
    x = np.array([[1.0], [1.0 + 1e-3], [2.0], [3.0]], dtype="float32")
    for few, expected in ((8, 1e-6), (0, 0.0)):
        monkeypatch.setattr(pairs.squared_distances, "_MAX_NEAR", few)
        d2 = fast(lambda v: pairs.squared(pairs.all_pairs(np.arange(4), v)))(keras.ops.convert_to_tensor(x))
        np.testing.assert_allclose(numbers(d2)[0], [0, expected, 1, 4], rtol=1e-2)


def test_nothing_is_computed_twice_where_no_rows_are_near_each_other(monkeypatch):
    def refuse(x):
        raise AssertionError("computed again")

    x = near_rows(64)
    labels = np.arange(len(x))
    monkeypatch.setattr(pairs.squared_distances, "_with_exact_pairs", lambda *few: refuse(few))
    monkeypatch.setattr(pairs.squared_distances, "_levels", refuse)
    if BACKEND != "jax":  # where the second computation is traced in any case
        pairs.euclidean(pairs.all_pairs(labels[14:], x[14:]))
    with pytest.raises(AssertionError, match="computed again"):
        pairs.euclidean(pairs.all_pairs(labels, x))


def test_only_near_rows_that_are_a_pair_are_recomputed(monkeypatch):
    x, itself, recomputed = np.eye(4, dtype="float32"), np.eye(4, dtype=bool), []

    def loop(condition, body, state):
        recomputed.append(bool(numbers(state[0])))
        return state

    monkeypatch.setattr(pairs.squared_distances, "while_loop", loop)
    for allowed in (~itself, True):
        pairs.squared(pairs.pairs_with(np.arange(4), x, np.arange(4), x, allowed=allowed))
    assert recomputed == [False, True]
