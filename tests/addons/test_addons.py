"""Names, arguments and defaults of TensorFlow Addons; values and gradients of its formulas in float64."""

import inspect

import keras
import numpy as np
import pytest
from keras import ops

from tests.backend import BACKEND, fast, gradient, gradient_and_values, numbers
from tfdml import addons

on_every_backend = pytest.mark.backends
SIGNATURES = {
    "triplet_semihard_loss TripletSemiHardLoss": "margin=1.0 distance_metric='L2'",
    "triplet_hard_loss TripletHardLoss": "margin=1.0 soft=False distance_metric='L2'",
    "lifted_struct_loss LiftedStructLoss": "margin=1.0",
    "npairs_loss NpairsLoss": "",
    "npairs_multilabel_loss NpairsMultilabelLoss": "",
    "contrastive_loss ContrastiveLoss": "margin=1.0",
}
LABELS = {
    "three classes": [0, 0, 1, 1, 1, 7, 7, 7],
    "one of its own": [3, 3, 3, 9, 5, 5, 6, 6],
    "floats": [0.5, 0.5, 1.5, 1.5, 1.25, 1.25, 1.25, 1.25],
    "ties": [0, 0, 1, 1, 2, 2, 2, 2],  # rows 2 and 3 are equal
    "one class": [4] * 8,
    "no class twice": [1, 2, 3, 4, 5, 6, 7, 8],
}


@keras.saving.register_keras_serializable("tests.addons")
def manhattan(x):
    return ops.sum(ops.abs(x[:, None] - x), axis=2)


def distances(x, metric):
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    squared = ((x[:, None] - x) ** 2).sum(axis=2)
    kinds = {"L2": np.sqrt(squared), "squared-L2": squared, "angular": 1 - unit @ unit.T}
    return kinds[metric] if metric in kinds else np.abs(x[:, None] - x).sum(axis=2)


def rows_of(labels, d):
    """For each row its distances, those to positives, and those to negatives."""
    for a, row in enumerate(d):
        same = labels == labels[a]
        yield row, row[same & (np.arange(len(row)) != a)], row[~same]


def semi_hard(labels, x, margin=1.0, distance_metric="L2"):
    values = []
    for row, positives, negatives in rows_of(labels, distances(x, distance_metric)):
        for d_ap in positives:
            d_an = min(negatives[negatives > d_ap], default=max(negatives, default=row.min()))
            values.append(max(0, margin + d_ap - d_an))
    return np.mean(values) if values else 0.0


def hard(labels, x, margin=1.0, soft=False, distance_metric="L2"):
    values = []
    for row, positives, negatives in rows_of(labels, distances(x, distance_metric)):
        violation = max(positives, default=row.min()) - min(negatives, default=row.max())
        values.append(np.log1p(np.exp(violation)) if soft else max(0, violation + margin))
    return np.mean(values)


def lifted(labels, x, margin=1.0):
    d, terms = distances(x, "L2"), []
    for a, p in zip(*np.nonzero((labels[:, None] == labels) & ~np.eye(len(x), dtype=bool)), strict=True):
        near = np.exp(margin - np.concatenate([d[a], d[p]])[np.tile(labels != labels[a], 2)]).sum()
        terms.append(max(0, d[a, p] + np.log(near)) ** 2 if near else 0.0)
    return np.mean(terms) / 2 if terms else 0.0


def cross_entropy(shared, s):
    shares = shared / np.maximum(shared.sum(axis=1, keepdims=True), 1)
    return -(shares * (s - np.log(np.exp(s).sum(axis=1, keepdims=True)))).sum() / len(s)


def n_pairs(labels, s):
    return cross_entropy(labels[:, None] == labels, s)


def multi_label(has_label, s):
    return cross_entropy(has_label @ has_label.T, s)


def contrastive(y, d, margin=1.0):
    return np.mean(y * d**2 + (1 - y) * np.maximum(0, margin - d) ** 2)


ROWS = [
    *((addons.TripletSemiHardLoss, semi_hard, {"distance_metric": m}) for m in ("L2", "squared-L2", manhattan)),
    (addons.TripletSemiHardLoss, semi_hard, {"margin": 0.3, "distance_metric": "angular"}),
    *((addons.TripletHardLoss, hard, {"distance_metric": m}) for m in ("L2", "squared-L2", "angular", manhattan)),
    (addons.TripletHardLoss, hard, {"soft": True}),
    (addons.LiftedStructLoss, lifted, {"margin": 0.7}),
    (addons.NpairsLoss, n_pairs, {}),
    (addons.NpairsMultilabelLoss, multi_label, {}),
    (addons.ContrastiveLoss, contrastive, {"margin": 0.8}),
]
every_loss = pytest.mark.parametrize(("kind", "oracle", "settings"), ROWS)


def batch(kind, name="three classes"):
    rng, labels = np.random.default_rng(len(name)), np.array(LABELS[name])
    x = rng.standard_normal((8, 5))
    x[3] = x[2] if name == "ties" else x[3]
    if kind is addons.ContrastiveLoss:
        return labels.astype("int64") % 2, np.abs(x[:, 0]).astype("float32")
    if kind in (addons.NpairsLoss, addons.NpairsMultilabelLoss):
        x = x @ rng.standard_normal((5, 8))
    if kind is addons.NpairsMultilabelLoss:
        labels = (rng.random((8, 6)) < 0.3).astype(int) * (np.arange(8) != 1)[:, None]  # row 1 has no label
    return labels, x.astype("float32")


