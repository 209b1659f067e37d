"""Groups of near-duplicates against scipy's connected components of all pairs."""

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from tests.search.products import unsteady
from tfdml.search import blocks, near_duplicates
from tfdml.search import scores as pair_scores


def near_copies(seed=0):
    """Vectors of which many are copies, some with a little noise, in random order."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(120, 9))
    x = np.concatenate([x, x[:60] + 0.1 * rng.normal(size=(60, 9)), np.tile(x[5], (40, 1)), x[:30] * 3])
    return x[rng.permutation(len(x))].astype("float32")


def by_components(x, similarity):
    """The first row of the component of each row, in float64."""
    x = x.astype(float) / np.linalg.norm(x.astype(float), axis=1, keepdims=True)
    labels = connected_components(x @ x.T >= similarity)[1]
    return np.array([np.flatnonzero(labels == label)[0] for label in labels])


@pytest.mark.parametrize("similarity", [0.75, 0.9, 0.97])
def test_groups_are_the_connected_components(similarity):
    x = near_copies()
    expected = by_components(x, similarity)
    assert 1 < len(set(expected)) < len(x)
    np.testing.assert_array_equal(near_duplicates(x, similarity), expected)


@pytest.mark.parametrize("multiply", [pair_scores.product, unsteady])
def test_copies_are_similar_by_1_and_memory_and_the_product_change_nothing(multiply, monkeypatch):
    x = near_copies(1)
    once = near_duplicates(x, 0.9)
    monkeypatch.setattr(pair_scores, "product", multiply)
    for threads, memory in ((1, 20_000), (2, 60_000), (2, 2**29)):
        monkeypatch.setattr(blocks, "thread_count", lambda threads=threads: threads)
        np.testing.assert_array_equal(near_duplicates(x, 0.9, memory=memory), once)
    np.testing.assert_array_equal(near_duplicates(np.tile(np.eye(4), (50, 1)), 1.0), np.arange(200) % 4)


def test_a_chain_is_one_group_in_any_order():
    angle = np.radians(np.arange(0, 180, 2))
    chain = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    for order in (np.arange(90), np.arange(90)[::-1], np.random.default_rng(0).permutation(90)):
        assert set(near_duplicates(chain[order], np.cos(np.radians(2.1)))) == {0}
        np.testing.assert_array_equal(near_duplicates(chain[order], np.cos(np.radians(1.9))), np.arange(90))


def test_zero_vectors_are_alone_and_one_vector_is_a_group():
    np.testing.assert_array_equal(near_duplicates(np.zeros((3, 2)), 0.5), [0, 1, 2])
    np.testing.assert_array_equal(near_duplicates(np.ones((1, 2)), 0.5), [0])


@pytest.mark.parametrize("similarity", [-1, 1.01, np.nan])
def test_a_similarity_out_of_range_is_refused(similarity):
    with pytest.raises(ValueError, match="a cosine similarity above -1 and up to 1"):
        near_duplicates(np.eye(3), similarity)


def test_wrong_vectors_and_too_little_memory_are_refused():
    with pytest.raises(ValueError, match="first in row 0"):
        near_duplicates(np.eye(3) * np.nan, 0.5)
    with pytest.raises(ValueError, match="expected at least"):
        near_duplicates(np.eye(300), 0.5, memory=100)
