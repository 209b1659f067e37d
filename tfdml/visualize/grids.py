"""Queries and their nearest neighbors as a grid of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, as_vectors, labels_of, require, require_varied, require_whole
from tfdml._core.optional import new_figure
from tfdml.search import Exact
from tfdml.typing import Examples
from tfdml.visualize.colors import FRAMES, labels_and_names
from tfdml.visualize.pictures import pictures, require_pictures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CELL = 0.9  # inches
_LINE = 0.12  # inches of a line of text
_PIXELS = 256  # pixels; larger images are reduced
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
    """One line per query: its image, then its neighbors, the nearest first.

    Neighbors of the query's class have a solid green frame, others a dashed red one. Without a gallery, queries are
    searched among all other rows: no query finds itself.

        tfdml.visualize.retrieval_grid(embeddings, test, names=True).savefig("neighbors.png", dpi=120)

    Args:
        embeddings: `(n, dim)`.
        data: labeled set of images, or a sequence of n images, which may differ in size: uint8, or floats in [0, 1];
            `(height, width)`, or `(height, width, channels)` of 1, 3 or 4 channels. Only what is shown is loaded.
        labels: `(n,)` integer class ids; left out where `data` is a labeled set.
        gallery_embeddings, gallery, gallery_labels: the same of a gallery to search in; None: leave-one-out.
        queries: row numbers of the queries, or their number, drawn at random from n.
        k: number of neighbors per query; None: 8, or fewer where there are fewer.
        metric: "cosine", "dot" or "euclidean", see `tfdml.search.Exact`.
        names: write class names below the images.
        scores: write the similarity (for "euclidean" the distance) below the neighbors.
        title: text above the grid.
        seed: seed of the draw of queries.

    Returns:
        A matplotlib figure; `figure.savefig("neighbors.png")` writes it.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: no embeddings, embeddings that are not finite or all equal, data that are not images, other numbers
            of embeddings, examples and labels, or more neighbors or queries than there are.
    """
    queried = _examples(embeddings, data, labels)
    alone = gallery_embeddings is None and gallery is None
    items = queried if alone else _examples(gallery_embeddings, gallery, gallery_labels)
    _require_same_names(queried, items)
    rows = _query_rows(queries, len(queried.labels), seed)
    candidates = len(items.labels) - alone
    k = min(8, candidates) if k is None else k
    require_whole("k", k, 1, candidates)
    near, values = _neighbors(queried, items, rows, k, metric)
    figure = new_figure(
        "retrieval_grid", figsize=(_CELL * (k + 1), (_CELL + _LINE * (names + scores)) * len(rows) + 0.5)
    )
    axes = figure.subplots(len(rows), k + 1, squeeze=False)
    same = items.labels[near] == queried.labels[rows][:, None]
    _draw_images(axes, queried, rows, items, near)
    _draw_frames(axes, same)
    _write_captions(axes, queried.captions(rows[:, None], names), slice(1))
    _write_captions(axes, _joined(items.captions(near, names), values if scores else None), slice(1, None))
    _explain(figure, axes, same, title)
    return figure


class _Examples(NamedTuple):
    """Queries or gallery: embeddings `(n, dim)`, labels `(n,)`, a function from a label to its name, and images."""

    vectors: np.ndarray
    labels: np.ndarray
    name: Callable[[int], str]
    data: Examples

    def captions(self, rows, names):
        """Class names of rows, cut to the width of an image; empty unless `names`."""
        return [[_cut(self.name(label)) if names else "" for label in line] for line in self.labels[rows].tolist()]


def _examples(embeddings, data, labels):
    require(data is not None and embeddings is not None, "embeddings or examples alone", "embeddings and examples")
    vectors = as_vectors(embeddings, "embeddings")
    require(len(vectors) > 0, "no embeddings", "at least one")
    require_varied(vectors)
    labels_of(data, labels)  # a sequence of images needs labels
    shown = _Examples(vectors, *labels_and_names(data, labels, len(vectors)), data)
    require_pictures(data)
    return shown


def _require_same_names(queried, items):
    names = {tuple(shown.data.class_names) for shown in (queried, items) if shown.name is not str}
    require(
        len(names) < 2,
        "queries and a gallery with other class names",
        "the same names, to which the labels refer. Read both with one call: tfdml.datasets.table(source, splits=...)",
    )


def _query_rows(queries, count, seed):
    """Row numbers of the queries."""
    if np.ndim(queries) == 0:
        require_whole("queries", queries, 1)
        require_whole("seed", seed, 0)
        return np.random.default_rng(seed).choice(count, min(int(queries), count), replace=False)
    rows = as_ids(queries, "queries")
    require(rows.min() >= 0 and rows.max() < count, f"queries from {rows.min()} to {rows.max()}", f"rows below {count}")
    return rows


def _neighbors(queried, items, rows, k, metric):
    """The k nearest items of each query, `(queries, k)`, and their scores; a query does not find itself."""
    neighbors, values = Exact(items.vectors, metric=metric).search(queried.vectors[rows], k + (queried is items))
    if queried is items:
        itself = neighbors == rows[:, None]
        itself[~itself.any(axis=1), -1] = True  # exact copies have displaced it
        neighbors, values = neighbors[~itself].reshape(-1, k), values[~itself].reshape(-1, k)
    return neighbors, values


def _draw_images(axes, queried, rows, items, near):
    for axis, image in zip(axes[:, 0], pictures(queried.data, rows, _PIXELS), strict=True):
        axis.imshow(image)
    for axis, image in zip(axes[:, 1:].flat, pictures(items.data, near.ravel(), _PIXELS), strict=True):
        axis.imshow(image)


def _draw_frames(axes, same):
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
    for axis, is_same in zip(axes[:, 1:].flat, same.ravel().tolist(), strict=True):
        axis.spines[:].set(**FRAMES[is_same], capstyle="butt")


def _joined(captions, values):
    """Captions with a line of scores."""
    if values is None:
        return captions
    lines = zip(captions, values, strict=True)
    return [[f"{name}\n{value:.2f}".strip() for name, value in zip(*line, strict=True)] for line in lines]


def _write_captions(axes, captions, columns):
    for line, texts in zip(axes, captions, strict=True):
        for axis, text in zip(line[columns], texts, strict=True):
            axis.set_xlabel(text, fontsize=7, labelpad=2)


def _cut(name):
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"


def _explain(figure, axes, same, title):
    """Title, heads of columns, and what the frames mean."""
    from matplotlib.lines import Line2D

    axes[0, 0].set_title("query", fontsize=9)
    axes[0, 1].set_title("nearest", fontsize=9)
    figure.suptitle(title, fontsize=11)
    kinds = {True: "same class", False: "another class"}
    handles = [
        Line2D([], [], label=kinds[is_same], **FRAMES[is_same]) for is_same in (True, False) if (same == is_same).any()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=8, handlelength=3)
