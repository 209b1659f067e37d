"""Losses without pairs, of a teacher's embeddings and of scores of pairs: loops over their equations, and laws."""

import json
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import pytest

from tests.backend import BACKEND, XLA, compiled, fast, gradient, gradient_and_values, numbers
from tfdml import losses, models, samplers

pytestmark = pytest.mark.backends

rng = np.random.default_rng(0)
TEACHER = rng.standard_normal((7, 5)).astype("float32")
STUDENT = rng.standard_normal((7, 3)).astype("float32")
LABELS = np.array([1, -1, 1, -1, -1, 1, 1])
SCORES = np.array([0.3, 0.2, 2.5, -3.0, 1.0, -1.7, 40.0], "float32")


def huber(x):
    return x * x / 2 if abs(x) <= 1 else abs(x) - 0.5


def cosine_distillation(t, s):
    return np.array([1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(t, s, strict=True)])


def similarity_preserving(t, s):
    def row(x, i):
        products = np.array([x[i] @ other for other in x])
        return products / np.linalg.norm(products)

    return np.array([((row(t, i) - row(s, i)) ** 2).sum() / len(t) for i in range(len(t))])


def relational_distance(t, s):
    pairs = [(i, j) for i in range(len(t)) for j in range(len(t)) if i != j]

    def unit(x):
        return np.mean([np.linalg.norm(x[i] - x[j]) for i, j in pairs])

    def term(i, j):
        return huber(np.linalg.norm(t[i] - t[j]) / unit(t) - np.linalg.norm(s[i] - s[j]) / unit(s))

    return np.array([np.mean([term(i, j) for i, j in pairs if i == anchor]) for anchor in range(len(t))])


def relational_angle(t, s):
    def cosine(x, i, j, k):
        a, b = x[i] - x[j], x[k] - x[j]
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    rows = range(len(t))
    triplets = [(i, j, k) for j in rows for i in rows for k in rows if len({i, j, k}) == 3]
    values = [[huber(cosine(t, *ijk) - cosine(s, *ijk)) for ijk in triplets if ijk[1] == j] for j in rows]
    return np.mean(values, axis=1)


def hinge(y, o):
    return np.array([max(0.0, 1.0 - sign * score) for sign, score in zip(y, o, strict=True)])


def logistic(y, o):
    return np.array([np.log1p(np.exp(-sign * score)) for sign, score in zip(y, o, strict=True)])


class Row(NamedTuple):
    """A class of losses, its equation, and targets and predictions that it takes."""

    make: type
    by_loops: Callable
    targets: np.ndarray = TEACHER
    predictions: np.ndarray = STUDENT


ROWS = {
    row.make.__name__: row
    for row in (
        Row(losses.CosineDistillationLoss, cosine_distillation, TEACHER, STUDENT @ STUDENT.T[:, :5]),
        Row(losses.SimilarityPreservingLoss, similarity_preserving),
        Row(losses.RelationalDistanceLoss, relational_distance),
        Row(losses.RelationalAngleLoss, relational_angle),
        Row(losses.PairHingeLoss, hinge, LABELS, SCORES),
        Row(losses.PairLogisticLoss, logistic, LABELS, SCORES),
    )
}


def each(*names):
    return pytest.mark.parametrize("row", [ROWS[name] for name in names], ids=names)


EACH = each(*ROWS)
OF_A_TEACHER = each(*list(ROWS)[:4])
RELATIONAL = each(*list(ROWS)[1:4])
OF_SCORES = each(*list(ROWS)[4:])


def evaluated(row, targets=None, predictions=None, weights=None, way=fast):
    """The reduced loss, its gradient by the predictions, and one value per example."""
    loss = row.make()
    given = row.targets if targets is None else targets, row.predictions if predictions is None else predictions

    def function(targets, predictions):
        def reduced(x):
            values = loss.call(targets, x)
            return loss.reduce(values, weights), values

        return gradient_and_values(reduced, predictions)

    return tuple(map(numbers, way(function)(*map(keras.ops.convert_to_tensor, given))))


def slopes_by_loops(row, weights, step=1e-6):
    targets, x = row.targets.astype(float), row.predictions.astype(float)
    slopes = np.zeros(x.shape)
    for entry in np.ndindex(x.shape):
        shift = np.zeros(x.shape)
        shift[entry] = step
        up, down = ((weights * row.by_loops(targets, x + sign * shift)).mean() for sign in (1, -1))
        slopes[entry] = (up - down) / (2 * step)
    return slopes


