"""The hardest pairs and triplets of a whole training set, found by nearest-neighbor search in chunks of examples."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tfdml._core.checks import as_ids, as_vectors, require, require_fraction, require_metric, require_whole
from tfdml.search.blocks import slices
from tfdml.search.builders import IndexBuilder, index_builder
from tfdml.search.nearest import nearest
from tfdml.search.scores import Gallery, l2_normalize, row_products

_CHUNK_BYTES = 64 * 2**20  # Scores or neighbors that are in memory at the same time.
_BYTES_PER_NEIGHBOR = 40  # Id, score, class, rank and flags of one neighbor.


class HardPairs(NamedTuple):
    """The result of `hardest_pairs`."""

    positives: np.ndarray
    negatives: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class FalseNegativeGuard:
    """Leaves out the nearest examples of other classes that are probably unlabeled positives.

    The candidates of an anchor a are its nearest examples of other classes, without the first `skip`. A candidate n is
    left out if one of these holds:

    * s_an >= max_score
    * s_an >= s_ap - margin
    * s_an >= s_ap - (1 - fraction) |s_ap|, that is, fraction s_ap for a positive score
    * the teacher's score of a and n >= max_teacher_score

    s is the cosine, the dot product, or minus the euclidean distance, and p the nearest positive of a. An anchor that
    is alone in its class has no s_ap, so that `margin` and `fraction` leave nothing out.

    Example:

        >>> x, labels = [[0.0], [1.0], [1.1], [3.0]], [0, 0, 1, 1]
        >>> guard = tfdml.search.FalseNegativeGuard(max_score=-0.5)  # scores are minus the distances
        >>> for options in ({}, {"guard": guard}):
        ...     tfdml.search.hardest_pairs(x, labels, metric="euclidean", **options).negatives.tolist()
        [[2], [2], [1], [1]]
        [[2], [3], [0], [1]]

    Args:
        skip: number of nearest examples of other classes that are left out.
        candidates: number of further ones to take negatives from; if all are left out, the anchor has none.
        max_score, margin, fraction: as above, the first two in units of s and the third in (0, 1]; None for no limit.
        teacher: `(examples, teacher_dim)` embeddings of another model, whose cosines are the teacher's scores; or a
            function of row numbers, anchors `(a,)` and their candidates `(a, c)`, that returns scores `(a, c)`, such as
            a cross-encoder's.
        max_teacher_score: limit of the teacher's score, with `teacher` only.

    Source: Moreira et al., NV-Retriever: Improving Text Embedding Models with Effective Hard-Negative Mining, 2024:
    TopK shifted by N, TopK-Abs, TopK-MarginPos and TopK-PercPos; the teacher's limit is the denoising of Qu et al.,
    RocketQA, NAACL 2021.
    """

    skip: int = 0
    candidates: int = 100
    max_score: float | None = None
    margin: float | None = None
    fraction: float | None = None
    teacher: ArrayLike | Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    max_teacher_score: float | None = None

    def __post_init__(self) -> None:
        require_whole("skip", self.skip, 0)
        require_whole("candidates", self.candidates, 1)
        for name in ("max_score", "margin", "max_teacher_score"):
            _require_number_or_none(name, getattr(self, name))
        if self.fraction is not None:
            require_fraction(fraction=self.fraction)
        require(
            (self.teacher is None) == (self.max_teacher_score is None),
            f"{'max_teacher_score' if self.teacher is None else 'teacher'} alone",
            "both of teacher and max_teacher_score, or neither",
        )

    def limits(self, positive_scores: np.ndarray) -> np.ndarray:
        """The score that a negative of each anchor must stay below, `(anchors,)`, infinite for none.

        `positive_scores` are `(anchors,)`, of the nearest positives; infinite for an anchor without any.
        """
        limits = np.full(len(positive_scores), np.inf if self.max_score is None else self.max_score)
        has_positive = np.isfinite(positive_scores)
        s = positive_scores[has_positive]
        if self.margin is not None:
            limits[has_positive] = np.minimum(limits[has_positive], s - self.margin)
        if self.fraction is not None:
            limits[has_positive] = np.minimum(limits[has_positive], s - (1 - self.fraction) * np.abs(s))
        return limits


def require_guard_or_none(guard: FalseNegativeGuard | None) -> None:
    """Raise a ValueError unless `guard` is a `FalseNegativeGuard` or None."""
    is_guard = guard is None or isinstance(guard, FalseNegativeGuard)
    require(is_guard, f"guard={guard!r}", "tfdml.search.FalseNegativeGuard(...), or None")


def hardest_pairs(
    embeddings: ArrayLike,
    labels: ArrayLike,
    *,
    positives: int = 1,
    negatives: int = 1,
    metric: str = "cosine",
    index: IndexBuilder = None,
    guard: FalseNegativeGuard | None = None,
) -> HardPairs:
    """The farthest examples of the same class and the nearest of other classes, for every example of a set.

    positives(a) = argmax over p != a, y_p = y_a, of d(a, p);  negatives(a) = argmin over n, y_n != y_a, of d(a, n)

    Positives are exact. Negatives are as exact as the search: an approximate search may miss a nearer example, but all
    of its results belong to other classes and their number is the same; `tfdml.search.neighbor_recall` measures its
    recall. If too many neighbors of an example are of its own class, it repeats the search with more neighbors.

    It compares examples with the whole set in chunks. Memory: a few copies of the embeddings, 64 MiB (or 40 bytes per
    example, if that is more), and the memory of the search. Time grows with the square of the number of examples for an
    exact search, and with the squares of the class sizes for the positives.

    See also: `tfdml.samplers.MinedPairs`, to keep the pairs for training; `tfdml.miners` for the pairs of a batch.

    Example:

        >>> x, labels = [[0.0], [1.0], [2.0], [3.0], [7.0]], [0, 0, 0, 1, 1]
        >>> pairs = tfdml.search.hardest_pairs(x, labels, metric="euclidean")
        >>> pairs.positives.tolist(), pairs.negatives.tolist()
        ([[2], [0], [0], [4], [3]], [[3], [3], [3], [2], [2]])

    Args:
        embeddings: `(examples, dim)` floats, finite; it compares them in float32.
        labels: `(examples,)` integer class ids, of two classes or more.
        positives, negatives: number of each per example.
        metric: "cosine", "dot" or "euclidean"; near means a large cosine, a large dot product or a small distance.
        index: how it is built: "exact" or None, "scann", "faiss", or a function `(vectors, metric=...)` that returns
            an index whose ids are row numbers.
        guard: leaves out probable false negatives; None for none. The others move up.

    Returns:
        A record of row numbers, int64, hardest first: `positives`, `(examples, positives)`, the farthest of the same
        class, and `negatives`, `(examples, negatives)`, the nearest of other classes; -1 where there are no more.

    Source: Schroff, Kalenichenko, Philbin, FaceNet, CVPR 2015, section 3.2, offline on a subset; Harwood et al., Smart
    Mining for Deep Metric Learning, ICCV 2017, on the whole set.
    """
    require_whole("positives", positives, 1)
    require_whole("negatives", negatives, 1)
    require_metric(metric)
    require_guard_or_none(guard)
    build = index_builder(index)
    x = as_vectors(embeddings, "embeddings")
    ids, classes, sizes = np.unique(as_ids(labels, "labels", len(x)), return_inverse=True, return_counts=True)
    require(len(ids) > 1, f"labels of {len(ids)} class", "two or more: there are no negatives")
    farthest = _of_class(x, classes, sizes, positives, metric, farthest=True)
    built = build(x, metric=metric)
    if guard is None:
        return HardPairs(farthest, _nearest_of_others(built, x, classes, sizes, negatives, np.arange(len(x))))
    return HardPairs(farthest, _guarded(built, x, classes, sizes, negatives, metric, guard))


def hardest_triplets(
    embeddings: ArrayLike,
    labels: ArrayLike,
    *,
    margin: float = 0.2,
    metric: str = "cosine",
    index: IndexBuilder = None,
    guard: FalseNegativeGuard | None = None,
) -> np.ndarray:
    """The hardest triplet of every example of a set, if it violates the margin; hardest first.

    (a, p, n) with p the farthest of the class of a, n the nearest of the other classes, and d_ap + margin > d_an

    Memory and time are as in `hardest_pairs`.

    Example:

        >>> x, labels = [[0.0], [1.0], [2.0], [3.0], [7.0]], [0, 0, 0, 1, 1]
        >>> triplets = tfdml.search.hardest_triplets(x, labels, margin=0.2, metric="euclidean")
        >>> triplets.tolist()  # row 3: d_ap = 4, d_an = 1; row 2: 2 and 1
        [[3, 4, 2], [2, 0, 3]]

    Args:
        embeddings, labels, metric, index, guard: as in `hardest_pairs`.
        margin: in units of the distance d: 1 - s for "cosine" (0 to 2, half the squared distance of embeddings of
            norm 1), -s for "dot", |a - b| for "euclidean". Infinity keeps all triplets.

    Returns:
        `(triplets, 3)` int64 row numbers of anchor, positive and negative, by decreasing d_ap - d_an; `(0, 3)` if
        no triplet violates the margin. An anchor without a positive, or without a negative that the guard leaves, has
        no triplet.

    Source: Schroff, Kalenichenko, Philbin, FaceNet, CVPR 2015, eq. 1 and section 3.2.
    """
    require(isinstance(margin, Real) and not np.isnan(margin), f"margin={margin!r}", "a number")
    pairs = hardest_pairs(embeddings, labels, metric=metric, index=index, guard=guard)
    anchors = np.flatnonzero((pairs.positives[:, 0] >= 0) & (pairs.negatives[:, 0] >= 0))
    triplets = np.column_stack([anchors, pairs.positives[anchors, 0], pairs.negatives[anchors, 0]])
    anchor, positive, negative = (as_vectors(embeddings, "embeddings")[rows] for rows in triplets.T)
    gap = _distance(anchor, negative, metric) - _distance(anchor, positive, metric)
    order = np.argsort(gap, kind="stable")
    return triplets[order[gap[order] < margin]]


def _of_class(x, classes, sizes, count, metric, *, farthest):
    """Row numbers `(examples, count)` of the farthest of the same class, or of the nearest, then -1."""
    ranked = np.full((len(x), count), -1, np.int64)
    for rows in np.split(np.argsort(classes, kind="stable"), np.cumsum(sizes)[:-1]):
        num_positives = min(count, len(rows) - 1)
        if num_positives == 0:
            continue
        scores = Gallery(x[rows], metric).scores(farthest=farthest)
        for chunk in _chunks(len(rows), 4 * len(rows)):
            block = np.empty((chunk.stop - chunk.start, len(rows)), np.float32)
            columns, _ = nearest(scores, num_positives + 1, chunk, block)
            is_self = columns == np.arange(chunk.start, chunk.stop)[:, None]  # No row is its own positive.
            others = np.argsort(is_self, axis=1, kind="stable")[:, :num_positives]
            ranked[rows[chunk], :num_positives] = rows[np.take_along_axis(columns, others, axis=1)]
    return ranked


def _nearest_of_others(index, x, classes, sizes, count, anchors):
    """Row numbers `(anchors, count)` of the nearest of other classes than the anchor's, then -1."""
    negatives = np.full((len(anchors), count), -1, np.int64)
    enough = np.minimum(
        sizes[classes[anchors]] + count, len(x)
    )  # Of this many neighbors, `count` are of other classes.
    queries, k = np.arange(len(anchors)), 16 + count
    while len(queries):
        k = min(k, int(enough[queries].max()))
        for chunk in _chunks(len(queries), _BYTES_PER_NEIGHBOR * k):
            rows = anchors[queries[chunk]]
            neighbors, _ = index.search(x[rows], k)
            negatives[queries[chunk]] = _first(neighbors, classes[neighbors] != classes[rows, None], count)
        queries = queries[(negatives[queries, -1] < 0) & (enough[queries] > k)]
        k *= 4
    return negatives


