"""Losses of a teacher: loops over their equations, laws, training, and errors."""

import json

import keras
import numpy as np
import pytest

from tests.backend import BACKEND, XLA, compiled, fast, gradient, gradient_and_values, numbers
from tfdml import losses, models, samplers

pytestmark = pytest.mark.backends

rng = np.random.default_rng(0)
TEACHER = rng.standard_normal((7, 5)).astype("float32")
STUDENT = rng.standard_normal((7, 3)).astype("float32")


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
    return np.array(
        [
            np.mean([huber(cosine(t, i, j, k) - cosine(s, i, j, k)) for i in rows for k in rows if len({i, j, k}) == 3])
            for j in rows
        ]
    )


LOOPS = {
    losses.CosineDistillationLoss: cosine_distillation,
    losses.SimilarityPreservingLoss: similarity_preserving,
    losses.RelationalDistanceLoss: relational_distance,
    losses.RelationalAngleLoss: relational_angle,
}
EACH = pytest.mark.parametrize("make", LOOPS, ids=lambda make: make.__name__)
RELATIONAL = pytest.mark.parametrize("make", list(LOOPS)[1:], ids=lambda make: make.__name__)


def students(make):
    """Embeddings of a student, of the teacher's dimension where the loss needs it."""
    return (
        rng.standard_normal(TEACHER.shape).astype("float32")
        if make is losses.CosineDistillationLoss
        else STUDENT.copy()
    )


def evaluated(make, teacher, student, way=fast):
    """The reduced loss, its gradient by the student, and one value per example."""
    loss = make()

    def function(teacher, student):
        def reduced(s):
            values = loss.call(teacher, s)
            return loss.reduce(values), values

        return gradient_and_values(reduced, student)

    return tuple(map(numbers, way(function)(*map(keras.ops.convert_to_tensor, (teacher, student)))))


def slopes_by_loops(make, t, s, weights=1.0, step=1e-6):
    slopes = np.zeros(s.shape)
    for entry in np.ndindex(s.shape):
        shift = np.zeros(s.shape)
        shift[entry] = step
        up, down = ((weights * LOOPS[make](t, s + sign * shift)).mean() for sign in (1, -1))
        slopes[entry] = (up - down) / (2 * step)
    return slopes


@EACH
@pytest.mark.parametrize("way", [fast, compiled], ids=["eager", "xla"])
def test_values_and_gradients_are_those_of_the_equation(make, way):
    s = students(make)
    value, slope, values = evaluated(make, TEACHER, s, way)
    t, s = TEACHER.astype(float), s.astype(float)
    np.testing.assert_allclose(values, LOOPS[make](t, s), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(value, values.mean(), rtol=1e-5)
    np.testing.assert_allclose(slope, slopes_by_loops(make, t, s), rtol=1e-3, atol=1e-5)


@EACH
def test_a_weight_of_an_example_multiplies_its_value_and_its_gradient(make):
    s, loss = students(make), make()
    weights = np.arange(7, dtype="float32")
    values = numbers(loss.call(TEACHER, s))
    np.testing.assert_allclose(loss(TEACHER, s, weights), (weights * values).mean(), rtol=1e-5)
    expected = slopes_by_loops(make, TEACHER.astype(float), s.astype(float), weights)
    np.testing.assert_allclose(gradient(lambda v: loss(TEACHER, v, weights), s), expected, rtol=1e-3, atol=1e-5)


@RELATIONAL
def test_a_rotated_and_scaled_copy_of_the_teacher_has_loss_0(make):
    rotation = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    np.testing.assert_allclose(make().call(TEACHER, 3.0 * (TEACHER @ rotation).astype("float32")), 0, atol=1e-6)


@pytest.mark.parametrize("make", [losses.RelationalDistanceLoss, losses.RelationalAngleLoss])
def test_relations_do_not_depend_on_the_origin(make):
    moved = make().call(TEACHER + 4, STUDENT - 2)
    np.testing.assert_allclose(moved, make().call(TEACHER, STUDENT), rtol=1e-3, atol=1e-5)


@EACH
def test_degenerate_batches_have_finite_values_and_gradients(make):
    s = students(make)
    for name, t, x in [
        ("one example", TEACHER[:1], s[:1]),
        ("two examples", TEACHER[:2], s[:2]),
        ("duplicates", TEACHER, s[[0, 0, 0, 1, 1, 2, 3]]),
        ("duplicates of the teacher", TEACHER[[0, 0, 0, 1, 1, 2, 3]], s),
        ("all equal", TEACHER, s[[0] * 7]),
        ("zeros", TEACHER, 0 * s),
        ("a teacher of zeros", 0 * TEACHER, s),
    ]:
        _, slope, values = evaluated(make, t, x)
        assert np.isfinite(values).all(), name
        assert np.isfinite(slope).all(), name


def test_the_values_of_degenerate_batches_are_those_of_the_documentation():
    for make in list(LOOPS)[1:]:
        np.testing.assert_allclose(make().call(TEACHER[:1], STUDENT[:1]), [0.0], atol=1e-6)
    np.testing.assert_array_equal(losses.RelationalAngleLoss().call(TEACHER[:2], STUDENT[:2]), [0.0, 0.0])
    np.testing.assert_allclose(losses.CosineDistillationLoss().call(TEACHER, 0 * TEACHER), 1.0)
    flat = numbers(losses.RelationalDistanceLoss().call(TEACHER, 0 * STUDENT))
    relative = np.linalg.norm(TEACHER[:, None] - TEACHER, axis=-1).astype(float)
    relative = relative * 42 / relative.sum()
    np.testing.assert_allclose(flat, np.vectorize(huber)(relative).sum(axis=1) / 6, rtol=1e-5)


@EACH
def test_loss_and_gradient_are_nan_together(make):
    s = students(make)
    s[0, 0] = np.nan
    value, slope, values = evaluated(make, TEACHER, s)
    assert np.isnan(value)
    assert np.isnan(slope).any()
    assert np.isnan(values[0])
    teacher = TEACHER.copy()
    teacher[2, 1] = np.inf
    assert np.isnan(evaluated(make, teacher, students(make))[0])


@EACH
def test_half_precision_is_compared_in_float32(make):
    t, s = (keras.ops.cast(x, "bfloat16") for x in (TEACHER, students(make)))
    values = make().call(t, s)
    assert keras.backend.standardize_dtype(values.dtype) == "float32"
    expected = LOOPS[make](*(numbers(keras.ops.cast(x, "float32")).astype(float) for x in (t, s)))
    np.testing.assert_allclose(numbers(values), expected, rtol=1e-4, atol=1e-5)


@EACH
def test_no_gradient_flows_to_the_teacher(make):
    s = students(make)
    slope = fast(lambda t: gradient_and_values(lambda v: (make()(v, s), v), t)[1])(keras.ops.convert_to_tensor(TEACHER))
    assert slope is None or not numbers(slope).any()


@EACH
def test_it_comes_back_from_its_config(make):
    loss = make(name="teach", reduction="sum")
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(keras.saving.serialize_keras_object(loss))))
    assert again.get_config() == loss.get_config()
    s = students(make)
    np.testing.assert_array_equal(numbers(again(TEACHER, s)), numbers(loss(TEACHER, s)))