@EACH
@pytest.mark.parametrize("way", [fast, compiled], ids=["eager", "xla"])
def test_values_and_gradients_are_those_of_the_equation_for_any_weights_of_examples(row, way):
    expected = row.by_loops(row.targets.astype(float), row.predictions.astype(float))
    for weights in (np.ones(7), np.arange(7.0)):
        value, slope, values = evaluated(row, weights=weights.astype("float32"), way=way)
        np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(value, (weights * expected).mean(), rtol=1e-5)
        np.testing.assert_allclose(slope, slopes_by_loops(row, weights), rtol=1e-3, atol=1e-5)


@EACH
def test_numbers_that_are_not_finite_make_value_and_gradient_nan(row):
    for bad in (np.nan, np.inf, -np.inf):
        x = row.predictions.copy()
        x[3] = bad
        value, slope, values = evaluated(row, predictions=x)
        assert np.isnan(value)
        assert np.isnan(slope[3]).all()
        assert np.isnan(values[3])
        if row.targets is TEACHER:
            assert np.isnan(evaluated(row, targets=np.where(np.arange(7)[:, None] == 3, np.float32(bad), TEACHER))[0])


@EACH
def test_half_precision_is_compared_in_float32(row):
    half = keras.ops.cast(row.predictions, "bfloat16")
    targets = keras.ops.cast(row.targets, "bfloat16") if row.targets is TEACHER else row.targets
    values = row.make().call(targets, half)
    assert keras.backend.standardize_dtype(values.dtype) == "float32"
    given = (numbers(keras.ops.cast(x, "float32")).astype(float) for x in (targets, half))
    np.testing.assert_allclose(numbers(values), row.by_loops(*given), rtol=1e-4, atol=1e-5)


@EACH
def test_it_comes_back_from_its_config(row):
    loss = row.make(name="own", reduction="sum")
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(keras.saving.serialize_keras_object(loss))))
    assert (type(again), again.get_config()) == (row.make, loss.get_config())
    expected = numbers(loss.call(row.targets, row.predictions)).sum()
    np.testing.assert_allclose(numbers(again(row.targets, row.predictions)), expected, rtol=1e-6)


@EACH
def test_other_shapes_and_masked_entries_are_refused(row):
    x = row.predictions
    masked = np.ma.masked_greater(x, 0.25)
    wrong = [(row.targets[:5], x), (row.targets, np.stack([x, x], axis=1)), (row.targets, masked)]
    wrong += [(y, x) for y in (np.arange(7), np.arange(7)[:, None], np.arange(7.0))] * (row.targets is TEACHER)
    for targets, predictions in wrong:
        with pytest.raises(ValueError, match=r"^Received .* expected "):
            row.make()(targets, predictions)


# Losses of a teacher.


@RELATIONAL
def test_a_rotated_and_scaled_copy_of_the_teacher_has_loss_0(row):
    rotation = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    np.testing.assert_allclose(row.make().call(TEACHER, 3.0 * (TEACHER @ rotation).astype("float32")), 0, atol=1e-6)


@OF_A_TEACHER
def test_degenerate_batches_have_finite_values_and_gradients(row):
    s, copies = row.predictions, [0, 0, 0, 1, 1, 2, 3]
    for name, targets, x in [
        ("one example", TEACHER[:1], s[:1]),
        ("two examples", TEACHER[:2], s[:2]),
        ("duplicates", TEACHER, s[copies]),
        ("duplicates of the teacher", TEACHER[copies], s),
        ("all equal", TEACHER, s[[0] * 7]),
        ("zeros", TEACHER, 0 * s),
        ("a teacher of zeros", 0 * TEACHER, s),
    ]:
        _, slope, values = evaluated(row, targets, x)
        assert np.isfinite(values).all(), name
        assert np.isfinite(slope).all(), name


def test_the_values_of_degenerate_batches_are_those_of_the_documentation():
    for row in list(ROWS.values())[1:4]:
        np.testing.assert_allclose(row.make().call(TEACHER[:1], STUDENT[:1]), [0.0], atol=1e-6)
    np.testing.assert_array_equal(losses.RelationalAngleLoss().call(TEACHER[:2], STUDENT[:2]), [0.0, 0.0])
    np.testing.assert_allclose(losses.CosineDistillationLoss().call(TEACHER, 0 * TEACHER), 1.0)
    flat = numbers(losses.RelationalDistanceLoss().call(TEACHER, 0 * STUDENT))
    relative = np.linalg.norm(TEACHER[:, None] - TEACHER, axis=-1).astype(float)
    relative = relative * 42 / relative.sum()
    np.testing.assert_allclose(flat, np.vectorize(huber)(relative).sum(axis=1) / 6, rtol=1e-5)


