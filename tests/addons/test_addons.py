"""Names, arguments and defaults of TensorFlow Addons; the values and gradients that it gives itself."""

import inspect
from functools import partial

import keras
import numpy as np
import pytest
from keras import ops

from tests.addons.reference import CASES, CLASS_OF, SETTINGS, batch, key, read
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


@keras.saving.register_keras_serializable("tests.addons")
def manhattan(x):
    return ops.sum(ops.abs(x[:, None] - x), axis=2)


METRICS = {"manhattan": manhattan, "dot": lambda x: ops.matmul(x, ops.transpose(x))}
ROWS = [
    (addons.TripletSemiHardLoss, {"margin": 0.3, "distance_metric": "angular"}),
    (addons.TripletHardLoss, {"distance_metric": manhattan}),
    (addons.TripletHardLoss, {"soft": True}),
    (addons.LiftedStructLoss, {"margin": 0.7}),
    (addons.NpairsLoss, {}),
    (addons.NpairsMultilabelLoss, {}),
    (addons.ContrastiveLoss, {"margin": 0.8}),
]
every_loss = pytest.mark.parametrize(("kind", "settings"), ROWS, ids=[kind.__name__ for kind, _ in ROWS])
# JAX compiles for every shape: there, all batches have 8 rows.
CHECKED = [case for case in CASES if BACKEND == "tensorflow" or case[1] not in ("large", "one row")]
UNDEFINED = {  # Addons divides by zero there, or takes the logarithm of it
    "triplet_semihard_loss": ["no class twice", "one row"],
    "npairs_multilabel_loss": ["no class twice"],
    "lifted_struct_loss": ["one class", "no class twice", "one row"],
}


def rows_of(kind):
    """Three classes as a loss takes them."""
    return batch(next(function for function, name in CLASS_OF.items() if name == kind.__name__), "three classes")


@pytest.fixture(scope="module")
def theirs():
    """What Addons itself gives, computed by TensorFlow whatever the backend of the tests."""
    return read()


@on_every_backend
@pytest.mark.slow
@pytest.mark.parametrize(("function", "name", "settings"), CHECKED, ids=[key(*case) for case in CHECKED])
def test_values_and_gradients_are_those_of_addons_or_finite(theirs, function, name, settings):
    case, (y_true, y_pred) = key(function, name, settings), batch(function, name)
    metric = {option: METRICS.get(value, value) for option, value in settings.items() if option == "distance_metric"}
    run = partial(getattr(addons, function), ops.convert_to_tensor(y_true), **settings | metric)
    way = (lambda compute: compute) if name == "far from the origin" else fast  # as few digits as Addons, step by step
    _, slope, value = way(lambda x: gradient_and_values(lambda x: (ops.sum(run(x)), run(x)), x))(
        ops.convert_to_tensor(y_pred)
    )
    if name in UNDEFINED.get(function, ()):
        assert np.isnan(theirs[case])
        assert np.isfinite(numbers(value))
        assert np.isfinite(numbers(slope)).all()
        return
    digits, scale = 1e-4 if name == "far from the origin" else 1e-5, np.abs(theirs[f"slope {case}"]).max()
    np.testing.assert_allclose(numbers(value), theirs[case], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(numbers(slope), theirs[f"slope {case}"], rtol=digits, atol=digits * scale + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("function", CLASS_OF)
def test_classes_give_what_those_of_addons_give(theirs, function):
    value = getattr(addons, CLASS_OF[function])()(*batch(function, "large"))
    np.testing.assert_allclose(
        numbers(value), theirs["class " + key(function, "large", SETTINGS[function][0])], rtol=1e-5
    )


def test_arguments_stand_in_the_order_of_addons_with_its_defaults():
    for names, expected in SIGNATURES.items():
        for name in names.split():
            found = inspect.signature(getattr(addons, name)).parameters.values()
            texts = [f"{one.name}={one.default!r}" for one in found if one.name not in ("reduction", "name")]
            assert " ".join(text for text in texts if "<class" not in text) == expected


@on_every_backend
@every_loss
def test_degenerate_values_are_finite_and_nan_is_not_hidden(kind, settings):
    labels, x = rows_of(kind)
    for scale in (0.0, 1e-6, 1e4):
        assert np.isfinite(numbers(kind(**settings)(labels, x * np.float32(scale))))
        assert np.isfinite(gradient(lambda x: kind(**settings)(labels, x), x * np.float32(scale))).all()
    x[0] = np.nan
    assert not np.isfinite(numbers(kind(**settings)(labels, x)))


@on_every_backend
@pytest.mark.parametrize("loss", [kind(**settings) for kind, settings in ROWS[:5]], ids=lambda loss: loss.name)
def test_large_ids_are_not_merged_and_labels_may_be_floats_or_stand_in_a_column(loss):
    labels, x = rows_of(type(loss))
    for same in (labels + 2**24, labels[:, None], labels.astype("float32"), labels + 2.0**24, labels.tolist()):
        np.testing.assert_array_equal(numbers(loss(same, x)), numbers(loss(labels, x)))
    if BACKEND != "jax":
        np.testing.assert_array_equal(numbers(loss(labels + 2**62, x)), numbers(loss(labels, x)))


@every_loss
def test_a_row_has_a_float32_value_and_the_loss_comes_back_from_its_config(kind, settings):
    loss, (labels, x) = kind(**settings, reduction="sum", dtype="float32", name="near"), rows_of(kind)
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
    """Of the anchors, 5 has negatives at 1 and 3 and takes 3; the terms are 0, 0, 3 and 2."""
    x = np.array([[5], [6], [4], [8]], "float32")
    assert numbers(addons.triplet_semihard_loss(np.array([0, 0, 1, 1]), x)) == pytest.approx(1.25, rel=1e-6)


def test_contrastive_labels_in_a_column_stay_row_by_row():
    y, d = rows_of(addons.ContrastiveLoss)
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
