"""The hardest pairs and triplets of a whole training set, found by nearest-neighbour search. NumPy in, NumPy out.

A batch shows a miner few examples, and the hardest of them are seldom the hardest there are. Here every example is
compared with the whole set, in chunks, so that no matrix of examples x examples is ever in memory.
"""

from collections.abc import Callable
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tfdml._checks import as_ids, as_vectors, check_metric, unmasked
from tfdml.search import Exact
from tfdml.search.nearest import nearest
from tfdml.search.scores import Gallery, l2_normalize, row_products

__all__ = [
    "HardPairs",
    "hardest_pairs",
    "hardest_triplets",
]

_SCRATCH = 64 * 2**20  # Bytes of the scores, or of the neighbours, that are looked at together.
_NEIGHBOR = 40  # Bytes that a neighbour of a query takes while it is looked at: id, score, class, rank, flags.


class HardPairs(NamedTuple):
    """Row numbers of the hardest positives and negatives of every example, the hardest first.

    Attributes:
        positives: `(examples, positives)` int64, the farthest of the same class; -1 where there are no more.
        negatives: `(examples, negatives)` int64, the nearest of other classes; -1 where there are no more.
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
    search: Callable | None = None,
) -> HardPairs:
    """The farthest examples of the same class and the nearest of other classes, of every example of a set.

    positives(a) = argmax over p != a, y_p = y_a, of d(a, p);  negatives(a) = argmin over n, y_n != y_a, of d(a, n)

    Positives are exact, class by class. Negatives are as exact as the search: an approximate one may pass over a nearer
    example for one that is a little farther, but it always finds as many, all of other classes;
    `tfdml.search.neighbor_recall` measures how much it misses. An example whose neighbours are of its own class is
    searched again, with more neighbours, until it has its negatives.

    Memory: a few copies of the embeddings, 64 MiB (or 40 bytes an example, where that is more), and what the search
    takes, up to 512 MiB with `tfdml.search.Exact`. Time grows with the square of the number of examples for an exact
    search, with the squares of the sizes of the classes for the positives, and with the size of the classes where
    neighbours are mostly of the same class.

    Args:
        embeddings: `(examples, dim)` floats, finite; float32 is what they are compared in.
        labels: `(examples,)` integer class ids, of two classes or more.
        positives, negatives: how many of each.
        metric: "cosine", "dot" or "euclidean": near is a large cosine, a large dot product or a small distance.
        search: makes the index that is searched: None for `tfdml.search.Exact`, or `tfdml.search.Scann`, or any
            function `(vectors, metric=...)` of an index whose ids are row numbers.

    Returns:
        `HardPairs`. The positives of an example that is the only one of its class are -1.

    Raises:
        ValueError: embeddings that are not finite or not a matrix, labels that are not integers or as many, fewer than
            two classes, an unknown metric, a number below 1.

    Source: Schroff, Kalenichenko, Philbin, FaceNet, CVPR 2015, section 3.2, which takes them offline from a part of the
    set; Harwood et al., Smart Mining for Deep Metric Learning, ICCV 2017, which searches the whole set.
    """
    _require_count("positives", positives)
    _require_count("negatives", negatives)
    check_metric(metric)
    embeddings = unmasked("embeddings", embeddings)
    labels = unmasked("labels", labels)
    x = as_vectors(embeddings, "embeddings")
    ids, classes, sizes = np.unique(as_ids(labels, len(x), "labels"), return_inverse=True, return_counts=True)
    if len(ids) < 2:
        raise ValueError(f"Received labels of {len(ids)} class, expected two or more: there are no negatives.")
    farthest = _farthest_of_class(x, classes, sizes, positives, metric)
    index = (search or Exact)(x, metric=metric)
    return HardPairs(farthest, _nearest_of_others(index, x, classes, sizes, negatives))


def hardest_triplets(
    embeddings: ArrayLike,
    labels: ArrayLike,
    *,
    margin: float = 0.2,
    metric: str = "cosine",
    search: Callable | None = None,
) -> np.ndarray:
    """The hardest triplet of every example of a set, of those that violate the margin, the hardest first.

    (a, p, n) with p the farthest of a's class and n the nearest of the others, where d_ap + margin > d_an

    Memory and time are those of `hardest_pairs`.

    Args:
        embeddings, labels, metric, search: as in `hardest_pairs`.
        margin: in units of the distance d: 1 - s for "cosine" (0 to 2, half the squared distance of embeddings of
            length 1), -s for "dot", |a - b| for "euclidean". Infinite for all.

    Returns:
        `(triplets, 3)` int64 row numbers of anchor, positive and negative, by falling d_ap - d_an; `(0, 3)` where no
        triplet violates the margin. An anchor that is the only one of its class has no triplet.

    Raises:
        ValueError: a margin that is no number, and all that `hardest_pairs` raises.

    Source: Schroff, Kalenichenko, Philbin, FaceNet, CVPR 2015, eq. 1 and section 3.2.
    """
    if not isinstance(margin, Real) or np.isnan(margin):
        raise ValueError(f"Received margin={margin!r}, expected a number.")
    pairs = hardest_pairs(embeddings, labels, metric=metric, search=search)
    anchors = np.flatnonzero(pairs.positives[:, 0] >= 0)
    triplets = np.column_stack([anchors, pairs.positives[anchors, 0], pairs.negatives[anchors, 0]])
    anchor, positive, negative = (as_vectors(embeddings, "embeddings")[rows] for rows in triplets.T)
    nearer = _distance(anchor, negative, metric) - _distance(anchor, positive, metric)
    order = np.argsort(nearer, kind="stable")
    return triplets[order[nearer[order] < margin]]


def _farthest_of_class(x, classes, sizes, count, metric):
    """Row numbers `(examples, count)` of the farthest of the same class, -1 where there are no more."""
    found = np.full((len(x), count), -1, np.int64)
    for rows in np.split(np.argsort(classes, kind="stable"), np.cumsum(sizes)[:-1]):
        most = min(count, len(rows) - 1)
        if most == 0:
            continue
        scores = Gallery(x[rows], metric).scores(farthest=True)
        for some in _chunks(len(rows), 4 * len(rows)):
            block = np.empty((len(some), len(rows)), np.float32)
            far, _ = nearest(scores, most + 1, slice(some[0], some[-1] + 1), block)
            others = np.argsort(far == some[:, None], axis=1, kind="stable")[:, :most]  # Not a positive of itself.
            found[rows[some], :most] = rows[np.take_along_axis(far, others, axis=1)]
    return found


def _nearest_of_others(index, x, classes, sizes, count):
    """Row numbers `(examples, count)` of the nearest of other classes, -1 where there are no more."""
    found = np.full((len(x), count), -1, np.int64)
    enough = np.minimum(sizes[classes] + count, len(x))  # Of so many, all but a class are of others.
    rows, k = np.arange(len(x)), 16 + count
    while len(rows):
        k = min(k, int(enough[rows].max()))
        for some in _chunks(len(rows), _NEIGHBOR * k):
            near, _ = index.search(x[rows[some]], k)
            _keep_others(found, rows[some], near, classes)
        rows = rows[(found[rows, -1] < 0) & (enough[rows] > k)]
        k *= 4
    return found


def _keep_others(found, rows, near, classes):
    """Writes the first neighbours that are of other classes to these rows of `found`."""
    other = classes[near] != classes[rows, None]
    rank = np.cumsum(other, axis=1)
    query, place = np.nonzero(other & (rank <= found.shape[1]))
    found[rows[query], rank[query, place] - 1] = near[query, place]


def _distance(x, y, metric):
    """Distance of each row of x to that of y, `(rows,)` float64, as `hardest_triplets` defines it."""
    if metric == "euclidean":
        gap = x.astype(np.float64) - y
        return np.sqrt(row_products(gap, gap))
    if metric == "cosine":
        x, y = l2_normalize(x), l2_normalize(y)
    return (metric == "cosine") - row_products(x, y)


def _chunks(count, bytes_each):
    """The numbers below `count` in arrays of so many as fit into the scratch memory, at least one."""
    step = max(1, _SCRATCH // bytes_each)
    return (np.arange(start, min(start + step, count)) for start in range(0, count, step))


def _require_count(name, value):
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"Received {name}={value!r}, expected a whole number of at least 1.")


def __dir__():
    return __all__
