"""Base class of approximate indexes: exact search of later vectors, completed neighbors, and tuning."""

import copy
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import require, require_one_of, require_whole
from tfdml.search.approximate.recall import neighbor_recall, smallest_sufficient
from tfdml.search.blocks import slices
from tfdml.search.exact import exact_neighbors
from tfdml.search.index.base import Index
from tfdml.search.index.files import checked
from tfdml.search.index.segment_files import read_items

_NEIGHBORS = 2**23  # Neighbors per call of a searcher, likewise.


class Approximate(Index):
    """An index with a searcher of the vectors at its construction, and exact search of later ones."""

    methods: ClassVar[tuple[str, ...]]
    max_queries: ClassVar[int] = 16384  # of one call of a searcher, which bounds the copies
    settings: ClassVar[tuple[str, ...]] = (*Index.settings, "method", "leaves", "leaves_to_search", "rescore")

    method: str
    leaves: int | None
    leaves_to_search: int | None
    rescore: int | None

    def tune(
        self,
        recall: float = 0.95,
        *,
        k: int | None = None,
        queries: npt.ArrayLike | None = None,
        sample: int = 1000,
        seed: int = 0,
    ) -> float:
        """Choose the smallest `rescore` and `leaves_to_search` that reach a recall.

        First choose the smallest `rescore` whose recall over all leaves is (1 + recall) / 2, then the fewest leaves.
        One half of the queries chooses both. It returns the recall of the other half.

        Args:
            recall: wanted share of the exact neighbors, see `neighbor_recall`.
            k: number of neighbors per query; None: 10, or fewer in a smaller index.
            queries: `(q, dim)` floats, at least two, like later queries; by default vectors of the index, none its own
                neighbor.
            sample: number of queries that are drawn, or fewer.
            seed: seed of the draw.
        """
        require(0 < recall < 1, f"recall={recall}", "a number between 0 and 1")
        k = min(10, len(self) - (queries is None)) if k is None else k
        tuning_queries, exact = self._tuning_queries(queries, k, sample, seed)

        def measured(half, rescore, leaves_to_search):
            trial = copy.copy(self)
            trial.rescore, trial.leaves_to_search = rescore, leaves_to_search
            return neighbor_recall(trial.search(tuning_queries[half::2], k + (queries is None))[0], exact[half::2])

        rescore = smallest_sufficient(lambda n: measured(0, n, self.leaves) >= (1 + recall) / 2, k, len(self))
        leaves = self.leaves and smallest_sufficient(lambda n: measured(0, rescore, n) >= recall, 1, self.leaves)
        self.rescore, self.leaves_to_search = rescore, leaves
        return measured(1, rescore, leaves)

    def exactly(self) -> Self:
        """The index as it is now, whose `search` is exact."""
        exact: Any = copy.copy(self)
        exact._neighbors = self._exact_neighbors
        return exact

    def _tuning_queries(self, queries, k, sample, seed):
        """A sample of the queries, or of the vectors, and the ids of their exact neighbors without themselves."""
        queries = None if queries is None else self._as_vectors(queries, name="queries")
        count = len(self) if queries is None else len(queries)
        require(min(count, sample) > 1, f"{min(count, sample)} queries", "at least two")
        rows = np.random.default_rng(seed).permutation(count)[:sample]
        if queries is not None:
            return queries[rows], self._search(self._exact_neighbors, queries[rows], k)[0]
        ids = self.ids[rows]
        vectors = self._items.take(ids).gallery.vectors
        neighbors, _ = self._search(self._exact_neighbors, vectors, k + 1)
        return vectors, np.stack([row[row != item_id][:k] for row, item_id in zip(neighbors, ids, strict=True)])

    def _restore(self, folder, manifest):
        self.method = checked(folder, manifest, "method", lambda method: method in self.methods)
        for name in ("leaves", "leaves_to_search", "rescore"):
            setattr(self, name, checked(folder, manifest, name, _is_count_or_none))
        self._items = read_items(folder, manifest, self._load_searcher)

    def _neighbors(self, segment, allowed, queries, k):
        """Neighbors of the searcher in the segment that has one, exact neighbors in later segments."""
        num_requested, num_rescored = self._effort(segment, allowed, k)
        if segment.searcher is None or (allowed is not None and num_rescored >= allowed.sum()):
            return self._exact_neighbors(segment, allowed, queries, k)
        rows, values = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
        for batch in slices(len(queries), max(1, min(self.max_queries, _NEIGHBORS // num_requested))):
            nearest = self._approximate_neighbors(segment, allowed, queries[batch], num_requested, num_rescored)
            rows[batch], values[batch] = self._completed(segment, allowed, queries[batch], k, *nearest)
        return rows, values

    def _effort(self, segment, allowed, k):
        """Numbers of neighbors: those that the searcher returns, and those to score in float32."""
        raise NotImplementedError

    def _approximate_neighbors(self, segment, allowed, queries, num_requested, num_rescored):
        """Rows and values of neighbors, `(q, num_requested)`; NaN values at the end where there are fewer."""
        raise NotImplementedError

    def _load_searcher(self, folder):
        raise NotImplementedError

    def _completed(self, segment, allowed, queries, k, rows, values):
        """The first `k` allowed neighbors of each query; exact neighbors of queries that have fewer."""
        is_valid = ~np.isnan(values)
        if allowed is not None:
            is_valid &= allowed[rows]
        first = np.argsort(~is_valid, axis=1, kind="stable")[:, :k]
        rows, values = np.take_along_axis(rows, first, axis=1), np.take_along_axis(values, first, axis=1)
        incomplete = is_valid.sum(axis=1) < k
        if incomplete.any():
            rows[incomplete], values[incomplete] = self._exact_neighbors(segment, allowed, queries[incomplete], k)
        if not np.isfinite(values).all():
            raise ValueError(
                "The searcher returned scores that are not finite. Scale the vectors down, or build the index again."
            )
        return rows, values

    def _exact_neighbors(self, segment, allowed, queries, k):
        return exact_neighbors(segment.gallery, allowed, queries, k, self.max_bytes)

    def _chosen_rescore(self, k):
        return self.rescore or (k + 10 if self.method == "exact" else 10 * k + 200)


def chosen_method(methods: tuple[str, ...], method: str, automatic: str) -> str:
    """The method, or the automatic one for "auto"."""
    require_one_of(("auto", *methods), method=method)
    return automatic if method == "auto" else method


def chosen_leaves(
    method: str, leaves: int | None, leaves_to_search: int | None, count: int
) -> tuple[int | None, int | None]:
    """Number of cells, and number of cells to search; `(None, None)` if the method has no cells."""
    leaves, leaves_to_search = optional_whole(leaves, "leaves"), optional_whole(leaves_to_search, "leaves_to_search")
    if method != "partitioned":
        if leaves or leaves_to_search:
            raise ValueError(f"Received leaves for method={method!r}, which has none. Pass method='partitioned'.")
        return None, None
    leaves = leaves or max(1, round(count**0.5))
    leaves_to_search = leaves_to_search or -(-leaves // 4)
    if leaves > count or leaves_to_search > leaves:
        raise ValueError(
            f"Received leaves={leaves} and leaves_to_search={leaves_to_search}, expected "
            f"leaves_to_search <= leaves <= {count}, the number of vectors."
        )
    return leaves, leaves_to_search


def optional_whole(value: int | None, name: str) -> int | None:
    """A whole number of at least 1, or None."""
    if value is None:
        return None
    require_whole(name, value, 1)
    return int(value)


def rescored(scores: Any, rows: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Neighbors in the order of their exact scores, equal ones by row; NaN values stay NaN, at the end."""
    query, column = np.nonzero(~np.isnan(values))
    values[query, column] = scores.exact(query, rows[query, column])
    order = np.lexsort((rows, -values))
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(values, order, axis=1)


def _is_count_or_none(value):
    return value is None or (type(value) is int and 0 < value < 2**31)  # int32 in ScaNN
