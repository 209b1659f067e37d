"""All similar pairs of a set: exactly, or from approximate candidates after an exact check."""

import itertools
import math
from threading import Lock
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_vectors, require, require_fraction, require_seed, require_whole
from tfdml.search.blocks import in_threads, slices
from tfdml.search.duplicates.binomial import binomial_lower_bound
from tfdml.search.duplicates.cells import Cells
from tfdml.search.scores import Gallery

_LEAST_GALLERY = 256  # With fewer vectors, all products are as fast.
_SIDE = 2048  # queries, and vectors, of a block of products


class PairRecall(NamedTuple):
    """Recall of a join, measured on random rows by an exact search of their pairs; see `similar_pairs`."""

    rows: int
    complete: int
    lower: float


class TooManyPairsError(ValueError):
    """More similar pairs than a list of them may have."""


class SimilarPairs(NamedTuple):
    """The result of `similar_pairs`."""

    rows: np.ndarray
    similarity: np.ndarray
    recall: PairRecall | None


def similar_pairs(
    vectors: npt.ArrayLike,
    similarity: float,
    *,
    gallery: npt.ArrayLike | None = None,
    approximate: bool = False,
    recall: float = 0.99,
    sample: int = 4096,
    max_pairs: int = 20_000_000,
    seed: int = 0,
) -> SimilarPairs:
    """All pairs of at least this cosine similarity, within a set or between two sets.

    The exact join compares all pairs; its time grows with n^2 dim / 2. The approximate one compares each query with the
    vectors around its nearest centers, of sqrt(n) centers of k-means; its time grows with n^1.5 dim. Both compute the
    similarity of each pair exactly, so the approximate join returns no wrong pair; it misses pairs.

    For it, the function joins two random samples of rows exactly. The first gives the number of centers per query that
    find all pairs of a share `recall` of its rows; the second measures the recall.

    Example:

        >>> x = [[1.0, 0.0], [0.96, 0.28], [0.0, 1.0]]
        >>> pairs = tfdml.search.similar_pairs(x, 0.9)
        >>> pairs.rows.tolist(), pairs.similarity.astype(float).round(4).tolist()
        ([[0, 1]], [0.96])
        >>> tfdml.search.similar_pairs(x, 0.9, gallery=[[0.0, 3.0]]).rows.tolist()
        [[2, 0]]

    Args:
        vectors: `(n, dim)` floats, finite: the queries.
        similarity: least cosine similarity, in (-1, 1].
        gallery: `(m, dim)` floats, finite, the vectors to compare them with; None for the queries themselves, without
            pairs of a row with itself, each pair once.
        approximate: whether to compare near cells only; of a set of up to 2 `sample` rows, an exact join.
        recall: share of the rows whose pairs an approximate join should find, in (0, 1].
        sample: number of rows in each of the two samples.
        max_pairs: largest number of pairs of a join.
        seed: of the centers and the samples.

    Returns:
        A record: `rows`, `(m, 2)` int64, sorted: the row of a query and a row of the gallery, the smaller one first in
        a join of a set with itself; `similarity`, `(m,)` float32; and `recall`, None for an exact join, of an
        approximate one a record of `rows`, the number of random rows that have a similar row, `complete`, the number of
        these whose pairs were all found, and `lower`: with 95% confidence, at least this share of all rows that have a
        similar row have all their pairs (Clopper-Pearson). No pairs of an empty set.

    Raises:
        ValueError: more than `max_pairs` pairs.
    """
    require(-1 < similarity <= 1, f"similarity={similarity}", "a cosine similarity above -1 and up to 1")
    require_fraction(recall=recall)
    for name, value in (("sample", sample), ("max_pairs", max_pairs)):
        require_whole(name, value, 1)
    require_seed(seed)
    join = Join(as_vectors(vectors, "vectors"), gallery, np.float32(similarity), max_pairs)
    if not approximate or len(join.scores) <= 2 * sample or len(join.gallery) < _LEAST_GALLERY:
        rows, values = join.exactly()
        return SimilarPairs(rows, values, None)
    return _approximate(join, recall, sample, seed)


def pair_groups(rows: npt.ArrayLike, num_rows: int) -> np.ndarray:
    """Groups of the rows of a set that pairs connect, as `near_duplicates` returns them.

    Example:

        >>> tfdml.search.pair_groups([[0, 3], [3, 4]], num_rows=6).tolist()
        [0, 1, 2, 0, 0, 5]

    Args:
        rows: `(m, 2)` integers, pairs of rows.
        num_rows: number of rows of the set.

    Returns:
        `(num_rows,)` int64: the first row of the group of each row; the row itself without a pair.
    """
    from tfdml.search.duplicates.groups import roots, unite

    pairs = np.asarray(rows, np.int64)
    is_valid = pairs.ndim == 2 and pairs.shape[1] == 2 and bool(((pairs >= 0) & (pairs < num_rows)).all())
    require(is_valid, f"rows of shape {pairs.shape}", f"(m, 2) row numbers below {num_rows}")
    first = np.arange(num_rows)
    unite(first, pairs[:, 0], pairs[:, 1])
    return roots(first, np.arange(num_rows))


