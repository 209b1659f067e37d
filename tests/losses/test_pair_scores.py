"""Losses of scores of pairs: loops over their equations, laws, training, and errors."""

import keras
import numpy as np
import pytest

from tests.backend import compiled, fast, gradient, gradient_and_values, numbers
from tfdml import losses

pytestmark = pytest.mark.backends

LABELS = np.array([1, -1, 1, -1, -1, 1, 1])
SCORES = np.array([0.3, 0.2, 2.5, -3.0, 1.0, -1.7, 40.0], "float32")


def hinge(y, o):
    return np.array([max(0.0, 1.0 - sign * score) for sign, score in zip(y, o.astype(float), strict=True)])


def logistic(y, o):
    return np.array([np.log1p(np.exp(-sign * score)) for sign, score in zip(y, o.astype(float), strict=True)])


def hinge_slopes(y, o):
    return np.array([-sign if 1.0 - sign * score > 0 else 0.0 for sign, score in zip(y, o, strict=True)])


def logistic_slopes(y, o):
    return np.array([-sign / (1 + np.exp(sign * score)) for sign, score in zip(y, o.astype(float), strict=True)])


LOOPS = {losses.PairHingeLoss: (hinge, hinge_slopes), losses.PairLogisticLoss: (logistic, logistic_slopes)}
EACH = pytest.mark.parametrize("make", LOOPS, ids=lambda make: make.__name__)


def evaluated(make, labels, scores, way=fast):
    """The reduced loss, its gradient by the scores, and one value per score."""
    loss = make()

    def function(y, o):
        def reduced(o):
            values = loss.call(y, o)
            return loss.reduce(values), values

        return gradient_and_values(reduced, o)

    return tuple(map(numbers, way(function)(*map(keras.ops.convert_to_tensor, (labels, scores)))))


