"""Approximate nearest neighbors with ScaNN."""

from os import PathLike
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from tfdml._atomic import read_whole
from tfdml._checks import as_vectors, require_metric, require_whole
from tfdml.search.exact import as_item_ids, as_queries, read_ids, read_settings, require_kind
from tfdml.search.files import checked, read_manifest, write_index
from tfdml.search.scores import l2_normalize, require_range

_METHODS = ("auto", "exact", "quantized", "partitioned")
_BATCH = 16384  # Queries per call of ScaNN, which bounds the copies.


class Scann:
    """Approximate nearest neighbors with ScaNN, behind the interface of `Exact`.

    The number of vectors determines the method, following ScaNN's rules of thumb:

    * below 20,000 vectors `"exact"`: every vector is compared in float32;
    * below 100,000 `"quantized"`: all are scored from 4-bit codes of two dimensions each (asymmetric hashing), and the
      best `rescore` are scored again in float32;
    * from 100,000 `"partitioned"`: the same within the `leaves_to_search` nearest of `leaves` k-means cells.

    A query always gets `k` neighbors: where the searched cells hold fewer, all cells are searched for that query.

    Args:
        vectors: `(n, dim)` floats, finite.
        ids: `(n,)` distinct integers, any int64; row numbers by default.
        metric: "cosine" (vectors are normalized here; a zero vector has cosine 0 with everything), "dot" or
            "euclidean".
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

    def __init__(
        self,
        vectors: npt.ArrayLike,
        ids: npt.ArrayLike | None = None,
        *,
        metric: str = "cosine",
        method: str = "auto",
        leaves: int | None = None,
        leaves_to_search: int | None = None,
        rescore: int | None = None,
    ):
        require_metric(metric)
        vectors = as_vectors(vectors, "vectors")
        self.ids = as_item_ids(ids, len(vectors))
        self.metric = metric
        self.dim = vectors.shape[1]
        self.method = _method(method, len(vectors))
        self.leaves, self.leaves_to_search = _leaves(self.method, leaves, leaves_to_search, len(vectors))
        self.rescore = _optional_whole(rescore, "rescore")
        self._largest = _largest(vectors)
        if self.method != "exact":
            self._require_range(self._largest)
        self._searcher = _build(l2_normalize(vectors) if metric == "cosine" else vectors, self)

    def __len__(self) -> int:
        return len(self.ids)

    def search(self, queries: npt.ArrayLike, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Finds approximately the `k` nearest vectors of every query.

        Args:
            queries: `(q, dim)` floats, finite; `q` may be 0.
            k: number of neighbors, 1 to `len(self)`.

        Returns:
            ids: `(q, k)` int64, nearest first, no id twice in a row; the order of equal scores is ScaNN's.
            scores: `(q, k)` float32. Cosine and dot product fall along a row; Euclidean distances rise.

        Raises:
            ValueError: queries of a different dim or not finite; k out of range; scores beyond the range of float32.
        """
        queries = as_queries(self, queries, k)
        self._require_range(_largest(queries))
        rows = np.empty((len(queries), k), np.int64)
        scores = np.empty((len(queries), k), np.float32)
        for start in range(0, len(queries), _BATCH):
            part = slice(start, start + _BATCH)
            rows[part], scores[part] = self._search(queries[part], int(k))
        return self.ids[rows], scores

    def save(self, folder: str | PathLike) -> None:
        """Writes the index to a folder that `load` reads: `.npy`, JSON and ScaNN's own files, written atomically.

        Raises:
            OSError: the folder cannot be written, or holds anything other than an index.
        """
        settings = {name: getattr(self, name) for name in ("metric", "dim", "method", "leaves", "leaves_to_search")}

        def write_searcher(unfinished):
            (unfinished / "scann").mkdir()
            self._searcher.serialize(str(unfinished / "scann"), relative_path=True)

        settings |= {"rescore": self.rescore, "largest": self._largest}
        write_index(folder, {"kind": "scann", **settings}, {"ids": self.ids}, write_searcher)

    @classmethod
    def load(cls, folder: str | PathLike) -> Self:
        """Reads an index that `save` wrote; it finds the same neighbors with the same scores.

        Raises:
            FileNotFoundError: the folder holds no index, or files are missing.
            ImportError: ScaNN is not installed.
            ValueError: the index is damaged or of another kind.
        """
        return read_whole(folder, cls.read)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """As `load`, from a folder that no other process writes to at the same time."""
        manifest = read_manifest(folder)
        require_kind(manifest, "scann", folder)
        index = cls.__new__(cls)
        index.metric, index.dim = read_settings(folder, manifest)
        index.ids = read_ids(folder)
        index.method = checked(folder, manifest, "method", lambda method: method in _METHODS[1:])
        for name in ("leaves", "leaves_to_search", "rescore"):
            setattr(index, name, checked(folder, manifest, name, lambda n: n is None or (type(n) is int and n > 0)))
        index._largest = manifest.get("largest", 0.0)  # Missing in older indexes.
        index._searcher = _load(folder)
        if index._searcher.size() != len(index):
            raise ValueError(f"The index in {str(folder)!r} is damaged: its files do not fit together. Save it again.")
        return index

    def _require_range(self, largest):
        """Raises `ValueError` if a score of a vector with this largest entry could leave the range of float32."""
        if self.metric == "dot":
            require_range(largest, self._largest, self.dim)
        elif self.metric == "euclidean":
            require_range(largest + self._largest, largest + self._largest, self.dim)

    def _search(self, queries, k):
        if self.metric == "cosine":
            queries = l2_normalize(queries)
        rows, scores = self._ask(queries, k, self.leaves_to_search)
        short = np.isnan(scores).any(axis=1)  # ScaNN fills up with NaN where the cells held too few
        if short.any():
            rows[short], scores[short] = self._ask(queries[short], k, self.leaves)
        if not np.isfinite(scores).all():
            raise ValueError(
                "ScaNN found scores that are not finite. Scale the vectors down, or build the index again."
            )
        return rows, np.sqrt(np.maximum(scores, 0)) if self.metric == "euclidean" else scores

    def _ask(self, queries, k, leaves_to_search):
        candidates = self.rescore or (k + 10 if self.method == "exact" else 10 * k + 200)
        candidates = min(len(self), max(k, candidates))
        rows, scores = self._searcher.search_batched_parallel(queries, k, candidates, leaves_to_search)
        return rows.astype(np.int64), np.array(scores)


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


def _largest(vectors):
    return float(np.abs(vectors).max(initial=0))


def _build(vectors, index):
    distance = "squared_l2" if index.metric == "euclidean" else "dot_product"
    builder = _pybind().builder(vectors, min(10, len(vectors)), distance)
    if index.method == "partitioned":
        builder = builder.tree(num_leaves=index.leaves, num_leaves_to_search=index.leaves_to_search)
    if index.method == "exact":
        builder = builder.score_brute_force()
    else:
        builder = builder.score_ah(2, anisotropic_quantization_threshold=0.2)
    # Brute force is rescored too: ScaNN computes Euclidean distances from products, which are inaccurate near 0.
    return builder.reorder(min(300, len(vectors))).build()


def _load(folder):
    folder = Path(folder).expanduser() / "scann"
    # ScaNN would unpickle this file. save() never writes it.
    if (folder / "scann_docids.pkl").exists():
        raise ValueError("The index holds scann_docids.pkl, which save() never writes. Do not load it.")
    return _pybind().load_searcher(str(folder))


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
