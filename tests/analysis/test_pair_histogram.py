"""Distances of pairs, against loops and against the sphere."""

import importlib
import sys

import keras
import numpy as np
import pytest

from tests.backend import fewer_on_jax
from tfdml import analysis, miners
from tfdml.analysis.pair_histogram import PairHistogram
from tfdml.pairs import euclidean

on_every_backend = pytest.mark.backends

MODULE = importlib.import_module("tfdml.analysis.full_loss")
LABELS = np.random.default_rng(0).permutation(np.repeat([3, 5, 9], [4, 7, 2]))
X = np.random.default_rng(1).standard_normal((13, 4))


def by_loops(weight, bins):
    """Weights of ordered pairs by distance, in float64: `weight(i, j)` is that of a pair."""
    x = X / np.linalg.norm(X, axis=1, keepdims=True)
    counts = {True: np.zeros(bins), False: np.zeros(bins)}
    for i in range(13):
        for j in range(13):
            if i != j:
                place = int(np.linalg.norm(x[i] - x[j]) / 2 * bins)
                counts[bool(LABELS[i] == LABELS[j])][place] += weight(i, j)
    return counts[True], counts[False]


def points_on_the_sphere(number, dim):
    return np.random.default_rng(2).standard_normal((number, dim))


def density(d, dim):
    return np.exp(keras.ops.convert_to_numpy(miners.log_sphere_density(np.asarray(d, dtype="float32"), dim)))


@on_every_backend
@pytest.mark.parametrize("cells", fewer_on_jax([2**23, 1, 40]))
@pytest.mark.parametrize("bins", fewer_on_jax([20, 1]))
def test_it_counts_the_ordered_pairs_in_chunks_of_any_size(monkeypatch, cells, bins):
    monkeypatch.setattr(MODULE, "_PAIRS_PER_CHUNK", cells)
    found = analysis.pair_histogram(X, LABELS, bins=bins)
    positive, negative = by_loops(lambda i, j: 1, bins)
    np.testing.assert_array_equal(found.positive, positive)
    np.testing.assert_array_equal(found.negative, negative)
    np.testing.assert_allclose(found.edges, np.linspace(0, 2, bins + 1))
    assert found.positive.sum() + found.negative.sum() == 13 * 12


@on_every_backend
def test_pairs_count_with_the_weights_of_the_miner():
    weights = np.random.default_rng(3).uniform(size=(13, 13)).astype("float32")

    def miner(pairs):
        return pairs.scale(positive=weights, negative=2 * weights)

    found = analysis.pair_histogram(X, LABELS, bins=10, miner=miner)
    positive, negative = by_loops(lambda i, j: weights[i, j] * (1 if LABELS[i] == LABELS[j] else 2), 10)
    np.testing.assert_allclose(found.positive, positive, rtol=1e-6)
    np.testing.assert_allclose(found.negative, negative, rtol=1e-6)


@on_every_backend
def test_a_miner_sees_embeddings_of_norm_1():
    far = analysis.pair_histogram(10 * X, LABELS, miner=miners.DistanceWeighted(expectation=True))
    assert far.negative[far.edges[:-1] >= 1.4].sum() == 0
    assert far.negative.sum() > 0


