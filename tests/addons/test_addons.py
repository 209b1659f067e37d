"""The same names, arguments, values and gradients as TensorFlow Addons, and finite where it is not."""

import functools

import keras
import numpy as np
import pytest
from keras import ops

from tests.addons.reference import CASES, CLASS_OF, LABELS, SETTINGS, batch, key, parameters, read
from tests.backend import BACKEND, compiled, fast, gradient, gradient_and_values, numbers
from tfdml import addons

on_every_backend = pytest.mark.backends


@keras.saving.register_keras_serializable("tests.addons")
def manhattan(x):
    return ops.sum(ops.abs(x[:, None] - x), axis=2)


METRICS = {"manhattan": manhattan, "dot": lambda x: ops.matmul(x, ops.transpose(x))}
LOSSES = {
    "semi-hard": (addons.TripletSemiHardLoss(0.3, "L2", "near"), "triplet_semihard_loss"),
    "hard": (addons.TripletHardLoss(), "triplet_hard_loss"),
    "hard, soft": (addons.TripletHardLoss(0.5, True, "squared-L2"), "triplet_hard_loss"),
    "hard, angular": (addons.TripletHardLoss(distance_metric="angular"), "triplet_hard_loss"),
    "hard, a function": (addons.TripletHardLoss(distance_metric=manhattan), "triplet_hard_loss"),
    "lifted": (addons.LiftedStructLoss(0.7), "lifted_struct_loss"),
    "n-pairs": (addons.NpairsLoss(), "npairs_loss"),
    "n-pairs of many labels": (addons.NpairsMultilabelLoss(), "npairs_multilabel_loss"),
    "contrastive": (addons.ContrastiveLoss(0.8), "contrastive_loss"),
}
every_loss = pytest.mark.parametrize(("loss", "function"), LOSSES.values(), ids=LOSSES)


def some(*names):
    return pytest.mark.parametrize(("loss", "function"), [LOSSES[name] for name in names], ids=names)


every_loss_of_embeddings = some("semi-hard", "hard", "hard, soft", "hard, angular", "lifted")
every_loss_by_class = some("semi-hard", "hard", "lifted", "n-pairs")


@pytest.fixture(scope="module")
def theirs():
    """What Addons itself gives, computed by TensorFlow whatever the backend of the tests."""
    return read()


@functools.cache
def of_batch(function, way=fast, metric=None, **settings):
    """The value of a loss and the gradient of its sum, of `y_true` and `y_pred`; compiled once on JAX."""
    if metric is not None:
        settings["distance_metric"] = METRICS.get(metric, metric)

    def summed(y_true, y_pred):
        value = function(y_true, y_pred, **settings)
        return ops.sum(value), value

    return way(lambda y_true, y_pred: gradient_and_values(lambda x: summed(y_true, x), y_pred))


def evaluated(function, y_true, y_pred, way=fast, distance_metric=None, **settings):
    """The value of a loss and the gradient of its sum, as arrays."""
    tensors = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)
    _, slope, value = of_batch(function, way, distance_metric, **settings)(*tensors)
    return numbers(value), numbers(slope)


# JAX compiles for every shape: there, all batches have 8 rows.
CHECKED = [case for case in CASES if BACKEND == "tensorflow" or case[1] not in ("large", "one row")]


def gives_nan(function, name):
    """Where Addons divides by zero, or takes the logarithm of it."""
    without = {"triplet_semihard_loss": ["no class twice", "one row"], "npairs_multilabel_loss": ["no class twice"]}
    without["lifted_struct_loss"] = ["one class", "no class twice", "one row"]
    return name in without.get(function, [])