def slope_by_differences(oracle, labels, x, settings, step=1e-6):
    """Central differences; where two distances tie, each has half of the slope."""
    slope = np.zeros(x.shape)
    for place in np.ndindex(x.shape):
        ends = [x.copy(), x.copy()]
        ends[0][place] -= step
        ends[1][place] += step
        below, above = (oracle(labels, end, **settings) for end in ends)
        slope[place] = (above - below) / (2 * step)
    return slope


@on_every_backend
@every_loss
@pytest.mark.parametrize("name", LABELS)
def test_values_and_gradients_are_those_of_the_formulas(kind, oracle, settings, name):
    labels, x = batch(kind, name)
    loss, exact = kind(**settings), x.astype("float64")
    _, slope, value = fast(lambda x: gradient_and_values(lambda x: (loss(labels, x),) * 2, x))(ops.convert_to_tensor(x))
    np.testing.assert_allclose(numbers(value), oracle(labels, exact, **settings), rtol=1e-5, atol=1e-6)
    expected = slope_by_differences(oracle, labels, exact, settings)
    np.testing.assert_allclose(numbers(slope), expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max() + 1e-6)


def test_arguments_stand_in_the_order_of_addons_with_its_defaults():
    for names, expected in SIGNATURES.items():
        for name in names.split():
            found = inspect.signature(getattr(addons, name)).parameters.values()
            texts = [f"{one.name}={one.default!r}" for one in found if one.name not in ("reduction", "name")]
            assert " ".join(text for text in texts if "<class" not in text) == expected


@on_every_backend
@every_loss
def test_degenerate_values_are_finite_and_nan_is_not_hidden(kind, oracle, settings):
    labels, x = batch(kind)
    for scale in (0.0, 1e-6, 1e4):
        assert np.isfinite(numbers(kind(**settings)(labels, x * np.float32(scale))))
        assert np.isfinite(gradient(lambda x: kind(**settings)(labels, x), x * np.float32(scale))).all()
    x[0] = np.nan
    assert not np.isfinite(numbers(kind(**settings)(labels, x)))


@on_every_backend
@pytest.mark.parametrize("loss", [kind(**settings) for kind, _, settings in ROWS[2:11:2]], ids=lambda loss: loss.name)
def test_large_ids_are_not_merged_and_labels_may_be_floats_or_stand_in_a_column(loss):
    labels, x = batch(type(loss))
    for same in (labels + 2**24, labels[:, None], labels.astype("float32"), labels + 2.0**24, labels.tolist()):
        np.testing.assert_array_equal(numbers(loss(same, x)), numbers(loss(labels, x)))
    if BACKEND != "jax":
        np.testing.assert_array_equal(numbers(loss(labels + 2**62, x)), numbers(loss(labels, x)))


@every_loss
def test_a_row_has_a_float32_value_and_the_loss_comes_back_from_its_config(kind, oracle, settings):
    loss, (labels, x) = kind(**settings, reduction="sum", dtype="float32", name="near"), batch(kind)
    values, weights = numbers(loss.call(labels, x)), np.arange(8, dtype="float32")
    np.testing.assert_allclose(numbers(loss(labels, x, weights)), (values * weights).sum(), rtol=1e-6)
    half = ops.cast(x, "bfloat16")
    np.testing.assert_array_equal(
        numbers(loss.call(labels, half)), numbers(loss.call(labels, ops.cast(half, "float32")))
    )
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    assert (type(again), again.get_config()) == (kind, loss.get_config())
    np.testing.assert_array_equal(numbers(again(labels, x)), numbers(loss(labels, x)))


def test_a_negative_as_far_as_the_positive_is_not_semi_hard():
    x = np.array([[5], [6], [4], [8]], "float32")
    labels = np.array([0, 0, 1, 1])
    np.testing.assert_allclose(numbers(addons.triplet_semihard_loss(labels, x)), semi_hard(labels, x), rtol=1e-6)


def test_contrastive_labels_in_a_column_stay_row_by_row():
    y, d = batch(addons.ContrastiveLoss)
    np.testing.assert_array_equal(
        numbers(addons.contrastive_loss(y[:, None], d)), numbers(addons.contrastive_loss(y, d))
    )


def test_soft_margins_of_large_distances_do_not_overflow():
    x = np.array([[0], [300], [1], [301]], "float32")  # farther than exp can take
    np.testing.assert_allclose(numbers(addons.triplet_hard_loss(np.array([0, 0, 1, 1]), x, soft=True)), 299, rtol=1e-5)


ONES, X, S = np.ones(8, int), np.ones((8, 2), "float32"), np.ones((8, 8), "float32")
WRONG = {
    "margin=nan": lambda: addons.LiftedStructLoss(float("nan")),
    "distance_metric='cosine'": lambda: addons.TripletHardLoss(distance_metric="cosine"),
    r"distances of shape \(8, 2\)": lambda: addons.triplet_hard_loss(ONES, X, distance_metric=lambda x: x),
    r"labels of shape \(8, 3\)": lambda: addons.lifted_struct_loss(np.ones((8, 3)), X),
    r"similarities of shape \(8, 2\)": lambda: addons.npairs_loss(ONES, X),
    r"y_true of shape \(6, 8\) for": lambda: addons.npairs_multilabel_loss(S[:6], S),
    r"y_true of shape \(8,\) and y_pred of shape \(8, 2\)": lambda: addons.ContrastiveLoss()(ONES, X),
    "a sparse y_true": lambda: addons.npairs_multilabel_loss(type("Sparse", (), {"dense_shape": (8, 3)})(), S),
}


@pytest.mark.parametrize(("received", "call"), WRONG.items(), ids=WRONG)
def test_a_wrong_option_or_shape_is_named(received, call):
    with pytest.raises(ValueError, match=f"Received {received}.* expected "):
        call()