@EACH
def test_class_ids_in_place_of_embeddings_are_refused(make):
    for labels in (np.arange(7), np.arange(7)[:, None], np.arange(7.0)):
        with pytest.raises(ValueError, match=r"Received teacher embeddings of shape .*, expected floats \(batch, teac"):
            make()(labels, STUDENT)
    with pytest.raises(ValueError, match=r"student embeddings of shape \(7, 1, 5\)"):
        make()(TEACHER, TEACHER[:, None])
    with pytest.raises(ValueError, match="Received 6 teacher embeddings and 7 student embeddings, expected one of"):
        make()(TEACHER[:6], TEACHER)


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
@EACH
def test_fit_takes_stored_embeddings_and_a_short_last_batch_compiled_and_in_mixed_precision(make, tmp_path):
    model = network()
    model.compile(keras.optimizers.Adam(0.02), loss=make(), jit_compile=XLA)
    history = model.fit(X, STORED, batch_size=10 if BACKEND == "jax" else 8, epochs=10, verbose=0).history["loss"]
    assert history[-1] < 0.8 * history[0]
    model.save(tmp_path / "student.keras")
    assert type(keras.saving.load_model(tmp_path / "student.keras").loss) is make


def test_relations_of_distances_and_angles_are_added_by_a_weighted_sum():
    terms = [losses.RelationalDistanceLoss(), losses.RelationalAngleLoss()]
    both = losses.WeightedSumLoss(terms, weights=[1.0, 2.0])
    expected = numbers(terms[0].call(TEACHER, STUDENT)) + 2 * numbers(terms[1].call(TEACHER, STUDENT))
    np.testing.assert_allclose(numbers(both.call(TEACHER, STUDENT)), expected, rtol=1e-6)
    assert both.layers == []


@pytest.mark.slow
def test_one_embedding_learns_from_labels_and_from_a_teacher(tmp_path):
    labels = np.arange(20) // 4
    model = network(lambda embedding: {"classes": embedding, "teacher": embedding})
    loss = {"classes": losses.MarginLoss(), "teacher": losses.CosineDistillationLoss()}
    model.compile("adam", loss=loss, loss_weights={"classes": 1.0, "teacher": 2.0})
    batches = samplers.GroupSampler(classes_per_batch=3, examples_per_class=2, seed=0).batches((X, STORED), labels)
    batches = batches.map(lambda examples, labels: (examples[0], {"classes": labels, "teacher": examples[1]}))
    x, y = keras.tree.map_structure(np.asarray, next(iter(batches)))
    parts = [float(numbers(loss[name](y[name], model(x)[name]))) for name in ("classes", "teacher")]
    assert model.test_on_batch(x, y, return_dict=True)["loss"] == pytest.approx(parts[0] + 2 * parts[1], rel=1e-3)
    history = model.fit(batches, steps_per_epoch=4, epochs=2, shuffle=False, verbose=0).history
    assert np.isfinite(history["teacher_loss"]).all()
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(numbers(again(X)["teacher"]), numbers(model(X)["teacher"]))