@EACH
@pytest.mark.parametrize("way", [fast, compiled], ids=["eager", "xla"])
def test_values_and_gradients_are_those_of_the_equation(make, way):
    value, slope, values = evaluated(make, LABELS, SCORES, way)
    by_loops, slopes = LOOPS[make]
    np.testing.assert_allclose(values, by_loops(LABELS, SCORES), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(value, values.mean(), rtol=1e-5)
    np.testing.assert_allclose(slope, slopes(LABELS, SCORES) / len(SCORES), rtol=1e-5, atol=1e-7)


@EACH
def test_labels_are_1_and_minus_1_or_1_and_0_or_true_and_false(make):
    expected = numbers(make().call(LABELS, SCORES))
    for labels in (LABELS > 0, (LABELS > 0).astype(int), LABELS.astype("float32"), LABELS[:, None]):
        np.testing.assert_array_equal(make().call(labels, SCORES), expected)


@EACH
def test_one_column_of_scores_has_the_loss_of_its_values(make):
    np.testing.assert_allclose(make()(LABELS, SCORES[:, None]), make()(LABELS, SCORES), rtol=1e-6)
    assert make().call(LABELS, SCORES[:, None]).shape == (7, 1)


@EACH
def test_a_map_of_scores_is_the_mean_over_its_places_and_takes_weights_of_places_and_of_examples(make):
    rng = np.random.default_rng(0)
    scores, labels = rng.standard_normal((2, 3, 4)).astype("float32"), rng.choice([-1, 1], (2, 3, 4))
    values = LOOPS[make][0](labels.ravel(), scores.ravel()).reshape(scores.shape)
    np.testing.assert_allclose(make()(labels, scores), values.mean(), rtol=1e-5)
    weights = rng.random((2, 3, 4)).astype("float32")
    np.testing.assert_allclose(make()(labels, scores, weights), (weights * values).mean(), rtol=1e-5)
    balanced = make(reduction="mean_with_sample_weight")
    np.testing.assert_allclose(balanced(labels, scores, weights), (weights * values).sum() / weights.sum(), rtol=1e-5)
    for each in (np.array([2.0, 0.5], "float32"), np.array([[2.0], [0.5]], "float32")):
        expected = (values * np.array([2.0, 0.5])[:, None, None]).mean()
        np.testing.assert_allclose(make()(labels, scores, each.reshape(2)), expected, rtol=1e-5)
    column = make()(LABELS, SCORES, np.arange(7.0)[:, None])
    np.testing.assert_allclose(column, make()(LABELS, SCORES, np.arange(7.0)), rtol=1e-6)


@EACH
@pytest.mark.parametrize("way", [fast, compiled], ids=["eager", "xla"])
def test_scores_that_are_not_finite_are_nan_in_value_and_gradient(make, way):
    for number in (np.nan, np.inf, -np.inf):
        value, slope, _ = evaluated(make, LABELS, np.where(np.arange(7) == 3, number, SCORES), way)
        assert np.isnan(value)
        np.testing.assert_array_equal(np.isnan(slope), np.arange(7) == 3)
    value, slope, _ = evaluated(make, LABELS, 1e30 * SCORES, way)
    assert np.isfinite(value)
    assert np.isfinite(slope).all()


@EACH
def test_scores_in_half_precision_have_a_loss_in_float32(make):
    values = make().call(LABELS, keras.ops.cast(SCORES, "float16"))
    assert keras.backend.standardize_dtype(values.dtype) == "float32"
    np.testing.assert_allclose(values, LOOPS[make][0](LABELS, SCORES), rtol=2e-3, atol=1e-3)


@EACH
def test_a_loss_is_rebuilt_from_its_config(make):
    loss = make(reduction="sum", name="of pairs")
    copy = keras.losses.deserialize(keras.losses.serialize(loss))
    assert (type(copy), copy.name, copy.reduction) == (make, "of pairs", "sum")
    np.testing.assert_allclose(copy(LABELS, SCORES), numbers(loss.call(LABELS, SCORES)).sum(), rtol=1e-6)
    assert make().name in ("pair_hinge", "pair_logistic")


@EACH
def test_an_l2_penalty_of_half_lambda_is_a_kernel_regularizer(make):
    """Equation 1 of Zagoruyko and Komodakis, with a mean in place of the sum."""
    inputs = keras.Input((2,))
    dense = keras.layers.Dense(1, kernel_regularizer=keras.regularizers.L2(0.1 / 2))
    model = keras.Model(inputs, dense(inputs))
    model.compile("sgd", loss=make())
    x = np.random.default_rng(0).standard_normal((7, 2)).astype("float32")
    w = np.array([[0.5], [-2.0]])
    dense.set_weights([w, np.array([0.25])])
    data = LOOPS[make][0](LABELS, (x @ w)[:, 0] + 0.25).mean()
    assert model.evaluate(x, LABELS, verbose=0) == pytest.approx(data + 0.1 / 2 * (w**2).sum(), rel=1e-5)


@EACH
def test_other_shapes_and_masked_entries_are_errors(make):
    with pytest.raises(ValueError, match=r"labels of shape \(5,\) and scores of shape \(7,\), expected one label per"):
        make()(LABELS[:5], SCORES)
    with pytest.raises(
        ValueError, match=r"labels of shape \(7,\) and scores of shape \(7, 3\), expected one label per"
    ):
        make()(LABELS, np.zeros((7, 3), "float32"))
    with pytest.raises(ValueError, match="scores with 1 masked entries"):
        make()(LABELS, np.ma.masked_greater(SCORES, 10))
    with pytest.raises(ValueError, match="labels with 4 masked entries"):
        make()(np.ma.masked_greater(LABELS, 0), SCORES)


def test_the_logistic_loss_is_binary_cross_entropy_from_logits():
    expected = keras.losses.BinaryCrossentropy(from_logits=True)((LABELS > 0).astype("float32"), SCORES)
    np.testing.assert_allclose(losses.PairLogisticLoss()(LABELS, SCORES), expected, rtol=1e-5)


def test_a_gradient_step_of_the_hinge_loss_ends_at_the_margin():
    score = np.array([0.9], "float32")
    assert gradient(lambda o: losses.PairHingeLoss()([1], o), score) == -1
    assert gradient(lambda o: losses.PairHingeLoss()([1], o), score + 0.2) == 0