def _first(neighbors, chosen, count):
    """The first `count` chosen neighbors `(queries, count)`, then -1."""
    first = np.full((len(neighbors), count), -1, np.int64)
    rank = np.cumsum(chosen, axis=1)
    query, column = np.nonzero(chosen & (rank <= count))
    first[query, rank[query, column] - 1] = neighbors[query, column]
    return first


def _guarded(index, x, classes, sizes, count, metric, guard):
    """Row numbers `(examples, count)` of the nearest of other classes that the guard accepts, then -1."""
    require(
        guard.candidates >= count, f"guard.candidates={guard.candidates}", f"at least the {count} negatives per example"
    )
    teacher_scores = _teacher_scores(guard.teacher, len(x))
    limits, reach = guard.limits(_positive_scores(x, classes, sizes, metric, guard)), guard.skip + guard.candidates
    negatives = np.empty((len(x), count), np.int64)
    for chunk in _chunks(len(x), guard.candidates * (_BYTES_PER_NEIGHBOR + 8 * x.shape[1])):
        rows = np.arange(len(x))[chunk]
        candidates = _nearest_of_others(index, x, classes, sizes, reach, rows)[:, guard.skip :]
        others = np.where(candidates < 0, rows[:, None], candidates)  # Padding is not a row number.
        accepted = (candidates >= 0) & (_scores_of(x, rows, others, metric) < limits[rows, None])
        if teacher_scores is not None:
            accepted &= teacher_scores(rows, others) < guard.max_teacher_score
        negatives[rows] = _first(candidates, accepted, count)
    return negatives


