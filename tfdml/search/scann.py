"""Approximate nearest neighbors with ScaNN."""

import copy
from dataclasses import replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import require, require_one_of, require_whole
from tfdml.search.blocks import MEMORY, slices
from tfdml.search.exact import exact_neighbors
from tfdml.search.index.base import Index
from tfdml.search.index.files import checked
from tfdml.search.index.items import Items
from tfdml.search.index.segment_files import read_items
from tfdml.search.index.segments import joined
from tfdml.search.recall import neighbor_recall, smallest_sufficient
from tfdml.search.scores import require_range
from tfdml.typing import Metadata

_METHODS = ("auto", "exact", "quantized", "partitioned")
_BATCH = 16384  # Queries per call of ScaNN, which bounds the copies.
_NEIGHBORS = 2**23  # Neighbors per call of ScaNN, likewise.
_OVERSAMPLING = 2  # With a filter: requested neighbors, over the number that is expected to hold k allowed ones.


class Scann(Index):
    """Approximate nearest neighbors with ScaNN, behind the interface of `Exact`.

    The number of vectors determines the method, following ScaNN's rules of thumb:

    * below 20,000 vectors `"exact"`: every vector is compared in float32;
    * below 100,000 `"quantized"`: all are scored from 4-bit codes of two dimensions each (asymmetric hashing), and the
      best `rescore` are scored again in float32;
    * from 100,000 `"partitioned"`: the same within the `leaves_to_search` nearest of `leaves` k-means cells.

    Euclidean scores equal the scores of `Exact`, to the last bit; others are ScaNN's float32 products.

    A query always gets `k` neighbors: if the searched cells hold fewer, it is compared with every vector. Vectors that
    were added since the index was built are searched exactly until `rebuild`, and so are filters that few vectors pass.

    Args:
        vectors: `(n, dim)` floats, finite.
        ids: `(n,)` distinct ids, any int64, or text of up to 1,024 characters; row numbers by default.
        metric: "cosine" (vectors are normalized here; a zero vector has cosine 0 with everything), "dot" or
            "euclidean".
        metadata: columns with one row per vector, as for `Exact`.
        memory: bytes that an exact search may use.
        method: "auto", "exact", "quantized" or "partitioned".
        leaves: number of cells; the square root of n by default.
        leaves_to_search: number of cells searched per query, a quarter of them by default. Searching more cells is
            slower and raises the recall.
        rescore: number of candidates scored in float32 at the end; 10 k + 200 by default (k + 10 with "exact"),
            never fewer than k.

    Raises:
        ImportError: ScaNN is not installed.
        ValueError: vectors that are empty, not `(n, dim)` or not finite; ids that repeat or do not fit; a setting out
            of range.

    Source: Guo et al., Accelerating Large-Scale Inference with Anisotropic Vector Quantization, ICML 2020.
    """

    kind: ClassVar[str] = "scann"
    settings: ClassVar[tuple[str, ...]] = (*Index.settings, "method", "leaves", "leaves_to_search", "rescore")

    def __init__(
        self,
        vectors: npt.ArrayLike,
        ids: npt.ArrayLike | None = None,
        *,
        metric: str = "cosine",
        metadata: Metadata | None = None,
        memory: int = MEMORY,
        method: str = "auto",
        leaves: int | None = None,
        leaves_to_search: int | None = None,
        rescore: int | None = None,
    ):
        super().__init__(vectors, ids, metric=metric, metadata=metadata, memory=memory)
        self.rebuild(method=method, leaves=leaves, leaves_to_search=leaves_to_search, rescore=rescore)

    def rebuild(
        self,
        *,
        method: str = "auto",
        leaves: int | None = None,
        leaves_to_search: int | None = None,
        rescore: int | None = None,
    ) -> None:
        """Build ScaNN's searcher again, of all vectors, also those that were added since.

        Args:
            method, leaves, leaves_to_search, rescore: as in the constructor; chosen for the current size by default.
        """
        segment = joined(self._items.segments)
        gallery = segment.gallery
        method = _method(method, len(gallery))
        leaves, leaves_to_search = _leaves(method, leaves, leaves_to_search, len(gallery))
        rescore = _optional_whole(rescore, "rescore")
        if method != "exact":
            require_range(gallery.largest, gallery.largest, gallery.augmented.shape[1])
        searcher = _built(gallery, method, leaves, leaves_to_search)
        self.method, self.leaves, self.leaves_to_search, self.rescore = method, leaves, leaves_to_search, rescore
        self._items = Items((replace(segment, searcher=searcher, saved_files={}),))

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
        Both are chosen on one half of the queries and measured on the other.

        Args:
            recall: wanted share of the exact neighbors, see `neighbor_recall`.
            k: number of neighbors per query; None: 10, or fewer in a smaller index.
            queries: `(q, dim)` floats, at least two, like later queries; by default vectors of the index, each of which
                is not its own neighbor.
            sample: number of queries that are drawn, or fewer.
            seed: seed of the draw.

        Returns:
            the recall of the half that was not used to choose.

        Raises:
            ValueError: a recall outside (0, 1), or arguments that `search` refuses.
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
        self.method = checked(folder, manifest, "method", lambda method: method in _METHODS[1:])
        for name in ("leaves", "leaves_to_search", "rescore"):
            setattr(self, name, checked(folder, manifest, name, _is_count_or_none))
        self._items = read_items(folder, manifest, _load)

    def _neighbors(self, segment, allowed, queries, k):
        """ScaNN's neighbors in the segment with its searcher, exact neighbors in segments that were added since."""
        num_allowed = len(segment.ids) if allowed is None else int(allowed.sum())
        num_rescored = (self.rescore or self._default_rescore(k)) * len(segment.ids) // num_allowed
        if segment.searcher is None or (allowed is not None and num_rescored >= num_allowed):
            return self._exact_neighbors(segment, allowed, queries, k)
        num_requested = k
        if allowed is not None:
            num_requested = min(len(segment.ids), _OVERSAMPLING * k * len(segment.ids) // num_allowed + 10)
        rows, values = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
        for batch in slices(len(queries), max(1, min(_BATCH, _NEIGHBORS // num_requested))):
            nearest = self._approximate_neighbors(segment, queries[batch], num_requested, num_rescored)
            rows[batch], values[batch] = self._completed(segment, allowed, queries[batch], k, *nearest)
        return rows, values

    def _approximate_neighbors(self, segment, queries, num_requested, num_rescored):
        """Rows and values of ScaNN's neighbors, `(q, num_requested)`; NaN values at the end where it has fewer."""
        num_rescored = min(len(segment.ids), max(num_requested, num_rescored))
        scores = segment.gallery.scores(queries)
        centered = segment.gallery.shift(scores.queries)
        search = segment.searcher.search_batched_parallel
        rows, values = search(centered, num_requested, num_rescored, self.leaves_to_search)
        rows, values = rows.astype(np.int64), np.array(values)
        return _rescored(scores, rows, values) if self.metric == "euclidean" else (rows, values)

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
                "ScaNN returned scores that are not finite. Scale the vectors down, or build the index again."
            )
        return rows, values

    def _exact_neighbors(self, segment, allowed, queries, k):
        return exact_neighbors(segment.gallery, allowed, queries, k, self.memory)

    def _default_rescore(self, k):
        return k + 10 if self.method == "exact" else 10 * k + 200


def _pybind():
    """ScaNN's NumPy interface."""
    try:
        from scann import scann_ops_pybind
    except Exception as error:  # Operations built for another TensorFlow raise one of TensorFlow's own errors.
        raise ImportError(
            f"tfdml.search.Scann needs ScaNN, which did not import ({error}). ScaNN 1.4 requires TensorFlow "
            "2.20, on Linux and Python 3.11 to 3.13. Run: pip install tfdml[scann], which brings both. "
            "tfdml.search.Exact needs no further package."
        ) from error
    return scann_ops_pybind


def _built(gallery, method, leaves, leaves_to_search):
    vectors = np.ascontiguousarray(gallery.centered)
    distance = "squared_l2" if gallery.metric == "euclidean" else "dot_product"
    builder = _pybind().builder(vectors, min(10, len(vectors)), distance)
    if method == "partitioned":
        builder = builder.tree(num_leaves=leaves, num_leaves_to_search=leaves_to_search)
    if method == "exact":
        builder = builder.score_brute_force()
    else:
        builder = builder.score_ah(2, anisotropic_quantization_threshold=0.2)
    # Brute force is rescored too: ScaNN computes Euclidean distances from products, which are inaccurate near 0.
    return builder.reorder(min(300, len(vectors))).build()


def _rescored(scores, rows, values):
    """ScaNN's neighbors in the order of their exact scores; NaN values stay NaN, at the end."""
    query, column = np.nonzero(~np.isnan(values))
    values[query, column] = scores.exact(query, rows[query, column])
    order = np.argsort(-values, axis=1, kind="stable")
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(values, order, axis=1)


def _load(folder):
    # ScaNN would unpickle this file. save() never writes it.
    if (folder / "scann_docids.pkl").exists():
        raise ValueError("The index holds scann_docids.pkl, which save() never writes. Do not load it.")
    load = _pybind().load_searcher
    try:
        return load(str(folder))
    except Exception as error:  # Each damage fails in its own way.
        raise ValueError(f"{str(folder)!r} is damaged: {error}. Build the index again, and save it.") from error


def _is_count_or_none(value):
    return value is None or (type(value) is int and 0 < value < 2**31)  # int32 in ScaNN


def _method(method, count):
    require_one_of(_METHODS, method=method)
    if method != "auto":
        return method
    return "exact" if count < 20_000 else "quantized" if count < 100_000 else "partitioned"


def _leaves(method, leaves, leaves_to_search, count):
    """Number of cells, and number of cells to search; `(None, None)` if the method has no cells."""
    leaves = _optional_whole(leaves, "leaves")
    leaves_to_search = _optional_whole(leaves_to_search, "leaves_to_search")
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


def _optional_whole(value, name):
    if value is None:
        return None
    require_whole(name, value, 1)
    return int(value)
