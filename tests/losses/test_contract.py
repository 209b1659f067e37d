"""The mathematics that every loss promises, on every backend. Adding a loss is adding a row to `rows.py`."""

import inspect
from functools import partial

import keras
import numpy as np
import pytest

from tests.backend import BACKEND, fast, graphed, numbers
from tests.losses.rows import (
    BRANCHES,
    CHECKED,
    COARSE,
    COLUMNS,
    DEFAULTS,
    FAMILIES,
    LARGE,
    LISTED,
    ROWS,
    SUPPORT_FIRST,
    UNEVEN,
    WITHIN,
    batch,
    each,
    evaluated,
    having,
    lacking,
    law,
    values_of,
)
from tfdml import pairs

pytestmark = pytest.mark.backends


# JAX compiles each loss for every shape: there, all batches have 8 rows of 5 dimensions.
BATCHES = {**UNEVEN, "large": LARGE} if BACKEND == "tensorflow" else UNEVEN
SIZES = [(4, 7, 1), (6, 2, 9), (14, 3, 4)] if BACKEND == "tensorflow" else [(8, 5, 2), (8, 5, 1), (8, 5, 9)]

X = batch(range(8))[1]
UNIT = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype("float32")
TWO_CLASSES = [0, 0, 0, 0, 1, 1, 1, 1]
DEGENERATE = {
    "one class": ([4] * 8, UNIT),
    "no class twice": (range(8), UNIT),
    "one class twice": ([1, 2, 1, 4, 5, 6, 7, 8], UNIT),
    "duplicates": (TWO_CLASSES, UNIT[TWO_CLASSES]),
    "duplicates across classes": ([0, 1, 0, 1, 0, 1, 0, 1], UNIT[TWO_CLASSES]),
    "opposites": (TWO_CLASSES, UNIT[[0, 0, 1, 1, 2, 2, 3, 3]] * np.tile([[1], [-1]], (4, 1))),
    "all embeddings equal": (TWO_CLASSES, UNIT[[0] * 8]),
    "zero embeddings": (TWO_CLASSES, 0 * UNIT),
    "tiny embeddings": (TWO_CLASSES, 1e-6 * UNIT),
    "huge embeddings": (TWO_CLASSES, 1e6 * UNIT),
}


@pytest.mark.everywhere
@each(CHECKED)
@pytest.mark.parametrize("labels", BATCHES.values(), ids=BATCHES)
def test_values_agree_with_loops_over_the_equation(row, labels):
    labels, x = batch(labels)
    np.testing.assert_allclose(values_of(row, labels, x), row.by_loops(labels, x.astype(float)), rtol=1e-5, atol=2e-6)


@each(CHECKED, test=DEFAULTS)
def test_values_agree_with_loops_for_random_batches(row):
    rng = np.random.default_rng(7)
    rtol = 2e-4 if COARSE in row.traits else 2e-5
    for size, dim, classes in SIZES:
        dim = 5 if COLUMNS in row.traits else dim
        labels, x = batch(rng.integers(0, classes, size), dim, seed=size)
        expected = row.by_loops(labels, x.astype(float))
        np.testing.assert_allclose(values_of(row, labels, x), expected, rtol=rtol, atol=5e-6)


def jacobian(function, x, step=1e-6):
    """The derivatives of a vector by the entries of x, `(values, *x.shape)`, by central differences."""
    columns = []
    for place in np.ndindex(x.shape):
        shift = np.zeros(x.shape)
        shift[place] = step
        columns.append((function(x + shift) - function(x - shift)) / (2 * step))
    return np.stack(columns, axis=-1).reshape(-1, *x.shape)


@pytest.mark.everywhere
@each(CHECKED, slow=["PDDM", "clustering", "clustering, greedy"])
def test_gradients_agree_with_finite_differences_of_the_loops_for_any_sample_weight(row):
    labels, x = batch(UNEVEN["three classes"], seed=3)
    by_loops = partial(row.by_loops, labels)
    if "fixed" in inspect.signature(row.by_loops).parameters:  # weights that are constants in the gradient
        by_loops = partial(by_loops, fixed=x.astype(float))
    slopes = jacobian(by_loops, x)
    for weights in (np.ones(row.anchors), np.eye(row.anchors)[2], np.arange(row.anchors) / 3):
        _, ours, _ = evaluated(row, labels, x, weights.astype("float32"))
        expected = np.tensordot(weights, slopes, axes=1)
        scale = max(1.0, np.abs(expected).max() / 10)
        np.testing.assert_allclose(row.anchors * ours, expected, rtol=1e-4, atol=1e-4 * scale)


@law(lacking(CHECKED, LISTED, SUPPORT_FIRST), test=DEFAULTS)
def test_values_follow_a_permutation_of_the_rows(row):
    labels, x = batch(UNEVEN["three classes"])
    order = np.random.default_rng(1).permutation(8)
    moved = values_of(row, labels[order], x[order])
    np.testing.assert_allclose(moved, values_of(row, labels, x)[order], rtol=1e-5, atol=2e-6)


@each(having(CHECKED, LISTED))
def test_values_of_a_list_of_pairs_follow_a_permutation_of_the_pairs(row):
    labels, x = batch(UNEVEN["three classes"])
    moved = values_of(row, labels[[4, 5, 0, 1, 6, 7, 2, 3]], x[[4, 5, 0, 1, 6, 7, 2, 3]])
    np.testing.assert_allclose(moved, values_of(row, labels, x)[[2, 0, 3, 1]], rtol=1e-5, atol=2e-6)