def _positive_scores(x, classes, sizes, metric, guard):
    """The score of each example with its nearest positive, `(examples,)`; infinite where there is none or no need."""
    scores = np.full(len(x), np.inf)
    if guard.margin is not None or guard.fraction is not None:
        positives = _of_class(x, classes, sizes, 1, metric, farthest=False)
        rows = np.flatnonzero(positives[:, 0] >= 0)
        for chunk in _chunks(len(rows), _BYTES_PER_NEIGHBOR + 8 * x.shape[1]):
            scores[rows[chunk]] = _scores_of(x, rows[chunk], positives[rows[chunk]], metric)[:, 0]
    return scores


def _teacher_scores(teacher, count):
    """A function of anchors `(a,)` and candidates `(a, c)` that returns scores `(a, c)`; None without a teacher."""
    if teacher is None or callable(teacher):
        return teacher
    x = as_vectors(teacher, "teacher")
    require(len(x) == count, f"{len(x)} embeddings of the teacher", f"{count}, one per example")
    return lambda rows, others: _scores_of(x, rows, others, "cosine")


def _scores_of(x, rows, columns, metric):
    """Cosines, dot products or minus the distances of rows `(a,)` and their columns `(a, c)`: `(a, c)` float64."""
    distances = _distance(x[np.repeat(rows, columns.shape[1])], x[columns.ravel()], metric)
    return ((metric == "cosine") - distances).reshape(columns.shape)


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


def _require_number_or_none(name, value):
    require(value is None or (isinstance(value, Real) and not np.isnan(value)), f"{name}={value!r}", "a number or None")
