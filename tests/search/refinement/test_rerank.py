"""Re-ranking by scores of pairs, against sorted lists by hand."""

import keras
import numpy as np
import pytest

from tests.backend import BACKEND, numbers
from tfdml import models
from tfdml.search import Exact, rerank

rng = np.random.default_rng(0)
QUERIES, GALLERY = rng.standard_normal((7, 3)).astype("float32"), rng.standard_normal((20, 3)).astype("float32")
NEIGHBORS = np.stack([rng.permutation(20)[:9] for _ in QUERIES])


def unlike(a, b):
    """Scores that no distance gives: not symmetric."""
    return (a * b[:, ::-1]).sum(axis=1) - b[:, 0]


def by_loops(score, neighbors, k):
    lists, values = [], []
    for query, row in zip(QUERIES, neighbors, strict=True):
        scored = [(-score(query[None], GALLERY[item][None])[0], place, item) for place, item in enumerate(row[:k])]
        scored.sort()
        lists.append([item for _, _, item in scored] + list(row[k:]))
        values.append([-value for value, _, _ in scored])
    return np.array(lists), np.array(values)


@pytest.mark.parametrize("k", [1, 4, 9])
@pytest.mark.parametrize("batch_size", [1, 5, 256])
def test_the_first_k_are_sorted_by_score_and_the_others_stay(k, batch_size):
    neighbors, scores = rerank(unlike, QUERIES, GALLERY, NEIGHBORS, k=k, batch_size=batch_size)
    expected, values = by_loops(unlike, NEIGHBORS, k)
    np.testing.assert_array_equal(neighbors, expected)
    np.testing.assert_allclose(scores, values, rtol=1e-5)
    assert (neighbors.dtype, scores.dtype) == ("int64", "float32")


def test_equal_scores_stay_in_the_order_of_the_search():
    neighbors, _ = rerank(lambda a, b: np.zeros(len(a)), QUERIES, GALLERY, NEIGHBORS, k=5)
    np.testing.assert_array_equal(neighbors, NEIGHBORS)


def test_the_score_of_the_search_repeats_its_order_and_is_added_with_a_weight():
    base, similarities = Exact(GALLERY).search(QUERIES, 9)
    cosines = similarities.astype(float)

    def cosine(a, b):
        return (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)

    np.testing.assert_array_equal(rerank(cosine, QUERIES, GALLERY, base, k=9)[0], base)
    neighbors, sums = rerank(unlike, QUERIES, GALLERY, base, k=6, scores=similarities, weight=0.25)
    first = np.stack([unlike(QUERIES[[q] * 6], GALLERY[base[q, :6]]) for q in range(7)])
    expected = cosines[:, :6] + 0.25 * first
    np.testing.assert_allclose(sums, -np.sort(-expected, axis=1), rtol=1e-5)
    same, _ = rerank(unlike, QUERIES, GALLERY, base, k=6, scores=similarities[:, :6], weight=0.25)
    np.testing.assert_array_equal(neighbors, same)


def test_missing_neighbors_stay_last_and_are_not_scored():
    padded = NEIGHBORS.copy()
    padded[2, 3:] = -1
    padded[4, 0:] = -1
    pairs = []

    def counted(a, b):
        pairs.append(len(a))
        return unlike(a, b)

    neighbors, scores = rerank(counted, QUERIES, GALLERY, padded, k=5, batch_size=1)
    assert sum(pairs) == 5 * 5 + 3
    np.testing.assert_array_equal(neighbors < 0, padded < 0)
    np.testing.assert_array_equal(np.isneginf(scores), padded[:, :5] < 0)
    summed, _ = rerank(unlike, QUERIES, GALLERY, padded, k=5, scores=np.where(padded < 0, -np.inf, 0.0))
    np.testing.assert_array_equal(neighbors, summed)
    nothing, scores = rerank(unlike, QUERIES, GALLERY, np.full((7, 2), -1), k=2)
    assert (nothing == -1).all()
    assert np.isneginf(scores).all()


def test_items_may_be_functions_of_row_numbers_and_memory_maps(tmp_path):
    expected, _ = rerank(unlike, QUERIES, GALLERY, NEIGHBORS, k=5)
    np.save(tmp_path / "gallery.npy", GALLERY)
    stored = np.load(tmp_path / "gallery.npy", mmap_mode="r")
    np.testing.assert_array_equal(rerank(unlike, QUERIES, stored, NEIGHBORS, k=5)[0], expected)
    read, _ = rerank(unlike, lambda rows: QUERIES[rows], lambda rows: GALLERY[rows], NEIGHBORS, k=5, batch_size=4)
    np.testing.assert_array_equal(read, expected)


@pytest.mark.backends
def test_a_pair_model_takes_batches_of_one_size_and_gives_what_its_predictions_give():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((6,))
    model = models.PairModel(keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Dense(8, "tanh")(inputs))))

    def predicted(a, b):
        return numbers(model((a, b)))

    expected, values = by_loops(predicted, NEIGHBORS[:, :4], 4)
    neighbors, scores = rerank(model, QUERIES, GALLERY, NEIGHBORS[:, :4], k=4, batch_size=6)
    np.testing.assert_array_equal(neighbors, expected)
    np.testing.assert_allclose(scores, values, rtol=1e-4, atol=1e-6)
    if BACKEND == "tensorflow":
        assert model.predict_function is not None
