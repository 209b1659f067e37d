"""Queries and their nearest neighbors as a grid of images."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, as_vectors, labels_of, require, require_varied, require_whole
from tfdml._core.optional import new_figure
from tfdml.search import Exact
from tfdml.search.nearest import without_self
from tfdml.typing import Examples
from tfdml.visualize.colors import FRAMES, labels_and_names
from tfdml.visualize.pictures import pictures, require_pictures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CELL = 0.9  # inches
_LINE = 0.12  # inches of a line of text
_PIXELS = 256  # of the longer edge; larger images are reduced
_LETTERS = 15  # of a class name


def retrieval_grid(
    embeddings: npt.ArrayLike,
    data: Examples,
    labels: npt.ArrayLike | None = None,
    *,
    gallery_embeddings: npt.ArrayLike | None = None,
    gallery: Examples | None = None,
    gallery_labels: npt.ArrayLike | None = None,
    queries: int | npt.ArrayLike = 8,
    k: int | None = None,
    metric: str = "cosine",
    names: bool = False,
    scores: bool = False,
    title: str | None = None,
    seed: int = 0,
) -> Figure:
    """Draw one line per query: its image, then its neighbors, nearest first.

    Neighbors of the query's class have a solid green frame, others a dashed red frame.

    See also: `embedding_map` for all examples at once.

    Example: two queries with their two nearest neighbors: a line of three images each.

        >>> x, images = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]]), np.zeros((4, 8, 8, 1), "uint8")
        >>> figure = tfdml.visualize.retrieval_grid(x, images, np.array([0, 0, 1, 1]), queries=2, k=2)
        >>> figure.savefig("neighbors.png")
        >>> len(figure.axes)
        6

    Args:
        embeddings: `(n, dim)`.
        data: labeled set of images, or a sequence of n images of any sizes: uint8, or floats in [0, 1];
            `(height, width)`, or `(height, width, channels)` of 1, 3 or 4 channels. It loads only images in the grid.
        labels: `(n,)` integer class ids; None: the labels of a labeled set.
        gallery_embeddings, gallery, gallery_labels: the same for a gallery to search in; None: leave-one-out.
        queries: row numbers of the queries, or their number, drawn at random from n.
        k: number of neighbors per query; None: 8, or all candidates if there are fewer.
        metric: "cosine", "dot" or "euclidean", see `tfdml.search.Exact`.
        names, scores: write class names, and similarities (for "euclidean" distances), below the images.
        title, seed: text above the grid, and seed of the draw of queries.
    """
    query_set = _image_set(embeddings, data, labels)
    is_leave_one_out = gallery_embeddings is None and gallery is None
    items = query_set if is_leave_one_out else _image_set(gallery_embeddings, gallery, gallery_labels)
    _require_same_names(query_set, items)
    rows = _query_rows(queries, query_set, seed)
    num_candidates = len(items.labels) - is_leave_one_out
    k = min(8, num_candidates) if k is None else k
    require_whole("k", k, 1, num_candidates)
    neighbors, similarities = _neighbors(query_set, items, rows, k, metric)
    height = (_CELL + _LINE * (names + scores)) * len(rows) + 0.5
    figure = new_figure("retrieval_grid", figsize=(_CELL * (k + 1), height))
    axes = figure.subplots(len(rows), k + 1, squeeze=False)
    is_same_class = items.labels[neighbors] == query_set.labels[rows][:, None]
    _draw_images(axes[:, 0], query_set, rows)
    _draw_images(axes[:, 1:].flat, items, neighbors.ravel())
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
    for axis, is_same in zip(axes[:, 1:].flat, is_same_class.ravel().tolist(), strict=True):
        axis.spines[:].set(**FRAMES[is_same], capstyle="butt")
    _write_captions(axes[:, :1], query_set.captions(rows[:, None], names))
    captions = items.captions(neighbors, names)
    if scores:
        lines = (zip(*line, strict=True) for line in zip(captions, similarities, strict=True))
        captions = [[f"{name}\n{score:.2f}".strip() for name, score in line] for line in lines]
    _write_captions(axes[:, 1:], captions)
    _write_legend(figure, axes, is_same_class, title)
    return figure


class _ImageSet(NamedTuple):
    """Queries or gallery: embeddings `(n, dim)`, labels `(n,)`, images, and a function from a label to its name."""

    vectors: np.ndarray
    labels: np.ndarray
    class_name: Callable[[int], str]
    data: Examples

    def captions(self, rows, names):
        """Class names of rows `(lines, columns)`, cut to the width of an image; empty unless `names`."""
        lines = [[self.class_name(label) if names else "" for label in line] for line in self.labels[rows].tolist()]
        return [[name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…" for name in line] for line in lines]


def _image_set(embeddings, data, labels):
    require(data is not None and embeddings is not None, "embeddings or examples alone", "embeddings and examples")
    vectors = as_vectors(embeddings, "embeddings")
    require(len(vectors) > 0, "no embeddings", "at least one")
    require_varied(vectors)
    labels_of(data, labels)  # a sequence of images needs labels
    ids, class_name = labels_and_names(data, labels, len(vectors))
    require_pictures(data)
    if class_name is not str:  # an image without a label has the class of no other
        ids = np.where(ids < 0, -1 - np.arange(len(ids)), ids)
    return _ImageSet(vectors, ids, class_name, data)


def _require_same_names(query_set, items):
    names = {tuple(images.data.class_names) for images in (query_set, items) if images.class_name is not str}
    advice = "to which the labels refer. Read both with one call: tfdml.datasets.table(source, splits=...)"
    require(len(names) < 2, "queries and a gallery with other class names", f"the same names, {advice}")


def _query_rows(queries, query_set, seed):
    count = len(query_set.labels)
    if np.ndim(queries) == 0:
        require_whole("queries", queries, 1)
        require_whole("seed", seed, 0)
        rows = np.arange(count) if query_set.class_name is str else np.flatnonzero(query_set.labels >= 0)
        require(len(rows) > 0, "a set without labels", "labels, or the row numbers of queries")
        return np.random.default_rng(seed).choice(rows, min(int(queries), len(rows)), replace=False)
    rows = as_ids(queries, "queries")
    require(rows.min() >= 0 and rows.max() < count, f"queries from {rows.min()} to {rows.max()}", f"rows below {count}")
    return rows


def _neighbors(query_set, items, rows, k, metric):
    """The k nearest items of each query, `(queries, k)`, and their scores; no query finds itself."""
    finds_itself = query_set is items
    neighbors, scores = Exact(items.vectors, metric=metric).search(query_set.vectors[rows], k + finds_itself)
    if finds_itself:
        return without_self(neighbors, scores, rows)
    return neighbors, scores


def _draw_images(axes, images, rows):
    for axis, image in zip(axes, pictures(images.data, rows, _PIXELS), strict=True):
        axis.imshow(image)


def _write_captions(axes, captions):
    for axis, text in zip(axes.flat, itertools.chain(*captions), strict=True):
        axis.set_xlabel(text, fontsize=7, labelpad=2)


def _write_legend(figure, axes, is_same_class, title):
    from matplotlib.lines import Line2D

    axes[0, 0].set_title("query", fontsize=9)
    axes[0, 1].set_title("nearest", fontsize=9)
    figure.suptitle(title, fontsize=11)
    kinds = {True: "same class", False: "another class"}
    handles = [
        Line2D([], [], label=kinds[is_same], **FRAMES[is_same])
        for is_same in (True, False)
        if (is_same_class == is_same).any()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=8, handlelength=3)
