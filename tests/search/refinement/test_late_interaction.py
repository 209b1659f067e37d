"""MaxSim against loops over the vectors."""

import numpy as np

from tfdml import metrics, search

RNG = np.random.default_rng(0)
QUERIES, CANDIDATES = RNG.normal(size=(6, 3, 4, 5)), RNG.normal(size=(6, 2, 4, 5))  # maps of 12 and 8 places


def by_loops(query, candidate):
    best = []
    for q in query.reshape(-1, query.shape[-1]):
        vectors = candidate.reshape(-1, candidate.shape[-1])
        best.append(max(q @ c / np.linalg.norm(q) / np.linalg.norm(c) for c in vectors))
    return sum(best) / len(best)


def test_each_vector_of_the_query_takes_the_most_similar_one_of_the_candidate():
    expected = [by_loops(*pair) for pair in zip(QUERIES, CANDIDATES, strict=True)]
    scores = search.maxsim(QUERIES, CANDIDATES)
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(search.maxsim(10 * QUERIES.reshape(6, 12, 5), CANDIDATES), expected, rtol=1e-5)
    of_one = [by_loops(QUERIES[2], candidate) for candidate in CANDIDATES]
    np.testing.assert_allclose(search.maxsim(QUERIES[2:3], CANDIDATES), of_one, rtol=1e-5)


def test_int8_codes_and_moved_places_have_nearly_the_same_scores():
    codes = metrics.int8_codes(CANDIDATES.reshape(-1, 5)).reshape(CANDIDATES.shape)
    scores = search.maxsim(QUERIES, CANDIDATES)
    np.testing.assert_allclose(search.maxsim(QUERIES, codes), scores, atol=0.01)
    np.testing.assert_allclose(search.maxsim(QUERIES[:, ::-1], CANDIDATES[:, :, ::-1]), scores, rtol=1e-5)
    assert search.maxsim(np.zeros((1, 2, 3)), np.ones((4, 2, 3))).tolist() == [0] * 4


def test_it_puts_neighbors_in_order():
    gallery = RNG.normal(size=(9, 4, 5))
    neighbors = np.stack([RNG.permutation(9) for _ in QUERIES])
    found, scores = search.rerank(search.maxsim, QUERIES, gallery, neighbors, k=5)
    for query, row, first, values in zip(QUERIES, neighbors, found, scores, strict=True):
        expected = [by_loops(query, gallery[item]) for item in row[:5]]
        np.testing.assert_array_equal(first, [*row[np.argsort(expected)[::-1]], *row[5:]])
        np.testing.assert_allclose(values, sorted(expected, reverse=True), rtol=1e-5)
