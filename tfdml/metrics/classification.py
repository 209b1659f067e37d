"""Classification by embeddings without a trained classifier: the nearest class mean, and the nearest neighbors."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import (
    as_ids,
    as_vectors,
    require,
    require_metric,
    require_one_of,
    require_varied,
    require_whole,
)
from tfdml.metrics.statistics.intervals import class_interval
from tfdml.search.blocks import slices
from tfdml.search.exact import Exact
from tfdml.search.nearest import without_self
from tfdml.search.scores import l2_normalize
from tfdml.typing import Labels

_NUMBERS = 2**22  # Scores or compared votes that are in memory at the same time.


def nearest_class_mean(
    embeddings: npt.ArrayLike,
    labels: Labels,
    *,
    gallery: npt.ArrayLike | None = None,
    gallery_labels: Labels | None = None,
    metric: str = "euclidean",
    per_query: bool = False,
) -> dict[str, Any]:
    """Accuracy of classification by the nearest class mean.

    The mean of a class is the mean of its gallery items. Each query gets the class of the nearest mean; of means at the
    same distance, to the smallest class id. Without `gallery`, every row is a query against all other rows
    (leave-one-out): a query is left out of the mean of its own class. Queries of a class without a mean are excluded
    and counted. Time and memory grow with queries x classes.

    Example: without itself, row 1 is at 3 and its class at 0, the other class at 5, and only row 1 is wrong.

        >>> x = np.array([[0.0], [3.0], [4.0], [6.0]])
        >>> numbers = tfdml.metrics.nearest_class_mean(x, [0, 0, 1, 1])
        >>> numbers["accuracy"], numbers["queries"], numbers["skipped"]
        (0.75, 4, 0)

    Args:
        embeddings: `(queries, dim)` floats.
        labels: `(queries,)` integer class ids, any int64.
        gallery: `(items, dim)` floats, whose classes have means; None for leave-one-out.
        gallery_labels: `(items,)` integers, with `gallery`.
        metric: "euclidean", or "cosine": the function normalizes embeddings, and compares them with the direction of
            the mean.
        per_query: return an array instead of the mean.

    Returns:
        dict of floats: `accuracy`, the share of queries that get their class, and `low` and `high`, its 95%
        `class_interval`; and of integers: `queries`, the number of queries in the mean, and `skipped`. With
        `per_query`, dict of `accuracy`, `(queries,)` float64: 1, 0, or NaN for an excluded query.

    Source: Mensink, Verbeek, Perronnin, Csurka, Distance-Based Image Classification: Generalizing to New Classes at
    Near-Zero Cost, PAMI 2013, eq. 5.
    """
    require_one_of(("euclidean", "cosine"), metric=metric)
    data = _checked(embeddings, labels, gallery, gallery_labels)
    if metric == "cosine":
        data = data._replace(x=l2_normalize(data.x), items=l2_normalize(data.items))
    means, counts = _means_of_classes(data)
    values = np.empty(len(data.x))
    for rows in slices(len(values), max(1, _NUMBERS // len(means))):
        values[rows] = _is_nearest(data, rows, means, counts, metric)
    return _summary(data, values, per_query)


def knn_accuracy(
    embeddings: npt.ArrayLike,
    labels: Labels,
    *,
    k: int = 5,
    gallery: npt.ArrayLike | None = None,
    gallery_labels: Labels | None = None,
    metric: str = "euclidean",
    per_query: bool = False,
) -> dict[str, Any]:
    """Accuracy of classification by a vote of the k nearest neighbors.

    Each query gets the class that most of its k nearest gallery items have; of classes with the same number of votes,
    to the one whose nearest member is nearest to the query. Items at the same distance count in the order of the
    gallery. Without `gallery`, every row is a query against all other rows (leave-one-out). Queries of a class without
    an item in their gallery are excluded and counted. With `k=1` the accuracy is the Recall@1 of `retrieval`.

    Example: of the three others of a query, one has its class, and two of the other class outvote it.

        >>> x = np.array([[0.0], [1.0], [10.0], [11.0]])
        >>> [tfdml.metrics.knn_accuracy(x, [0, 0, 1, 1], k=k)["accuracy"] for k in (1, 2, 3)]
        [1.0, 1.0, 0.0]

    Args:
        embeddings, labels, gallery, gallery_labels, per_query: as in `nearest_class_mean`.
        k: number of neighbors, 1 to the number of items in the gallery of a query.
        metric: "euclidean", "cosine" or "dot".

    Returns:
        as `nearest_class_mean`.

    Source: Cover, Hart, Nearest Neighbor Pattern Classification, 1967.
    """
    require_metric(metric)
    data = _checked(embeddings, labels, gallery, gallery_labels)
    require_whole("k", k, 1, len(data.items) - data.leave_one_out)
    index = Exact(data.items, metric=metric)
    neighbors, scores = index.search(data.x, k + data.leave_one_out)
    if data.leave_one_out:
        neighbors, _ = without_self(neighbors, scores, np.arange(len(neighbors)))
    values = np.empty(len(data.x))
    for rows in slices(len(values), max(1, _NUMBERS // k**2)):
        values[rows] = _winners(data.item_codes[neighbors[rows]]) == data.codes[rows]
    return _summary(data, values, per_query)


class _Data(NamedTuple):
    """Queries and gallery items; without a gallery they are the same.

    `codes` and `item_codes` are classes as indices into the sorted class ids of the gallery; -1 for a query of another
    class. With `leave_one_out`, a query is left out of its own gallery.
    """

    x: np.ndarray
    items: np.ndarray
    codes: np.ndarray
    item_codes: np.ndarray
    labels: np.ndarray
    leave_one_out: bool


def _checked(embeddings, labels, gallery, gallery_labels):
    alone = "gallery" if gallery_labels is None else "gallery_labels"
    require((gallery is None) == (gallery_labels is None), f"{alone} alone", "gallery and gallery_labels, or neither")
    x = as_vectors(embeddings, "embeddings")
    labels = as_ids(labels, "labels", len(x))
    items = x if gallery is None else as_vectors(gallery, "gallery")
    received = f"embeddings of dim {x.shape[1]} and a gallery of dim {items.shape[1]}"
    require(x.shape[1] == items.shape[1], received, "the same dim. Embed both with the same model")
    item_labels = labels if gallery is None else as_ids(gallery_labels, "gallery_labels", len(items))
    require_varied(items)
    ids, item_codes = np.unique(item_labels, return_inverse=True)
    require(len(ids) > 1, "a gallery of one class", "at least two classes")
    nearest = np.minimum(np.searchsorted(ids, labels), len(ids) - 1)
    codes = np.where(ids[nearest] == labels, nearest, -1)
    return _Data(x, items, codes, item_codes, labels, gallery is None)


def _means_of_classes(data):
    """`(classes, dim)` float64 means of the gallery, and the number of items in each, `(classes,)`."""
    counts = np.bincount(data.item_codes)
    order = np.argsort(data.item_codes, kind="stable")
    sums = np.add.reduceat(data.items[order], np.cumsum(counts) - counts, axis=0, dtype=np.float64)
    return sums / counts[:, None], counts


def _is_nearest(data, rows, means, counts, metric):
    """Whether the own class has the nearest mean, for a slice of the queries, `(rows,)` bool."""
    x, codes = data.x[rows].astype(np.float64), data.codes[rows]
    scores = closeness(x @ means.T, np.square(means).sum(axis=1), metric)
    if data.leave_one_out:
        others = np.maximum(counts[codes] - 1, 1)[:, None]
        own_means = (counts[codes][:, None] * means[codes] - x) / others
        own = closeness((x * own_means).sum(axis=1), np.square(own_means).sum(axis=1), metric)
        scores[np.arange(len(x)), codes] = own
    return scores.argmax(axis=1) == codes


def closeness(products, squares, metric):
    """Scores that fall with the distance, from x . c and |c|^2."""
    if metric == "cosine":
        return products / np.sqrt(np.where(squares > 0, squares, 1))
    return products - squares / 2


def _winners(votes):
    """The class with most votes of each list, nearest first in `(rows, k)`; equal numbers by the first vote."""
    counts = (votes[:, :, None] == votes[:, None, :]).sum(axis=2)
    return np.take_along_axis(votes, counts.argmax(axis=1)[:, None], axis=1)[:, 0]


def _summary(data, values, per_query):
    sizes = np.append(np.bincount(data.item_codes), 0)[data.codes] - data.leave_one_out
    values = np.where(sizes > 0, values, np.nan)
    used = values[sizes > 0]
    require(len(used) > 0, "queries without a class of the gallery", "the same ids in both")
    if per_query:
        return {"accuracy": values}
    low, high = class_interval(values, data.labels)
    counts = {"queries": len(used), "skipped": len(values) - len(used)}
    return {"accuracy": float(used.mean()), "low": low, "high": high, **counts}
