"""The hardest pairs and triplets of a whole training set, found by nearest-neighbor search. NumPy in, NumPy out.

The hardest pairs of a batch are rarely the hardest of the training set. This module compares every example with the
whole set, in chunks, so a matrix of examples x examples is never in memory.
"""

from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tfdml._core.checks import as_ids, as_vectors, require, require_metric, require_whole
from tfdml.search.blocks import slices
from tfdml.search.builders import IndexBuilder, index_builder
from tfdml.search.nearest import nearest
from tfdml.search.scores import Gallery, l2_normalize, row_products

_CHUNK_BYTES = 64 * 2**20  # Scores or neighbors that are in memory at the same time.
_BYTES_PER_NEIGHBOR = 40  # Id, score, class, rank and flags of one neighbor.


class HardPairs(NamedTuple):
    """Row numbers of the hardest positives and negatives of every example, hardest first.

    Attributes:
        positives: `(examples, positives)` int64, the farthest of the same class, then -1.
        negatives: `(examples, negatives)` int64, the nearest of other classes, then -1.
    """

    positives: np.ndarray
    negatives: np.ndarray


def hardest_pairs(
    embeddings: ArrayLike,
    labels: ArrayLike,
    *,
    positives: int = 1,
    negatives: int = 1,
    metric: str = "cosine",
    search: IndexBuilder = None,
) -> HardPairs:
    """The farthest examples of the same class and the nearest of other classes, for every example of a set.

    positives(a) = argmax over p != a, y_p = y_a, of d(a, p);  negatives(a) = argmin over n, y_n != y_a, of d(a, n)

    Positives are exact. Negatives are as exact as the search: an approximate search may miss a nearer example, but all
    of its results belong to other classes and their number is the same; `tfdml.search.neighbor_recall` measures its
    recall. If too many neighbors of an example are of its own class, the search is repeated with more neighbors.

    Memory: a few copies of the embeddings, 64 MiB (or 40 bytes per example, if that is more), and the memory of the
    search, up to 512 MiB with `tfdml.search.Exact`. Time grows with the square of the number of examples for an exact
    search, with the squares of the class sizes for the positives, and with the class sizes if neighbors are mostly of
    the same class.

    Args:
        embeddings: `(examples, dim)` floats, finite; they are compared in float32.
        labels: `(examples,)` integer class ids, of two classes or more.
        positives, negatives: number of each per example.
        metric: "cosine", "dot" or "euclidean"; near means a large cosine, a large dot product or a small distance.
        search: builds the index: "exact" or None for `tfdml.search.Exact`, "scann" for `tfdml.search.Scann`, or any
            function `(vectors, metric=...)`, such as these classes, that returns an index whose ids are row numbers.

    Returns:
        `HardPairs`. The positives of an example that is alone in its class are -1.

    Raises:
        ValueError: embeddings that are not a matrix of finite numbers, labels that are not one integer per row, fewer
            than two classes, an unknown metric or search, a number of pairs below 1.

    Source: Schroff, Kalenichenko, Philbin, FaceNet, CVPR 2015, section 3.2, which mines a subset
    offline; Harwood et al., Smart Mining for Deep Metric Learning, ICCV 2017, which searches the whole set.
    """
    require_whole("positives", positives, 1)
    require_whole("negatives", negatives, 1)
    require_metric(metric)
    build = index_builder(search)
    x = as_vectors(embeddings, "embeddings")
    ids, classes, sizes = np.unique(as_ids(labels, "labels", len(x)), return_inverse=True, return_counts=True)
    require(len(ids) > 1, f"labels of {len(ids)} class", "two or more: there are no negatives")
    farthest = _farthest_of_class(x, classes, sizes, positives, metric)
    return HardPairs(farthest, _nearest_of_others(build(x, metric=metric), x, classes, sizes, negatives))