@each(having(CHECKED, SUPPORT_FIRST))
def test_values_follow_a_permutation_that_keeps_the_support_of_a_class_before_its_queries(row):
    labels, x = batch(UNEVEN["three classes"])
    order = np.array([5, 2, 0, 6, 3, 1, 4, 7])
    moved = values_of(row, labels[order], x[order])
    np.testing.assert_allclose(moved, values_of(row, labels, x)[order], rtol=1e-5, atol=2e-6)


@law(DEFAULTS)
def test_renaming_the_classes_changes_nothing(row):
    labels, x = batch(UNEVEN["one of its own"])
    names = np.array([100, -5, 7, 2**31 - 1, 0, 13, 12, 11, 10, 9])
    renamed = row._replace(loss=row.with_ids(lambda label: int(names[label])))
    np.testing.assert_array_equal(values_of(renamed, names[labels], x), values_of(row, labels, x))


@law(DEFAULTS)
def test_a_large_class_id_is_never_merged_with_its_neighbor_or_is_refused(row):
    labels, x = batch(UNEVEN["three classes"])
    moved = row._replace(loss=row.with_ids(lambda label: label + 2**24))
    np.testing.assert_array_equal(values_of(moved, labels + 2**24, x), values_of(row, labels, x))
    moved = row._replace(loss=row.with_ids(lambda label: label + 2**62))
    if BACKEND == "jax":
        with pytest.raises(ValueError, match="32-bit"):
            moved.loss(labels + 2**62, x)
    else:
        np.testing.assert_array_equal(values_of(moved, labels + 2**62, x), values_of(row, labels, x))


@law(DEFAULTS)
@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float16", marks=pytest.mark.nightly)])
def test_half_precision_embeddings_are_scored_in_float32(row, dtype):
    labels, x = batch(UNEVEN["three classes"])
    half = keras.ops.cast(x, dtype)
    values = row.loss.call(labels, half)
    assert keras.backend.standardize_dtype(values.dtype) == "float32"
    expected = values_of(row, labels, numbers(keras.ops.cast(half, "float32")))
    np.testing.assert_allclose(numbers(values), expected, rtol=1e-5, atol=2e-6)
    np.testing.assert_allclose(numbers(values).mean(), values_of(row, labels, x).mean(), rtol=1e-2, atol=1e-2)


@each(CHECKED, test=DEFAULTS, ci=BRANCHES)
def test_degenerate_batches_have_finite_values_and_gradients(row):
    for name, (labels, x) in DEGENERATE.items():
        _, slope, values = evaluated(row, np.array(labels), x.astype("float32"))
        assert np.isfinite(values).all(), name
        assert np.isfinite(slope).all(), name


@law(CHECKED if BACKEND == "tensorflow" else FAMILIES)
def test_a_short_last_batch_has_the_values_of_the_loops_with_all_labels_the_same_or_different(row):
    for labels in ([4], [4, 4], [0, 1]) if LISTED not in row.traits else ([4, 4], [0, 1]):
        x = UNIT[: len(labels)].astype("float32")
        _, slope, values = evaluated(row, np.array(labels), x, way=graphed if len(labels) == 1 else fast)
        np.testing.assert_allclose(values, row.by_loops(np.array(labels), x.astype(float)), rtol=1e-5, atol=2e-6)
        assert slope.shape == x.shape
        assert np.isfinite(slope).all()


@law(CHECKED, test=DEFAULTS)
def test_an_embedding_that_is_not_finite_is_not_hidden(row):
    labels, x = batch(UNEVEN["three classes"])
    for bad in (np.nan, np.inf):
        x[0, 0] = bad
        value, _, _ = evaluated(row, labels, x)
        assert not np.isfinite(value)


@law(DEFAULTS)
def test_loss_and_gradient_are_finite_together_or_both_are_not(row):
    labels, _ = batch(UNEVEN["three classes"])
    for norm in (1e15, 1e19, 1e25, 1e38, np.inf, np.nan):
        value, slope, _ = evaluated(row, labels, UNIT * np.float32(norm))
        assert np.isfinite(slope).all() == np.isfinite(value), norm
        assert np.isfinite(value) == (norm < 1e16), norm  # beyond 4e18 squares of distances overflow


def against_itself_as_other_references(labels, x):
    """Every row against every other, the references as another tensor."""
    against = pairs.pairs_with(labels, x, labels, x)
    others = 1.0 - np.eye(8, dtype="float32")
    return against.scale(positive=others)  # a row compared with itself is not a pair


@law(lacking(ROWS if BACKEND == "tensorflow" else DEFAULTS, LISTED, WITHIN), test=DEFAULTS)
def test_anchors_against_other_references_follow_the_same_equation(row):
    labels, x = batch(UNEVEN["three classes"])
    values = fast(lambda v: row.loss.on_pairs(against_itself_as_other_references(labels, v)))(x)
    np.testing.assert_allclose(numbers(values), values_of(row, labels, x), rtol=1e-5, atol=2e-6)


@each(having(CHECKED, WITHIN))
def test_losses_that_compare_references_with_each_other_refuse_other_references(row):
    with pytest.raises(ValueError, match="Received anchors against other references"):
        row.loss.on_pairs(against_itself_as_other_references(*batch(UNEVEN["three classes"])))