@on_every_backend
@pytest.mark.slow
@pytest.mark.parametrize(("function", "name", "settings"), CHECKED, ids=[key(*case) for case in CHECKED])
def test_values_and_gradients_are_those_of_addons_or_finite(theirs, function, name, settings):
    y_true, y_pred = batch(function, name)
    # Far from the origin, distances have few digits, the same as those of Addons only one operation at a time.
    way = (lambda run: run) if name == "far from the origin" else fast
    value, slope = evaluated(getattr(addons, function), y_true, y_pred, way, **settings)
    case = key(function, name, settings)
    if gives_nan(function, name):
        assert np.isnan(theirs[case])
        assert np.isfinite(value)
        assert np.isfinite(slope).all()
        return
    assert value.shape == theirs[case].shape
    np.testing.assert_allclose(value, theirs[case], rtol=1e-5, atol=1e-6)
    # There, the order in which a processor adds moves the slope in the fifth digit.
    digits = 1e-4 if name == "far from the origin" else 1e-5
    scale = np.abs(theirs[f"slope {case}"]).max()
    np.testing.assert_allclose(slope, theirs[f"slope {case}"], rtol=digits, atol=digits * scale + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("function", CLASS_OF)
def test_the_classes_return_what_those_of_addons_do(theirs, function):
    y_true, y_pred = batch(function, "large")
    value = numbers(getattr(addons, CLASS_OF[function])()(y_true, y_pred))
    expected = theirs["class " + key(function, "large", SETTINGS[function][0])]
    assert value.shape == expected.shape == ()
    np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_arguments_stand_in_the_order_of_addons_with_its_defaults(theirs):
    expected = theirs["signatures"]
    assert {name: parameters(getattr(addons, name)) for name in expected} == expected


@on_every_backend
@pytest.mark.parametrize("function", ["triplet_semihard_loss", "lifted_struct_loss"])
@pytest.mark.parametrize("name", ["no class twice", "one row"])
def test_without_positives_the_loss_is_0(function, name):
    y_true, y_pred = batch(function, name)
    value, slope = evaluated(getattr(addons, function), y_true, y_pred)
    assert value == 0
    np.testing.assert_array_equal(slope, np.zeros_like(y_pred))


@on_every_backend
def test_one_class_costs_what_the_docstrings_say():
    labels, x = batch("triplet_hard_loss", "one class")
    d = np.linalg.norm(x[:, None] - x, axis=2)
    semi_hard = 1 + d.sum() / (8 * 7)
    np.testing.assert_allclose(numbers(addons.triplet_semihard_loss(labels, x)), semi_hard, rtol=1e-5)
    np.testing.assert_allclose(numbers(addons.triplet_hard_loss(labels, x, margin=0.3)), 0.3, rtol=1e-5)
    assert numbers(addons.lifted_struct_loss(labels, x)) == 0


def test_a_row_without_labels_adds_nothing_but_counts():
    has_label, s = batch("npairs_multilabel_loss", "no class twice")
    others = [0, 2, 3, 4, 5, 6, 7]
    shared = has_label[others] @ has_label.T
    log_softmax = s - np.log(np.exp(s).sum(axis=1, keepdims=True))
    expected = -(shared / shared.sum(axis=1, keepdims=True) * log_softmax[others]).sum() / 8
    np.testing.assert_allclose(numbers(addons.npairs_multilabel_loss(has_label, s)), expected, rtol=1e-5)
    slope = gradient(lambda s: addons.npairs_multilabel_loss(has_label, s), s)
    np.testing.assert_array_equal(slope[1], np.zeros(8))


@on_every_backend
@every_loss_of_embeddings
@pytest.mark.parametrize("x", [np.zeros((8, 5)), np.full((8, 5), 0.1), np.eye(8, 5) * 1e-6, np.eye(8, 5) * 1e6])
@pytest.mark.parametrize("labels", [[0, 0, 0, 0, 1, 1, 1, 1], [2, 2, 2, 2, 2, 2, 2, 2]])
def test_degenerate_embeddings_have_finite_values_and_gradients(loss, function, labels, x):
    labels, x = np.array(labels), x.astype("float32")
    value, slope = evaluated(loss, labels, x)
    assert np.isfinite(value)
    assert np.isfinite(slope).all()


@on_every_backend
@every_loss_of_embeddings
def test_an_embedding_that_is_not_finite_is_not_hidden(loss, function):
    labels, x = batch("triplet_hard_loss", "three classes")
    x[0, 0] = np.nan
    assert not np.isfinite(evaluated(loss, labels, x)[0])


def test_soft_margins_of_large_distances_do_not_overflow():
    labels, x = np.array([0, 0, 1, 1]), np.array([[0], [300], [1], [301]], "float32")  # farther than exp can take
    np.testing.assert_allclose(numbers(addons.triplet_hard_loss(labels, x, soft=True)), 299, rtol=1e-5)
    assert np.isfinite(gradient(lambda v: addons.triplet_hard_loss(labels, v, soft=True), x)).all()


@pytest.mark.slow
@every_loss
def test_compiled_by_xla_it_gives_the_same_values_and_gradients(loss, function):
    y_true, y_pred = batch(function, "three classes")
    fast = compiled(lambda x: loss(y_true, x))
    np.testing.assert_allclose(numbers(fast(y_pred)), numbers(loss(y_true, y_pred)), rtol=1e-5)
    slope = gradient(lambda x: loss(y_true, x), y_pred)
    np.testing.assert_allclose(gradient(fast, y_pred), slope, rtol=1e-4, atol=1e-6)


@every_loss
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32(loss, function, dtype):
    y_true, y_pred = batch(function, "three classes")
    half = ops.cast(y_pred, dtype)
    values = loss.call(y_true, half)
    assert keras.backend.standardize_dtype(values.dtype) == "float32"
    np.testing.assert_array_equal(numbers(values), numbers(loss.call(y_true, ops.cast(half, "float32"))))
    slope = gradient(lambda x: loss(y_true, ops.cast(x, dtype)), y_pred)
    assert np.isfinite(slope).all()


@on_every_backend
@every_loss_by_class
def test_large_ids_are_not_merged_and_labels_may_be_floats_or_stand_in_a_column(loss, function):
    labels, x = batch(function, "three classes")
    value = numbers(loss(labels, x))
    assert value > 0
    for same in (labels + 2**24, labels[:, None], labels.astype("float32"), (labels + 2.0**24), labels.tolist()):
        np.testing.assert_array_equal(numbers(loss(same, x)), value)
    np.testing.assert_array_equal(numbers(loss(ops.convert_to_tensor(labels.astype("float32")), x)), value)
    if BACKEND == "jax":
        with pytest.raises(ValueError, match="32-bit"):
            loss(labels + 2**62, x)
    else:
        np.testing.assert_array_equal(numbers(loss(labels + 2**62, x)), value)


@every_loss
def test_one_value_a_row_goes_to_the_reduction_of_keras(loss, function):
    y_true, y_pred = batch(function, "three classes")
    values = numbers(loss.call(y_true, y_pred))
    assert values.shape == (8,)
    weights = np.arange(8, dtype="float32")
    np.testing.assert_allclose(numbers(loss(y_true, y_pred, weights)), (values * weights).mean(), rtol=1e-6)
    total = type(loss)(reduction="sum", dtype="float32")
    assert total.get_config()["dtype"] == "float32"
    plain = numbers(type(loss)()(y_true, y_pred))
    np.testing.assert_allclose(numbers(total(y_true, y_pred)), 8 * plain, rtol=1e-6)


@pytest.mark.parametrize(("label_shape", "shape"), [((8, 1), (8,)), ((8,), (8, 1)), ((8, 1), (8, 1))])
def test_contrastive_labels_and_distances_in_columns_stay_row_by_row(label_shape, shape):
    y, d = batch("contrastive_loss", "floats")
    values = numbers(addons.contrastive_loss(y.reshape(label_shape), d.reshape(shape)))
    np.testing.assert_array_equal(values, numbers(addons.contrastive_loss(y, d)).reshape(shape))
    loss = addons.ContrastiveLoss()
    mean = numbers(loss(y.reshape(label_shape), d.reshape(shape), np.ones(8)))
    np.testing.assert_allclose(mean, values.mean(), rtol=1e-6)


@every_loss
def test_a_loss_comes_back_from_its_config(loss, function):
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    y_true, y_pred = batch(function, "three classes")
    assert type(again) is type(loss)
    assert again.name == loss.name
    assert again.get_config() == loss.get_config()
    np.testing.assert_array_equal(numbers(again(y_true, y_pred)), numbers(loss(y_true, y_pred)))
    assert keras.saving.get_registered_object(keras.saving.get_registered_name(type(loss))) is type(loss)


@pytest.mark.parametrize(
    "loss",
    [
        addons.TripletSemiHardLoss(),
        pytest.param(addons.TripletHardLoss(), marks=pytest.mark.slow),
        pytest.param(addons.LiftedStructLoss(), marks=pytest.mark.slow),
    ],
)
def test_fit_takes_a_short_last_batch_compiled_and_in_mixed_precision(loss):
    x = np.random.default_rng(0).standard_normal((20, 5)).astype("float32")
    model = keras.Sequential([keras.layers.Input((5,)), keras.layers.Dense(4, dtype="mixed_bfloat16")])
    model.compile("sgd", loss=loss, jit_compile=True)
    history = model.fit(x, np.arange(20) // 2, batch_size=8, epochs=1, verbose=0)  # 8, 8, 4
    assert np.isfinite(history.history["loss"]).all()


LABELS_8 = np.array(LABELS["three classes"])
X, S = np.ones((8, 2), "float32"), np.ones((8, 8), "float32")
WRONG = {
    "margin='wide'": lambda: addons.TripletSemiHardLoss("wide"),
    "margin=nan": lambda: addons.LiftedStructLoss(float("nan")),
    "margin=None": lambda: addons.ContrastiveLoss(None),
    "distance_metric='cosine'": lambda: addons.TripletHardLoss(distance_metric="cosine"),
    "distance_metric=None": lambda: addons.triplet_semihard_loss(LABELS_8, X, distance_metric=None),
    r"distances of shape \(8, 2\)": lambda: addons.triplet_hard_loss(LABELS_8, X, distance_metric=lambda x: x),
    r"labels of shape \(8, 3\)": lambda: addons.lifted_struct_loss(np.ones((8, 3)), X),
    "6 labels and 8 embeddings": lambda: addons.triplet_hard_loss(LABELS_8[:6], X),
    r"embeddings of shape \(8, 2, 1\)": lambda: addons.lifted_struct_loss(LABELS_8, X[:, :, None]),
    r"similarities of shape \(8, 2\)": lambda: addons.npairs_loss(LABELS_8, X),
    r"y_true of shape \(8,\) for y_pred of shape \(8, 8\)": lambda: addons.npairs_multilabel_loss(LABELS_8, S),
    r"y_true of shape \(6, 8\) for": lambda: addons.npairs_multilabel_loss(S[:6], S),
    r"y_true of shape \(8,\) and y_pred of shape \(8, 2\)": lambda: addons.ContrastiveLoss()(LABELS_8, X),
}


@pytest.mark.parametrize(("received", "call"), WRONG.items(), ids=WRONG)
def test_a_wrong_option_or_shape_is_named(received, call):
    with pytest.raises(ValueError, match=f"Received {received}.* expected "):
        call()


def test_sparse_labels_are_refused_with_the_way_out():
    class Sparse:
        dense_shape = (8, 3)

    with pytest.raises(ValueError, match=r"Received a sparse y_true, expected a dense one: tf\.sparse\.to_dense"):
        addons.NpairsMultilabelLoss()(Sparse(), S)
