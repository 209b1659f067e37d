"""Coordinates of embeddings, and maps with thumbnails and points."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.manifold import trustworthiness

from tfdml.datasets import LabeledSet
from tfdml.visualize import embedding_map
from tfdml.visualize.coordinates import pca, tsne, umap
from tfdml.visualize.maps import one_per_cell

RNG = np.random.default_rng(0)
LABELS = np.repeat(np.arange(3), 20)
X = (RNG.standard_normal((60, 8)) + 6 * np.eye(8)[LABELS]).astype("float32")
POINTS = RNG.uniform(-5, 9, (60, 2))
IMAGES = np.broadcast_to(RNG.integers(0, 256, (60, 1, 1, 3), dtype=np.uint8), (60, 6, 3, 3))
PART = LabeledSet(images=IMAGES, labels=LABELS, class_names=("ant", "bee", "cat"))


def test_pca_is_the_singular_value_decomposition_of_centered_rows_up_to_sign():
    centered = X.astype("float64") - X.mean(axis=0, dtype="float64")
    u, s, _ = np.linalg.svd(centered, full_matrices=False)
    np.testing.assert_allclose(np.abs(pca(X)), np.abs(u[:, :2] * s[:2]), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(pca(X), pca(X))


def test_tsne_keeps_neighbors_together_and_gives_the_same_map_in_every_call():
    found = tsne(X)
    assert found.shape == (60, 2)
    assert trustworthiness(X, found, n_neighbors=5) > 0.8
    np.testing.assert_array_equal(found, tsne(X))
    for scatter in embedding_map(X, method="tsne").axes[0].collections:
        np.testing.assert_array_equal(scatter.get_offsets(), found)


def test_tsne_of_few_rows_lowers_its_perplexity():
    assert tsne(X[:3]).shape == (3, 2)


def test_umap_is_called_with_its_seed_on_one_core(monkeypatch):
    class UMAP:
        def __init__(self, **options):
            self.options = options

        def fit_transform(self, x):
            assert self.options == {"n_neighbors": 4, "random_state": 0, "n_jobs": 1}
            return x[:, :2]

    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=UMAP))
    np.testing.assert_array_equal(umap(X[:5]), X[:5, :2])


@pytest.mark.nightly  # Numba compiles UMAP for a minute
def test_umap_keeps_neighbors_together_and_gives_the_same_map_in_every_call():
    found = umap(X)
    assert trustworthiness(X, found, n_neighbors=5) > 0.8
    np.testing.assert_array_equal(found, umap(X))


@pytest.mark.parametrize("method", [pca, tsne, umap])
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.full((6, 3), np.nan), r"NaN, infinite or too large for float32 \(first in row 0\)"),
        (np.ones((6, 3)), "embeddings that are all the same"),
        (np.arange(6.0)[:, None], r"embeddings of shape \(6, 1\)"),
        (np.zeros((0, 3)), r"embeddings of shape \(0, 3\)"),
        (np.ones((1, 3)), r"embeddings of shape \(1, 3\)"),
    ],
)
def test_embeddings_without_a_map_are_refused(method, x, message):
    with pytest.raises(ValueError, match=message):
        method(x)


def by_loops(points, cells):
    """The row nearest to the center of each cell, by cell, from the definition."""
    low, high = points.min(axis=0), points.max(axis=0)
    side = max(high - low) / cells
    start = (low + high) / 2 - side * cells / 2
    found = {}
    for row, point in enumerate(points):
        cell = tuple(min(max(int((p - s) // side), 0), cells - 1) for p, s in zip(point, start, strict=True))
        distance = np.hypot(*(point - start - side * (np.array(cell) + 0.5)))
        found[cell] = min(found.get(cell, (np.inf, -1)), (distance, row))
    return {cell: row for cell, (_, row) in found.items()}, start, side


@pytest.mark.parametrize("cells", [1, 4, 9])
def test_each_cell_shows_the_example_nearest_to_its_center(cells):
    rows, centers, side = one_per_cell(POINTS, cells)
    expected, start, expected_side = by_loops(POINTS, cells)
    assert side == pytest.approx(expected_side)
    assert sorted(rows.tolist()) == sorted(expected.values())
    for cell, row in expected.items():
        np.testing.assert_allclose(centers[rows == row][0], start + side * (np.array(cell) + 0.5))


def boxes(figure):
    """Left, right, lower and upper border of each thumbnail, `(thumbnails, 4)`."""
    return np.array([image.get_extent() for image in figure.axes[0].images])


def test_thumbnails_do_not_overlap_and_keep_their_aspect_ratio():
    left, right, lower, upper = boxes(embedding_map(POINTS, PART, cells=7)).T
    assert 20 < len(left) < 50
    apart_x = (left[:, None] >= right) | (left >= right[:, None])
    apart_y = (lower[:, None] >= upper) | (lower >= upper[:, None])
    assert (apart_x | apart_y | np.eye(len(left), dtype=bool)).all()
    np.testing.assert_allclose((upper - lower) / (right - left), 2.0)  # 6 x 3 pixels


def test_thumbnails_are_images_near_their_points_in_frames_of_their_classes():
    figure = embedding_map(POINTS, PART, cells=7)
    rows, centers, side = one_per_cell(np.float64(np.float32(POINTS)), 7)
    assert np.abs(centers - POINTS[rows]).max() <= side / 2 + 1e-5
    frames = figure.axes[0].patches
    for row, center, image, frame in zip(rows, centers, figure.axes[0].images, frames, strict=True):
        left, right, lower, upper = image.get_extent()
        np.testing.assert_allclose([(left + right) / 2, (lower + upper) / 2], center, rtol=1e-5)
        np.testing.assert_array_equal(image.get_array(), IMAGES[row])
        assert frame.get_bbox().bounds == pytest.approx((left, lower, right - left, upper - lower))
    colors = {(LABELS[row], frame.get_edgecolor()) for row, frame in zip(rows, frames, strict=True)}
    assert len(colors) == 3  # one color per class
    assert len({frame.get_edgecolor() for frame in frames}) == 3
    assert [text.get_text() for text in figure.legends[0].texts] == ["ant", "bee", "cat"]


def test_without_images_points_have_colors_and_marks_of_few_classes():
    figure = embedding_map(POINTS, labels=LABELS, title="Points")
    axis = figure.axes[0]
    assert not axis.images
    assert axis.get_title() == "Points"
    for label, collection in enumerate(axis.collections):
        np.testing.assert_allclose(collection.get_offsets(), POINTS[label == LABELS], rtol=1e-6)
    assert len({tuple(collection.get_facecolor()[0]) for collection in axis.collections}) == 3
    assert len({str(collection.get_paths()[0].vertices) for collection in axis.collections}) == 3
    assert [text.get_text() for text in figure.legends[0].texts] == ["0", "1", "2"]
    low, high = np.transpose([axis.get_xlim(), axis.get_ylim()])
    assert (low < POINTS).all()
    assert (high > POINTS).all()


@pytest.mark.parametrize("options", [{"labels": np.arange(60) // 6}, {}, {"data": IMAGES, "cells": 0}])
def test_the_points_of_many_classes_or_none_have_one_color(options):
    figure = embedding_map(POINTS, **options)
    (collection,) = figure.axes[0].collections
    assert len(collection.get_offsets()) == 60
    assert not figure.legends


def test_more_dimensions_go_through_the_method_and_two_do_not():
    seen = []

    def first_two(x):
        seen.append(x.shape)
        return x[:, :2]

    figure = embedding_map(X, method=first_two)
    np.testing.assert_array_equal(figure.axes[0].collections[0].get_offsets(), X[:, :2])
    embedding_map(POINTS, method=first_two)
    assert seen == [(60, 8)]


def test_one_point_is_a_map():
    assert len(boxes(embedding_map(POINTS[:1], IMAGES[:1]))) == 1


def test_points_close_together_and_far_from_0_are_apart_on_the_map():
    assert len(boxes(embedding_map(np.array([[1000.0, 0], [1000.01, 0], [1000.02, 0]]), IMAGES[:3], cells=3))) == 3


@pytest.mark.parametrize(
    ("make_it", "message"),
    [
        (lambda: embedding_map(np.full((4, 2), np.nan)), "NaN, infinite or too large"),
        (lambda: embedding_map(np.zeros((0, 2))), "no embeddings"),
        (lambda: embedding_map(np.ones((4, 2))), "all the same"),
        (lambda: embedding_map(POINTS, PART.take([0])), "60 embeddings of 1 examples"),
        (lambda: embedding_map(POINTS, labels=[1, 2]), r"labels of shape \(2,\), expected \(60,\)"),
        (lambda: embedding_map(POINTS, cells=-1), "cells=-1"),
        (lambda: embedding_map(X, method=lambda x: x[:, :3]), r"coordinates of shape \(60, 3\) of the method"),
        (lambda: embedding_map(X, method=lambda x: np.nan * x), "coordinates of the method with a value that is NaN"),
        (lambda: embedding_map(X, method="isomap"), "method='isomap'"),
    ],
)
def test_what_is_wrong_is_said(make_it, message):
    with pytest.raises(ValueError, match=message):
        make_it()
