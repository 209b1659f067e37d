"""Scores depend on the two vectors alone, whatever the matrix product does; bounds hold; wrong arrays are refused."""

import math

import numpy as np
import pytest

from tests.search.products import unsteady
from tfdml._core.checks import as_ids, as_vectors
from tfdml.search import scores as module
from tfdml.search.scores import Gallery, center_of, l2_normalize, product, row_products

METRICS = ("cosine", "dot", "euclidean")


def near_ties(rows=90, dim=24, seed=0):
    """Vectors with duplicates, neighbors one bit apart, sign codes, zeros, and lengths from 1e-9 to 1e9."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, dim)).astype(np.float32)
    x[10:20] = x[:10]
    x[20:30] = np.nextafter(x[:10], np.float32(9))
    x[30:40] = np.sign(x[30:40])
    x[40:43] = 0
    x[50:60] = x[:10] * np.float32(10) ** rng.integers(-9, 10, (10, 1)).astype(np.float32)
    return x


def by_fsum(q, g, metric):
    """The score of a pair from correctly rounded sums."""
    if metric == "euclidean":
        return -math.sqrt(math.fsum((q - g) ** 2))
    return math.fsum(q * g)


@pytest.mark.parametrize("metric", METRICS)
def test_the_score_of_a_pair_is_its_product_or_distance_rounded_once(metric):
    gallery = Gallery(near_ties(), metric)
    scores = gallery.scores(near_ties(seed=1)[:20])
    row, column = np.divmod(np.arange(20 * 90), 90)
    found = scores.exact(row, column)
    assert found.dtype == np.float32
    for i, j, score in zip(row, column, found, strict=True):
        q, g = scores.queries[i].astype(float), gallery.vectors[j].astype(float)
        expected = by_fsum(q, g, metric)
        assert abs(score - expected) <= 2.0**-24 * 1.001 * abs(expected) + 1e-14 * np.linalg.norm(q) * np.linalg.norm(g)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("farthest", [False, True])
@pytest.mark.parametrize("multiply", [product, unsteady])
def test_a_block_has_the_scores_of_its_pairs_to_the_last_bit(metric, farthest, multiply, monkeypatch):
    monkeypatch.setattr(module, "product", multiply)
    scores = Gallery(near_ties(), metric).scores(farthest=farthest)
    row, column = np.divmod(np.arange(90 * 90), 90)
    expected = scores.exact(row, column).reshape(90, 90)
    for tile in (1, 500, 2**17):
        monkeypatch.setattr(module, "_TILE", tile)
        for rows in (slice(0, 90), slice(3, 4), slice(5, 42)):
            block = np.empty((rows.stop - rows.start, 90), np.float32)
            np.testing.assert_array_equal(scores.exact_block(rows, out=block), expected[rows])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("farthest", [False, True])
@pytest.mark.parametrize(
    ("dim", "scale", "shift"),
    [(1, 1.0, 0), (24, 1e-18, 0), (24, 1e9, 0), (700, 1.0, 0), (24, 1.0, 100), (24, 1.0, 1e7)],
)
def test_approximate_scores_never_leave_their_bounds(metric, farthest, dim, scale, shift, monkeypatch):
    monkeypatch.setattr(module, "product", unsteady)
    x = np.abs(np.random.default_rng(0).normal(size=(70, dim))).astype(np.float32) * np.float32(scale)
    x += np.float32(shift)
    scores = Gallery(x, metric).scores(farthest=farthest)
    block = scores.approximate(slice(0, 70), out=np.empty((70, 70), np.float32)).copy()
    row, column = np.divmod(np.arange(70 * 70), 70)
    exact = scores.exact(row, column)
    low, high = scores.around(row, exact)
    assert (low <= block[row, column]).all()
    assert (block[row, column] <= high).all()
    order = np.lexsort((-exact, row)).reshape(70, 70)  # of a query: approximate scores fall, but for the bound
    ranked = block.reshape(-1)[order]
    lowest = np.minimum.accumulate(ranked, axis=1)
    assert (lowest[:, :-1] >= ranked[:, 1:] - scores.gaps(slice(0, 70))[:, None]).all()
    assert (ranked[:, 0] >= scores.below(np.arange(70), block.max(axis=1))).all()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("farthest", [False, True])
def test_approximate_scores_of_two_rows_are_bounded_from_both_sides(metric, farthest, monkeypatch):
    monkeypatch.setattr(module, "product", unsteady)
    scores = Gallery(near_ties(), metric).scores(farthest=farthest)
    columns = slice(30, 75)
    block = scores.approximate(slice(0, 90), out=np.empty((90, 45), np.float32), columns=columns)
    row, column = np.divmod(np.arange(90 * 45), 45)
    exact = scores.exact(row, column + 30)
    for query in (row, column + 30):
        low, high = scores.around(query, exact)
        assert (low <= block[row, column]).all()
        assert (block[row, column] <= high).all()


def test_sums_over_rows_do_not_depend_on_place_number_of_rows_or_alignment():
    rng = np.random.default_rng(0)
    for dim in (*range(1, 40), 63, 64, 65, 127, 128, 129, 1000, 2047, 2048, 2100, 33_000):
        x, y = rng.normal(size=(2, 5, dim)).astype(np.float32)
        alone = np.concatenate([row_products(x[i : i + 1], y[i : i + 1]) for i in range(5)])
        np.testing.assert_allclose(alone, (x.astype(float) * y).sum(axis=1), atol=1e-9 * dim)
        for offset in (0, 1, 3):
            rows = rng.integers(5, size=37)
            moved = np.empty(37 * dim + 3, np.float32)[offset : offset + 37 * dim].reshape(37, dim)
            moved[:] = x[rows]
            np.testing.assert_array_equal(row_products(moved, y[rows]), alone[rows])
            np.testing.assert_array_equal(l2_normalize(moved), l2_normalize(x)[rows])


@pytest.mark.parametrize("shift", [0, 0.3, 7, 1e6, -1e9])
def test_vectors_are_restored_from_their_form_to_the_last_bit(shift):
    x = near_ties() + np.float32(shift)
    gallery = Gallery(x, "euclidean")
    np.testing.assert_array_equal(gallery.vectors, x)
    np.testing.assert_array_equal(gallery.take(np.arange(5)).vectors, x[:5])


def test_the_center_is_the_mean_of_a_column_far_from_0_and_0_of_others():
    x = np.random.default_rng(0).normal((0, 1e4, -1e6), size=(500, 3))
    x = np.float32(x)
    assert center_of(x).tolist() == [0, *np.float32(x[:, 1:].mean(axis=0, dtype=np.float64))]
    assert Gallery(x, "euclidean").length < 10
    assert center_of(np.float32([[0, 0.5], [0, 1], [0, 1.5]])).tolist() == [0, 1]


@pytest.mark.parametrize("farthest", [False, True])
def test_a_center_that_older_versions_subtracted_with_loss_leaves_the_bounds_true(farthest, monkeypatch):
    monkeypatch.setattr(module, "product", unsteady)
    augmented = Gallery(near_ties()[:50], "euclidean").augmented
    gallery = Gallery.from_augmented(augmented, "euclidean", np.full(24, 1e6, np.float32))
    assert gallery.slack > 0.1
    scores = gallery.scores(gallery.vectors + np.float32(0.5), farthest)
    row, column = np.divmod(np.arange(50 * 50), 50)
    exact = scores.exact(row, column)
    low, high = scores.around(row, exact)
    block = scores.approximate(slice(0, 50), out=np.empty((50, 50), np.float32)).reshape(-1).copy()
    assert ((low <= block) & (block <= high)).all()
    expected = [
        by_fsum(scores.queries[i].astype(float), gallery.vectors[j].astype(float), "euclidean")
        for i, j in zip(row, column, strict=True)
    ]
    np.testing.assert_array_equal(exact, np.float32(expected) * (-1 if farthest else 1))
    np.testing.assert_array_equal(
        scores.exact_block(slice(0, 50), np.empty((50, 50), np.float32)), exact.reshape(50, 50)
    )


def test_masked_arrays_without_masked_entries_are_taken():
    x = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(as_vectors(np.ma.masked_array(x), "vectors"), x)
    np.testing.assert_array_equal(as_ids(np.ma.masked_array([1, 2, 3]), "ids", 3), [1, 2, 3])
