"""Approximate nearest neighbors with ScaNN."""

import copy
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tfdml._core.atomic import read_whole
from tfdml._core.checks import require, require_whole
from tfdml.search.blocks import MEMORY
from tfdml.search.exact import exact_neighbors
from tfdml.search.index.base import Index
from tfdml.search.index.files import checked, read_manifest
from tfdml.search.index.items import Items
from tfdml.search.index.saved import read_items, read_settings, require_kind
from tfdml.search.index.segments import joined
from tfdml.search.recall import neighbor_recall, smallest
from tfdml.search.scores import require_range

_METHODS = ("auto", "exact", "quantized", "partitioned")
_BATCH = 16384  # Queries per call of ScaNN, which bounds the copies.
_NEIGHBORS = 2**23  # Neighbors per call of ScaNN, likewise.
_SPARE = 2  # Neighbors that are requested, over those expected to be enough where some must not be found.


class Scann(Index):
    """Approximate nearest neighbors with ScaNN, behind the interface of `Exact`.

    The number of vectors determines the method, following ScaNN's rules of thumb:

    * below 20,000 vectors `"exact"`: every vector is compared in float32;
    * below 100,000 `"quantized"`: all are scored from 4-bit codes of two dimensions each (asymmetric hashing), and the
      best `rescore` are scored again in float32;
    * from 100,000 `"partitioned"`: the same within the `leaves_to_search` nearest of `leaves` k-means cells.

    Euclidean scores are those of `Exact`, to the last bit; the others are ScaNN's float32 products.

    A query always gets `k` neighbors: where the searched cells hold fewer, that query is searched exactly. So are the
    vectors that were added since the index was built, until `rebuild`, and filters that few vectors pass.

    Args:
        vectors: `(n, dim)` floats, finite.
        ids: `(n,)` distinct ids, any int64, or text of up to 1,024 characters; row numbers by default.
        metric: "cosine" (vectors are normalized here; a zero vector has cosine 0 with everything), "dot" or
            "euclidean".
        metadata: columns with one row per vector, as for `Exact`.
        memory: bytes that exact search of a part may use.
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
        metadata: Any = None,
        memory: int = MEMORY,
        method: str = "auto",
        leaves: int | None = None,
        leaves_to_search: int | None = None,
        rescore: int | None = None,
    ):
        self._start(vectors, ids, metric, metadata, memory)
        self._build(method, leaves, leaves_to_search, rescore)

    def rebuild(
        self,
        *,
        method: str = "auto",
        leaves: int | None = None,
        leaves_to_search: int | None = None,
        rescore: int | None = None,
    ) -> None:
        """Builds ScaNN's part again, of all vectors: those added since are then no longer searched exactly.

        Args:
            method, leaves, leaves_to_search, rescore: as in the constructor; chosen for the present size by default.
        """
        self._build(method, leaves, leaves_to_search, rescore)

    def tune(
        self,
        recall: float = 0.95,
        *,
        k: int | None = None,
        queries: npt.ArrayLike | None = None,
        sample: int = 1000,
        seed: int = 0,
    ) -> float:
        """Chooses `rescore` and `leaves_to_search`: the fewest that reach a recall.

        First the fewest candidates with which searching all cells finds half of what the wanted recall lets be missed,
        then the fewest cells. Both are chosen on one half of the queries and measured on the other.

        Args:
            recall: wanted share of the exact neighbors, see `neighbor_recall`.
            k: number of neighbors per query; None: 10, or fewer where there are fewer.
            queries: `(q, dim)` floats, at least two, like those that will come; by default vectors of the index, each
                of which is not its own neighbor.
            sample: number of queries that are drawn, or fewer.
            seed: seed of the draw.

        Returns:
            the recall of the half that was not used to choose.

        Raises:
            ValueError: a recall outside (0, 1), or arguments that `search` refuses.
        """
        require(0 < recall < 1, f"recall={recall}", "a number between 0 and 1")
        k = min(10, len(self) - (queries is None)) if k is None else k
        asked, exact = self._questions(queries, k, sample, seed)

        def measured(half, rescore, leaves_to_search):
            trial = copy.copy(self)
            trial.rescore, trial.leaves_to_search = rescore, leaves_to_search
            return neighbor_recall(trial.search(asked[half::2], k + (queries is None))[0], exact[half::2])

        rescore = smallest(lambda n: measured(0, n, self.leaves) >= (1 + recall) / 2, k, len(self))
        leaves = self.leaves and smallest(lambda n: measured(0, rescore, n) >= recall, 1, self.leaves)
        self.rescore, self.leaves_to_search = rescore, leaves
        return measured(1, rescore, leaves)

    def _questions(self, queries, k, sample, seed):
        """Some queries, and the ids of their exact neighbors; vectors of the index are not their own neighbors."""
        given = None if queries is None else self._as_vectors(queries, name="queries")
        count = len(self) if given is None else len(given)
        require(min(count, sample) > 1, f"{min(count, sample)} queries", "at least two")
        rows = np.random.default_rng(seed).permutation(count)[:sample]
        if given is not None:
            return given[rows], self._search(self._exact_neighbors, given[rows], k)[0]
        ids = self.ids[rows]
        own = Items((self._items.take(ids),)).vectors
        found, _ = self._search(self._exact_neighbors, own, k + 1)
        return own, np.stack([row[row != id][:k] for row, id in zip(found, ids, strict=True)])

    @classmethod
    def load(cls, folder: str | PathLike, *, memory: int = MEMORY) -> Self:
        """Reads an index that `save` wrote; it finds the same neighbors with the same scores.

        Raises:
            FileNotFoundError: the folder holds no index, or files are missing.
            ImportError: ScaNN is not installed.
            ValueError: the index is damaged or of another kind.
        """
        return read_whole(folder, lambda place: cls.read(place, memory))

    @classmethod
    def read(cls, folder: Path, memory: int = MEMORY) -> Self:
        """As `load`, from a folder that no other process writes to at the same time."""
        manifest = read_manifest(folder)
        require_kind(manifest, cls.kind, folder)
        index = cls.__new__(cls)
        index.metric, index.dim, index.memory = *read_settings(folder, manifest), memory
        index.method = checked(folder, manifest, "method", lambda method: method in _METHODS[1:])
        for name in ("leaves", "leaves_to_search", "rescore"):
            setattr(index, name, checked(folder, manifest, name, _is_count_or_none))
        index._items = read_items(Path(folder).expanduser(), manifest, _load)
        return index

    def _build(self, method, leaves, leaves_to_search, rescore):
        """Builds the searcher of all vectors."""
        segment = joined(self._items.segments)
        gallery = segment.gallery
        method = _method(method, len(gallery))
        leaves, leaves_to_search = _leaves(method, leaves, leaves_to_search, len(gallery))
        rescore = _optional_whole(rescore, "rescore")
        if method != "exact":
            require_range(gallery.largest, gallery.largest, gallery.form.shape[1])
        searcher = _built(gallery, method, leaves, leaves_to_search)
        self.method, self.leaves, self.leaves_to_search, self.rescore = method, leaves, leaves_to_search, rescore
        self._items = Items((replace(segment, searcher=searcher, written={}),))

    def _neighbors(self, segment, allowed, queries, k):
        """ScaNN's neighbors in the segment that it was built of, exact ones in those added since."""
        count = len(segment.ids) if allowed is None else int(allowed.sum())
        candidates = (self.rescore or self._candidates(k)) * len(segment.ids) // count
        if segment.searcher is None or (allowed is not None and candidates >= count):
            return self._exact_neighbors(segment, allowed, queries, k)
        wanted = k if allowed is None else min(len(segment.ids), _SPARE * k * len(segment.ids) // count + 10)
        rows, values = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
        step = max(1, min(_BATCH, _NEIGHBORS // wanted))
        for start in range(0, len(queries), step):
            part = slice(start, start + step)
            rows[part], values[part] = self._asked(segment, allowed, queries[part], k, wanted, candidates)
        return rows, values

    def _asked(self, segment, allowed, queries, k, wanted, candidates):
        """The `k` first of the `wanted` neighbors that may be found; exact ones of queries that have fewer."""
        rows, values = self._ask(segment, queries, wanted, candidates)
        passed = ~np.isnan(values)  # ScaNN fills up with NaN where the cells held too few
        if allowed is not None:
            passed &= allowed[rows]
        best = np.argsort(~passed, axis=1, kind="stable")[:, :k]
        rows, values = np.take_along_axis(rows, best, axis=1), np.take_along_axis(values, best, axis=1)
        short = passed.sum(axis=1) < k
        if short.any():
            rows[short], values[short] = self._exact_neighbors(segment, allowed, queries[short], k)
        if not np.isfinite(values).all():
            raise ValueError(
                "ScaNN found scores that are not finite. Scale the vectors down, or build the index again."
            )
        return rows, values

    def _ask(self, segment, queries, wanted, candidates):
        candidates = min(len(segment.ids), max(wanted, candidates))
        scores = segment.gallery.scores(queries)
        queries = segment.gallery.shift(scores.queries)
        rows, values = segment.searcher.search_batched_parallel(queries, wanted, candidates, self.leaves_to_search)
        rows, values = rows.astype(np.int64), np.array(values)
        return _rescored(scores, rows, values) if self.metric == "euclidean" else (rows, values)

    def _exact_neighbors(self, segment, allowed, queries, k):
        return exact_neighbors(segment.gallery, allowed, queries, k, self.memory)

    def _candidates(self, k):
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
    """ScaNN's neighbors by their scores as `Exact` has them; those whose value is NaN stay NaN, at the end."""
    query, place = np.nonzero(~np.isnan(values))
    values[query, place] = scores.exact(query, rows[query, place])
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
    if method not in _METHODS:
        raise ValueError(f"Received method={method!r}, expected one of {', '.join(map(repr, _METHODS))}.")
    if method != "auto":
        return method
    return "exact" if count < 20_000 else "quantized" if count < 100_000 else "partitioned"


def _leaves(method, leaves, leaves_to_search, count):
    """Number of cells and of those to search; `(None, None)` where the method has no cells."""
    leaves, leaves_to_search = (
        _optional_whole(leaves, "leaves"),
        _optional_whole(leaves_to_search, "leaves_to_search"),
    )
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