def test_the_scale_of_embeddings_does_not_matter():
    for ours, theirs in zip(analysis.pair_histogram(10 * X, LABELS), analysis.pair_histogram(X, LABELS), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@on_every_backend
def test_match_says_what_is_positive():
    found = analysis.pair_histogram(X, LABELS, match=lambda a, b: a[:, None] // 4 == b // 4)  # 3 | 5 | 9 as 0 | 1 | 2
    expected = analysis.pair_histogram(X, LABELS // 4)
    np.testing.assert_array_equal(found.positive, expected.positive)


@on_every_backend
def test_duplicates_are_in_the_first_bin_and_opposites_in_the_last():
    found = analysis.pair_histogram(np.array([[3.0, 4.0], [0.3, 0.4], [-6.0, -8.0]]), np.array([0, 0, 1]), bins=4)
    np.testing.assert_array_equal(found.positive, [2, 0, 0, 0])
    np.testing.assert_array_equal(found.negative, [0, 0, 0, 4])


def test_rounding_loses_no_pair(monkeypatch):
    module = importlib.import_module("tfdml.analysis.pair_histogram")
    monkeypatch.setattr(module, "euclidean", lambda pairs: euclidean(pairs) + 1e-3)
    found = analysis.pair_histogram(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([0, 0]), bins=2)
    np.testing.assert_array_equal(found.positive, [0, 2])


@pytest.mark.parametrize("rows", [0, 1])
def test_a_set_without_pairs_has_none(rows):
    found = analysis.pair_histogram(X[:rows], LABELS[:rows], bins=3)
    np.testing.assert_array_equal([found.positive, found.negative], np.zeros((2, 3)))


def test_histograms_of_batches_add_up():
    draws = miners.DistanceWeighted(max_distance=2.0, seed=0)
    drawn = sum(analysis.pair_histogram(X, LABELS, bins=5, miner=draws).negative for _ in range(50)) / 50
    expected = analysis.pair_histogram(
        X, LABELS, bins=5, miner=miners.DistanceWeighted(max_distance=2.0, expectation=True)
    )
    np.testing.assert_allclose(drawn, expected.negative, atol=0.6)


@on_every_backend
@pytest.mark.parametrize("dim", fewer_on_jax([16, 3, 4, 128]))
def test_random_points_on_the_sphere_are_as_far_apart_as_the_density_says(dim):
    found = analysis.pair_histogram(points_on_the_sphere(500, dim), np.arange(500), bins=40)
    inside = np.linspace(0, 2, 4001)
    q = density((inside[1:] + inside[:-1]) / 2, dim) * 2 / 4000  # the probability of 4,000 narrow bins
    assert q.sum() == pytest.approx(1, abs=1e-3)
    share = found.negative / found.negative.sum()
    np.testing.assert_allclose(np.cumsum(share), np.cumsum(q)[99::100], atol=0.006)


def test_the_plot_shows_densities_beside_those_of_the_sphere(tmp_path):
    coarse, fine = (analysis.pair_histogram(X, LABELS, bins=bins) for bins in (4, 10))
    figure = analysis.plot_pair_histogram({"coarse": coarse, "fine": fine}, dim=[4, 8])
    assert [panel.get_title() for panel in figure.axes] == ["negative pairs", "positive pairs"]
    for panel, kind in zip(figure.axes, ("negative", "positive"), strict=True):
        for drawn, histogram in zip(panel.patches, (coarse, fine), strict=True):
            values, edges, _ = drawn.get_data()
            assert np.sum(values * np.diff(edges)) == pytest.approx(1)
            counts = getattr(histogram, kind)
            np.testing.assert_allclose(values / values.max(), counts / counts.max())
    lines = figure.axes[0].lines
    assert lines[0].get_label() == "q(d), dim 4, 8"
    for line, dim in zip(lines, (4, 8), strict=True):
        np.testing.assert_allclose(line.get_ydata(), density(line.get_xdata(), dim), rtol=1e-3, atol=1e-6)
    figure.savefig(tmp_path / "pairs.png")


def test_without_positives_there_is_one_panel():
    figure = analysis.plot_pair_histogram({"no two alike": analysis.pair_histogram(X, np.arange(13))}, dim=4)
    assert [panel.get_title() for panel in figure.axes] == ["negative pairs"]
    empty = PairHistogram(np.array([0.0, 2.0]), np.zeros(1), np.zeros(1))
    assert len(analysis.plot_pair_histogram({"nothing": empty}).axes) == 1


def test_without_matplotlib_it_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"plot_pair_histogram needs matplotlib: pip install tfdml\[plots\]"):
        analysis.plot_pair_histogram({"x": analysis.pair_histogram(X, LABELS)})
