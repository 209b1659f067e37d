"""Grids of queries and their neighbors, as they are drawn."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb

from tfdml.datasets import LabeledSet
from tfdml.visualize import retrieval_grid

# Six points on a line, two classes; the nearest others of each, by hand, nearest first.
POINTS = np.array([[0.0], [1.0], [2.1], [4.0], [6.0], [9.0]])
LABELS = np.array([0, 0, 1, 0, 1, 1])
NEAREST = {0: [1, 2, 3], 3: [2, 4, 1], 5: [4, 3, 2]}
COLORS = np.random.default_rng(0).integers(0, 256, (6, 3), dtype=np.uint8)
IMAGES = np.broadcast_to(COLORS[:, None, None], (6, 5, 5, 3))
PART = LabeledSet(images=IMAGES, labels=LABELS, class_names=("ant", "a very long name of a class"))
GREEN, RED = "#2a9d4a", "#d1495b"


def grid(data=PART, labels=None, **options):
    options = {"queries": list(NEAREST), "k": 3, "metric": "euclidean", **options}
    return retrieval_grid(POINTS, data, labels, **options)


def drawn(figure):
    """The pixels of a figure, and a function from an axis to its box in them: left, upper, right, lower."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3]

    def box(axis):
        (left, lower), (right, upper) = axis.get_window_extent().get_points().round().astype(int)
        return left, len(pixels) - upper, right, len(pixels) - lower

    return pixels, box


def lines(figure):
    """The axes as lines of the query and its three neighbors."""
    return np.reshape(figure.axes, (3, 4))


