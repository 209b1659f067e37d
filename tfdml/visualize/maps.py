"""Maps of embeddings in two dimensions, with thumbnails or points."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_vectors, require, require_one_of, require_varied, require_whole
from tfdml._core.optional import new_figure
from tfdml.typing import Examples
from tfdml.visualize.colors import SINGLE_COLOR, class_styles, labels_and_names
from tfdml.visualize.coordinates import pca, tsne, umap
from tfdml.visualize.pictures import pictures, shows_images

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_THUMBNAIL = 64  # pixels
_FILLED = 0.9  # width of a thumbnail, as a fraction of its cell
_METHODS = {"pca": pca, "tsne": tsne, "umap": umap}


def embedding_map(
    embeddings: npt.ArrayLike,
    data: Examples | None = None,
    labels: npt.ArrayLike | None = None,
    *,
    method: Literal["pca", "tsne", "umap"] | Callable[[np.ndarray], npt.ArrayLike] = "tsne",
    cells: int = 24,
    title: str | None = None,
) -> Figure:
    """Embeddings on a plane: thumbnails of images, or points.

    The map has square cells. Each cell with examples shows the thumbnail of the example nearest to its center, so no
    thumbnail covers another. Without images, or with `cells=0`, points are drawn. Up to eight classes have their own
    colors of frames, or colors and markers of points.

    See also: `retrieval_grid` for queries and their neighbors.

    Example: twelve images in a plane.

        >>> x, images = np.random.default_rng(0).normal(size=(12, 2)), np.zeros((12, 8, 8, 1), "uint8")
        >>> figure = tfdml.visualize.embedding_map(x, images, np.repeat([0, 1], 6), cells=4, title="twelve")
        >>> figure.savefig("map.png")
        >>> figure.axes[0].get_title()
        'twelve'

    Args:
        embeddings: `(n, dim)`; two columns are drawn directly.
        data: labeled set or sequence of n examples; None, or examples that are not images: points.
        labels: `(n,)` integer class ids; None: the labels of a labeled set, or one color for all.
        method: "tsne" and "umap" keep neighbors together: sizes of clusters and distances between them mean little.
            "pca" takes the two directions of largest variance. Or a function from embeddings `(n, dim)` to coordinates
            `(n, 2)`, such as `sklearn.manifold.TSNE(perplexity=5).fit_transform`.
        cells: number of cells along the longer edge of the map; 0: points only.
        title: text above the map.

    Raises:
        ImportError: matplotlib, or the library of the method, is not installed.
        ValueError: too few rows or columns for the method, or embeddings that are all equal.
    """
    require_whole("cells", cells, 0)
    if not callable(method):
        require_one_of(tuple(_METHODS), method=method)
    vectors = as_vectors(embeddings, "embeddings")
    require(len(vectors) > 0, "no embeddings", "at least one")
    require_varied(vectors)
    ids, name = labels_and_names(data, labels, len(vectors))
    points = (vectors if vectors.shape[1] == 2 else _mapped(vectors, method)).astype(np.float64)
    figure = new_figure("embedding_map", figsize=(8, 8))
    axis = figure.subplots()
    if cells and shows_images(data):
        _draw_thumbnails(axis, points, ids, name, data, cells)
    else:
        _draw_points(axis, points, ids, name)
    _finish(figure, axis, points, title)
    return figure


def _draw_points(axis: Axes, points: np.ndarray, labels: np.ndarray | None, name: Callable[[int], str]) -> None:
    """Points `(n, 2)` in the colors of few classes, else in one."""
    styles = class_styles(labels)
    if not styles:
        axis.scatter(points[:, 0], points[:, 1], s=8, color=SINGLE_COLOR, linewidths=0)
    for label, (color, marker) in styles.items():
        x, y = points[labels == label].T
        axis.scatter(x, y, s=18, color=color, marker=marker, linewidths=0, label=name(label))


def one_per_cell(points: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray, float]:
    """The point nearest to the center of each square cell that has points; `cells` along the longer edge.

    Returns `(shown,)` row numbers, `(shown, 2)` centers of their cells, and the width of a cell.
    """
    middle, width = _square(points)
    width /= cells
    start = middle - width * cells / 2
    point_cells = np.clip((points - start) // width, 0, cells - 1)
    centers = start + (point_cells + 0.5) * width
    order = np.argsort(((points - centers) ** 2).sum(axis=1), kind="stable")
    rows = np.sort(order[np.unique(point_cells[order], axis=0, return_index=True)[1]])
    return rows, centers[rows], width


def _finish(figure: Figure, axis: Axes, points: np.ndarray, title: str | None) -> None:
    """Set title, legend, and limits around all points, `(n, 2)`; axes have no numbers: coordinates have no unit."""
    middle, width = _square(points)
    low, high = middle - 0.53 * width, middle + 0.53 * width
    axis.set(xticks=[], yticks=[], aspect="equal", title=title or "")
    axis.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    handles, names = axis.get_legend_handles_labels()
    if handles:
        figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False, markerscale=1.5)


def _square(points):
    """Center and width of the smallest square around points; a width of 1 around equal points."""
    low, high = points.min(axis=0), points.max(axis=0)
    return (low + high) / 2, (high - low).max() or 1.0


def _mapped(vectors, method):
    function = method if callable(method) else _METHODS[method]
    points = as_vectors(function(vectors), "coordinates of the method")
    expected = f"({len(vectors)}, 2)"
    require(points.shape == (len(vectors), 2), f"coordinates of shape {points.shape} of the method", expected)
    return points


def _draw_thumbnails(axis, points, labels, name, data, cells):
    from matplotlib.patches import Rectangle

    rows, centers, width = one_per_cell(points, cells)
    styles = class_styles(labels)
    for row, center, image in zip(rows, centers, pictures(data, rows, _THUMBNAIL), strict=True):
        size = _FILLED * width * np.array(image.shape[1::-1]) / max(image.shape[:2])
        low, high = center - size / 2, center + size / 2
        axis.imshow(image, extent=(low[0], high[0], low[1], high[1]))
        if styles:
            color = styles[int(labels[row])][0]
            axis.add_patch(Rectangle(low, *size, fill=False, color=color, linewidth=2, zorder=3))
    for label, (color, _) in styles.items():
        axis.plot([], [], "s", markerfacecolor="none", markeredgecolor=color, markeredgewidth=2, label=name(label))