def hardest_triplets(
    embeddings: ArrayLike,
    labels: ArrayLike,
    *,
    margin: float = 0.2,
    metric: str = "cosine",
    search: IndexBuilder = None,
) -> np.ndarray:
    """The hardest triplet of every example of a set, if it violates the margin; hardest first.

    (a, p, n) with p the farthest of the class of a, n the nearest of the other classes, and d_ap + margin > d_an

    Memory and time are as in `hardest_pairs`.

    Args:
        embeddings, labels, metric, search: as in `hardest_pairs`.
        margin: in units of the distance d: 1 - s for "cosine" (0 to 2, half the squared distance of embeddings of
            norm 1), -s for "dot", |a - b| for "euclidean". Infinity keeps all triplets.

    Returns:
        `(triplets, 3)` int64 row numbers of anchor, positive and negative, by decreasing d_ap - d_an; `(0, 3)` if
        no triplet violates the margin. An anchor that is alone in its class has no triplet.

    Raises:
        ValueError: a margin that is not a number, and the errors of `hardest_pairs`.

    Source: Schroff, Kalenichenko, Philbin, FaceNet, CVPR 2015, eq. 1 and section 3.2.
    """
    require(isinstance(margin, Real) and not np.isnan(margin), f"margin={margin!r}", "a number")
    pairs = hardest_pairs(embeddings, labels, metric=metric, search=search)
    anchors = np.flatnonzero(pairs.positives[:, 0] >= 0)
    triplets = np.column_stack([anchors, pairs.positives[anchors, 0], pairs.negatives[anchors, 0]])
    anchor, positive, negative = (as_vectors(embeddings, "embeddings")[rows] for rows in triplets.T)
    gap = _distance(anchor, negative, metric) - _distance(anchor, positive, metric)
    order = np.argsort(gap, kind="stable")
    return triplets[order[gap[order] < margin]]


def _farthest_of_class(x, classes, sizes, count, metric):
    """Row numbers `(examples, count)` of the farthest of the same class, then -1."""
    farthest = np.full((len(x), count), -1, np.int64)
    for rows in np.split(np.argsort(classes, kind="stable"), np.cumsum(sizes)[:-1]):
        num_positives = min(count, len(rows) - 1)
        if num_positives == 0:
            continue
        scores = Gallery(x[rows], metric).scores(farthest=True)
        for chunk in _chunks(len(rows), 4 * len(rows)):
            block = np.empty((chunk.stop - chunk.start, len(rows)), np.float32)
            columns, _ = nearest(scores, num_positives + 1, chunk, block)
            is_self = columns == np.arange(chunk.start, chunk.stop)[:, None]  # No row is its own positive.
            others = np.argsort(is_self, axis=1, kind="stable")[:, :num_positives]
            farthest[rows[chunk], :num_positives] = rows[np.take_along_axis(columns, others, axis=1)]
    return farthest


def _nearest_of_others(index, x, classes, sizes, count):
    """Row numbers `(examples, count)` of the nearest of other classes, then -1."""
    negatives = np.full((len(x), count), -1, np.int64)
    enough = np.minimum(sizes[classes] + count, len(x))  # Of this many neighbors, `count` are of other classes.
    rows, k = np.arange(len(x)), 16 + count
    while len(rows):
        k = min(k, int(enough[rows].max()))
        for chunk in _chunks(len(rows), _BYTES_PER_NEIGHBOR * k):
            neighbors, _ = index.search(x[rows[chunk]], k)
            negatives[rows[chunk]] = _first_of_others(neighbors, classes, classes[rows[chunk]], count)
        rows = rows[(negatives[rows, -1] < 0) & (enough[rows] > k)]
        k *= 4
    return negatives


def _first_of_others(neighbors, classes, query_classes, count):
    """The first `count` neighbors `(queries, count)` of other classes than the query's, then -1."""
    first = np.full((len(neighbors), count), -1, np.int64)
    is_negative = classes[neighbors] != query_classes[:, None]
    rank = np.cumsum(is_negative, axis=1)
    query, column = np.nonzero(is_negative & (rank <= count))
    first[query, rank[query, column] - 1] = neighbors[query, column]
    return first


def _distance(x, y, metric):
    """Distance of each row of x to the same row of y, `(rows,)` float64, as defined in `hardest_triplets`."""
    if metric == "euclidean":
        difference = x.astype(np.float64) - y
        return np.sqrt(row_products(difference, difference))
    if metric == "cosine":
        x, y = l2_normalize(x), l2_normalize(y)
    return (metric == "cosine") - row_products(x, y)


def _chunks(count, row_bytes):
    """Slices of one or more of `count` rows that fit into the memory of a chunk."""
    return slices(count, max(1, _CHUNK_BYTES // row_bytes))