def test_the_pixels_of_a_color_image_are_drawn_where_its_neighbor_belongs():
    figure = grid()
    pixels, box = drawn(figure)
    for (query, near), line in zip(NEAREST.items(), lines(figure), strict=True):
        for row, axis in zip([query, *near], line, strict=True):
            left, upper, right, lower = box(axis)
            inner = pixels[upper + 8 : lower - 8, left + 8 : right - 8]
            assert inner.size > 3_000
            np.testing.assert_array_equal(inner.reshape(-1, 3), np.broadcast_to(COLORS[row], (inner.size // 3, 3)))


def test_frames_are_green_for_the_class_of_the_query_and_red_for_others():
    figure = grid(data=np.full((6, 5, 5, 3), 255, np.uint8), labels=LABELS)
    pixels, box = drawn(figure)
    for (query, near), line in zip(NEAREST.items(), lines(figure), strict=True):
        for row, axis in zip(near, line[1:], strict=True):
            left, upper, _, lower = box(axis)
            color = np.rint(255 * np.array(to_rgb(GREEN if LABELS[row] == LABELS[query] else RED)))
            edge = (pixels[upper + 8 : lower - 8, left - 1 : left + 2] == color).all(axis=2).any(axis=1)
            assert edge.mean() > 0.5
            assert edge.all() == (LABELS[row] == LABELS[query])  # solid, or dashed
        left, upper, _, lower = box(line[0])
        assert (pixels[upper + 8 : lower - 8, left - 1 : left + 2] < 60).all(axis=2).any(axis=1).all()  # black


def test_without_k_there_are_at_most_as_many_neighbors_as_candidates():
    figure = retrieval_grid(np.eye(4, dtype="float32"), np.zeros((4, 5, 5), "uint8"), [0, 0, 1, 1], queries=[0])
    assert len(figure.axes) == 4


def test_a_query_does_not_find_itself_among_exact_copies():
    points = np.array([[1.0, 0.0]] * 4 + [[0.0, 1.0]])
    figure = retrieval_grid(points, IMAGES[:5], LABELS[:5], queries=[3], k=3)
    shown = [np.asarray(axis.images[0].get_array())[0, 0].tolist() for axis in figure.axes]
    assert shown[0] == COLORS[3].tolist()
    assert sorted(shown[1:]) == sorted(COLORS[:3].tolist())


def test_a_gallery_apart_is_searched_with_the_queries_of_the_other_set():
    figure = grid(gallery_embeddings=POINTS[:2] + 3, gallery=255 - IMAGES[:2], gallery_labels=[1, 1], k=2, queries=[0])
    shown = [np.asarray(axis.images[0].get_array())[0, 0].tolist() for axis in figure.axes]
    assert shown == [COLORS[0].tolist(), (255 - COLORS[0]).tolist(), (255 - COLORS[1]).tolist()]


def test_captions_are_class_names_and_distances_or_similarities():
    texts = [axis.get_xlabel() for axis in lines(grid(names=True, scores=True))[0]]
    assert texts == ["ant", "ant\n1.00", "a very long na…\n2.10", "ant\n4.00"]
    points = np.array([[1.0, 0.0], [0.0, 1.0], [3.0, 4.0]])
    figure = retrieval_grid(points, IMAGES[:3], [7, 8, 7], queries=[0], k=2, scores=True)
    assert [axis.get_xlabel() for axis in figure.axes] == ["", "0.60", "0.00"]  # cosines of a 3-4-5 triangle
    assert {axis.get_xlabel() for axis in grid().axes} == {""}


def test_no_caption_is_cut_by_the_border_of_the_figure_or_covers_an_image():
    figure = grid(names=True, scores=True, title="Title")
    pixels, _ = drawn(figure)
    texts = [text.get_window_extent() for axis in figure.axes for text in (axis.xaxis.label, axis.title)]
    texts.append(figure._suptitle.get_window_extent())
    assert min(min(text.x0, text.y0) for text in texts) >= 0
    assert max(text.x1 for text in texts) <= pixels.shape[1]
    assert max(text.y1 for text in texts) <= pixels.shape[0]
    axes = [axis.get_window_extent() for axis in figure.axes]
    assert not any(text.height and text.overlaps(axis) for text in texts for axis in axes)


def test_queries_are_drawn_by_the_seed_without_repetition():
    def queries(number, seed):
        figure = grid(queries=number, k=1, seed=seed)
        return [tuple(np.asarray(axis.images[0].get_array())[0, 0].tolist()) for axis in figure.axes[::2]]

    assert queries(3, 0) == queries(3, 0)
    assert queries(3, 0) != queries(3, 1)
    assert sorted(queries(50, 0)) == sorted(map(tuple, COLORS.tolist()))  # all six


def test_figures_are_drawn_in_threads_and_leave_pyplot_alone():
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: drawn(grid(k=1))[0], range(2)))
    np.testing.assert_array_equal(found[0], found[1])
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


WITH_NAN = np.where(POINTS == 2.1, np.nan, POINTS)
OTHER_NAMES = LabeledSet(images=IMAGES, labels=LABELS, class_names=("x", "y"))


@pytest.mark.parametrize(
    ("make_it", "message"),
    [
        (lambda: grid(k=6), "k=6, expected a whole number from 1 to 5"),
        (lambda: grid(k=3, gallery_embeddings=POINTS[:2], gallery=PART.take([0, 1])), "from 1 to 2"),
        (lambda: grid(k=0), "k=0"),
        (lambda: retrieval_grid(WITH_NAN, PART), r"NaN, infinite or too large for float32 \(first in row 2\)"),
        (lambda: retrieval_grid(np.ones((6, 2)), PART), "embeddings that are all the same"),
        (lambda: retrieval_grid(np.zeros((0, 2)), PART.take([])), "no embeddings, expected at least one"),
        (lambda: retrieval_grid(POINTS, PART.take([0, 1])), "6 embeddings of 2 examples"),
        (lambda: retrieval_grid(POINTS, IMAGES), "data of type ndarray without labels"),
        (lambda: retrieval_grid(POINTS, IMAGES, LABELS[:3]), r"labels of shape \(3,\), expected \(6,\)"),
        (lambda: retrieval_grid(POINTS, np.zeros((6, 2)), LABELS), "data that are not images"),
        (lambda: grid(gallery=PART), "embeddings or examples alone"),
        (lambda: grid(gallery_embeddings=POINTS), "embeddings or examples alone"),
        (lambda: grid(gallery_embeddings=POINTS, gallery=OTHER_NAMES), "other class names"),
        (lambda: grid(queries=0), "queries=0"),
        (lambda: grid(queries=[0, 6]), "queries from 0 to 6, expected rows below 6"),
        (lambda: grid(queries=[]), r"queries of shape \(0,\)"),
        (lambda: grid(queries=[0.5]), "queries of dtype float64"),
        (lambda: grid(queries=2, seed=-1), "seed=-1"),
        (lambda: grid(metric="l2"), "metric='l2'"),
    ],
)
def test_what_is_wrong_is_said(make_it, message):
    with pytest.raises(ValueError, match=message):
        make_it()