class Join:
    """Queries and a gallery to join at a similarity; each pair of a set with itself is `(smaller, larger)`."""

    def __init__(self, queries: np.ndarray, gallery: npt.ArrayLike | None, least: np.float32, max_pairs: int):
        self.is_self = gallery is None
        self.gallery = Gallery(queries if gallery is None else as_vectors(gallery, "gallery"), "cosine")
        dims = queries.shape[1], self.gallery.augmented.shape[1]
        require(dims[0] == dims[1], f"vectors of dim {dims[0]} and a gallery of dim {dims[1]}", "the same dim")
        self.scores = self.gallery.scores(None if self.is_self else queries)
        self.least, self.max_pairs = least, max_pairs

    def query_columns(self, pairs):
        """The columns of `(m, 2)` pairs that are rows of queries."""
        return [pairs[:, 0], pairs[:, 1]] if self.is_self else [pairs[:, 0]]

    def exactly(self, queries=None):
        """All pairs, or the pairs of some queries: `(m, 2)` rows and `(m,)` similarities."""
        is_half = self.is_self and queries is None
        numbers = np.arange(len(self.scores)) if queries is None else queries
        columns = np.arange(len(self.gallery))
        tiles = itertools.product(slices(len(numbers), _SIDE), slices(len(columns), _SIDE))
        return self.joined([(numbers[a], columns[b]) for a, b in tiles if not is_half or b.stop > a.start])

    def near(self, cells, num_probes):
        """The pairs of queries and the vectors in their nearest cells: `(m, 2)` rows and `(m,)` similarities."""
        return self.joined(cells.tasks(self.scores.queries, num_probes))

    def joined(self, tasks):
        """The pairs of tasks, each a list of queries and a list of vectors; no pair twice."""
        pairs = _Pairs(self.is_self, self.max_pairs)
        for _ in in_threads(lambda task: pairs.add(*self._similar(*task)), tasks) if tasks else ():
            pass
        return pairs.result()

    def _similar(self, rows, columns):
        """The pairs of a task whose exact similarity is high enough: rows, columns and similarities."""
        block = self.scores.approximate(rows, out=None, columns=columns)
        low, _ = self.scores.around(rows, np.full(len(rows), self.least))
        row, column = np.divmod(np.flatnonzero(block >= low[:, None]), len(columns))
        row, column = rows[row], columns[column]
        if self.is_self:
            row, column = row[row != column], column[row != column]
        similarity = self.scores.exact(row, column)
        is_similar = similarity >= self.least
        return row[is_similar], column[is_similar], similarity[is_similar]


class _Pairs:
    def __init__(self, is_self, max_pairs):
        self._is_self, self._max_pairs = is_self, max_pairs
        self._count, self._blocks, self._lock = 0, [], Lock()

    def add(self, row, column, similarity):
        """Add pairs; a TooManyPairsError if there are too many."""
        with self._lock:
            self._count += len(row)
            if self._count > self._max_pairs:
                received = f"Received vectors of which more than max_pairs={self._max_pairs:,} pairs are similar"
                advice = "Raise the similarity or max_pairs, or use near_duplicates, which needs no list of pairs"
                raise TooManyPairsError(f"{received}, expected fewer. {advice}.")
            self._blocks.append((row, column, similarity))

    def result(self):
        """Sorted pairs `(m, 2)` without repetitions, and their similarities `(m,)`."""
        empty = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32)
        row, column, similarity = map(np.concatenate, zip(empty, *self._blocks, strict=True))
        if self._is_self:
            row, column = np.minimum(row, column), np.maximum(row, column)
        return sorted_pairs(np.stack([row, column], axis=1), similarity)


def sorted_pairs(rows: np.ndarray, similarity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted pairs `(m, 2)` without repetitions, and their similarities `(m,)`."""
    order = np.lexsort((rows[:, 1], rows[:, 0]))
    rows, similarity = rows[order], similarity[order]
    is_new = np.ones(len(rows), bool)
    is_new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return rows[is_new], similarity[is_new]


def _approximate(join, recall, sample, seed):
    """The pairs of an approximate join, whose number of cells per query follows from a sample."""
    cells = Cells(join.gallery.augmented, math.isqrt(len(join.gallery)), np.random.default_rng(seed))
    shuffled = np.random.default_rng([seed, 1]).permutation(len(join.scores))
    chosen, measured = np.sort(shuffled[:sample]), np.sort(shuffled[sample : 2 * sample])
    num_probes = _num_probes(join, cells, chosen, recall)
    if num_probes >= len(cells) // 2:  # The exact join is as fast.
        return SimilarPairs(*join.exactly(), None)
    rows, similarity = join.near(cells, num_probes)
    return SimilarPairs(rows, similarity, _pair_recall(join, rows, measured))


def _num_probes(join, cells, sample, recall):
    """The number of cells that find all pairs of a share `recall` of the sampled rows in pairs."""
    pairs = join.exactly(sample)[0]
    ranks = cells.ranks(join.scores.queries[pairs[:, 0]], pairs[:, 1])
    if join.is_self:
        ranks = np.minimum(ranks, cells.ranks(join.scores.queries[pairs[:, 1]], pairs[:, 0]))
    largest = np.full(len(join.scores), -1)
    for rows in join.query_columns(pairs):
        np.maximum.at(largest, rows, ranks)
    largest = largest[sample][largest[sample] >= 0]
    return 1 + int(np.quantile(largest, recall, method="higher")) if len(largest) else 1


def _pair_recall(join, rows, sample):
    expected = join.exactly(sample)[0]
    codes, expected_codes = (pairs[:, 0] * len(join.gallery) + pairs[:, 1] for pairs in (rows, expected))
    is_missed = ~np.isin(expected_codes, codes)
    in_pairs, incomplete = (
        len(np.intersect1d(sample, np.concatenate(join.query_columns(pairs))))
        for pairs in (expected, expected[is_missed])
    )
    complete = in_pairs - incomplete
    return PairRecall(in_pairs, complete, binomial_lower_bound(complete, in_pairs))