@OF_A_TEACHER
def test_no_gradient_flows_to_the_teacher(row):
    slope = gradient(lambda t: row.make()(t, row.predictions) + 0.0 * keras.ops.sum(t), TEACHER)
    np.testing.assert_array_equal(slope, 0 * TEACHER)


def test_only_the_cosine_needs_equal_dimensions():
    with pytest.raises(ValueError, match="dimension 5 and student embeddings of dimension 3, expected the same dim"):
        losses.CosineDistillationLoss()(TEACHER, STUDENT)


def network(outputs=lambda embedding: embedding):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((6,))
    embedding = keras.layers.Dense(4, dtype="mixed_bfloat16")(inputs)
    return models.EmbeddingModel(inputs, outputs(embedding))


X = rng.standard_normal((20, 6)).astype("float32")
STORED = (X @ rng.standard_normal((6, 4))).astype("float32")


@pytest.mark.slow
@OF_A_TEACHER
def test_fit_takes_stored_embeddings_and_a_short_last_batch_compiled_and_in_mixed_precision(row, tmp_path):
    model = network()
    model.compile(keras.optimizers.Adam(0.02), loss=row.make(), jit_compile=XLA)
    history = model.fit(X, STORED, batch_size=10 if BACKEND == "jax" else 8, epochs=10, verbose=0).history["loss"]
    assert history[-1] < 0.8 * history[0]
    model.save(tmp_path / "student.keras")
    assert type(keras.saving.load_model(tmp_path / "student.keras").loss) is row.make


@pytest.mark.slow
def test_one_embedding_learns_from_labels_and_from_a_teacher():
    model = network(lambda embedding: {"classes": embedding, "teacher": embedding})
    loss = {"classes": losses.MarginLoss(), "teacher": losses.CosineDistillationLoss()}
    model.compile("adam", loss=loss, loss_weights={"classes": 1.0, "teacher": 2.0})
    sampler = samplers.GroupSampler(classes_per_batch=3, examples_per_class=2, seed=0)
    batches = sampler.batches((X, STORED), np.arange(20) // 4)
    batches = batches.map(lambda examples, labels: (examples[0], {"classes": labels, "teacher": examples[1]}))
    x, y = keras.tree.map_structure(np.asarray, next(iter(batches)))
    parts = [float(numbers(loss[name](y[name], model(x)[name]))) for name in ("classes", "teacher")]
    assert model.test_on_batch(x, y, return_dict=True)["loss"] == pytest.approx(parts[0] + 2 * parts[1], rel=1e-3)
    history = model.fit(batches, steps_per_epoch=4, epochs=2, shuffle=False, verbose=0).history
    assert np.isfinite(history["teacher_loss"]).all()


# Losses of scores.


@OF_SCORES
def test_labels_are_1_and_minus_1_or_1_and_0_or_true_and_false_and_scores_may_be_a_column(row):
    expected = numbers(row.make().call(LABELS, SCORES))
    for labels in (LABELS > 0, (LABELS > 0).astype(int), LABELS.astype("float32"), LABELS[:, None]):
        np.testing.assert_array_equal(row.make().call(labels, SCORES), expected)
    np.testing.assert_array_equal(row.make().call(LABELS, SCORES[:, None]), expected[:, None])


@OF_SCORES
def test_a_map_of_scores_is_the_mean_over_its_places_and_takes_weights_of_places_and_of_examples(row):
    maps = np.random.default_rng(0)
    scores, labels = maps.standard_normal((2, 3, 4)).astype("float32"), maps.choice([-1, 1], (2, 3, 4))
    values = row.by_loops(labels.ravel(), scores.ravel().astype(float)).reshape(scores.shape)
    weights = maps.random((2, 3, 4)).astype("float32")
    for given, broadcast in ((None, 1.0), (weights, weights), (np.array([2.0, 0.5]), [[[2.0]], [[0.5]]])):
        np.testing.assert_allclose(row.make()(labels, scores, given), (broadcast * values).mean(), rtol=1e-5)
    balanced = row.make(reduction="mean_with_sample_weight")(labels, scores, weights)
    np.testing.assert_allclose(balanced, (weights * values).sum() / weights.sum(), rtol=1e-5)
    column = row.make()(LABELS, SCORES, np.arange(7.0)[:, None])
    np.testing.assert_allclose(column, row.make()(LABELS, SCORES, np.arange(7.0)), rtol=1e-6)


@OF_SCORES
def test_large_scores_have_a_finite_value_and_gradient(row):
    value, slope, _ = evaluated(row, predictions=1e30 * SCORES)
    assert np.isfinite(value)
    assert np.isfinite(slope).all()
