"""Exact nearest neighbors."""

from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tfdml._atomic import read_whole
from tfdml._checks import METRICS, as_ids, as_vectors, require_metric, require_whole
from tfdml.search.blocks import MEMORY, for_blocks
from tfdml.search.files import checked, read_array, read_manifest, write_index
from tfdml.search.nearest import nearest
from tfdml.search.scores import Gallery


class Exact:
    """Exact nearest neighbors: every query is compared with every vector.

    The score of a pair depends only on its two vectors, to the last bit, not on memory, threads, other queries or
    the position of a vector. Time grows with queries x vectors x dim, memory with vectors x dim.

    Args:
        vectors: `(n, dim)` floats, finite. They are copied.
        ids: `(n,)` distinct integers, any int64; row numbers by default.
        metric: "cosine" (vectors are normalized here; a zero vector has cosine 0 with everything), "dot" or
            "euclidean".
        memory: bytes that a search may use in addition to the index and the results.

    Raises:
        ValueError: vectors that are empty, not `(n, dim)` or not finite; ids that repeat or do not fit.
    """

    def __init__(
        self,
        vectors: npt.ArrayLike,
        ids: npt.ArrayLike | None = None,
        *,
        metric: str = "cosine",
        memory: int = MEMORY,
    ):
        require_metric(metric)
        vectors = as_vectors(vectors, "vectors")
        self.ids = as_item_ids(ids, len(vectors))
        self.metric = metric
        self.dim = vectors.shape[1]
        self.memory = memory
        self._gallery = Gallery(vectors.copy() if metric == "dot" else vectors, metric)

    def __len__(self) -> int:
        return len(self.ids)

    def search(self, queries: npt.ArrayLike, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Finds the `k` nearest vectors of every query.

        Args:
            queries: `(q, dim)` floats, finite; `q` may be 0.
            k: number of neighbors, 1 to `len(self)`.

        Returns:
            ids: `(q, k)` int64, nearest first; vectors with the same score are in the order of the index.
            scores: `(q, k)` float32. Cosine and dot product fall along a row; Euclidean distances rise.

        Raises:
            ValueError: queries of a different dim or not finite; k out of range; scores beyond the range of float32.
        """
        queries = as_queries(self, queries, k)
        scores = self._gallery.scores(queries)
        rows = np.empty((len(queries), k), np.int64)
        values = np.empty((len(queries), k), np.float32)

        def search(part, block):
            rows[part], values[part] = nearest(scores, k, part, block)

        needs = {"memory": self.memory, "row_bytes": 2 * len(self) + 48 * k, "thread_bytes": 20 * len(self)}
        for _ in for_blocks(search, len(queries), len(self), **needs):
            pass
        return self.ids[rows], -values if self.metric == "euclidean" else values

    def save(self, folder: str | PathLike) -> None:
        """Writes the index to a folder that `load` reads: `.npy` and JSON files, written atomically.

        Raises:
            OSError: the folder cannot be written, or holds anything other than an index.
        """
        arrays = {"ids": self.ids, "gallery": self._gallery.form}
        if self.metric == "euclidean":
            arrays["center"] = self._gallery.center
        write_index(folder, {"kind": "exact", "metric": self.metric, "dim": self.dim}, arrays)

    @classmethod
    def load(cls, folder: str | PathLike, *, memory: int = MEMORY) -> Self:
        """Reads an index that `save` wrote; it finds the same neighbors with the same scores.

        Raises:
            FileNotFoundError: the folder holds no index, or files are missing.
            ValueError: the index is damaged or of another kind.
        """
        return read_whole(folder, lambda place: cls.read(place, memory))

    @classmethod
    def read(cls, folder: Path, memory: int = MEMORY) -> Self:
        """As `load`, from a folder that no other process writes to at the same time."""
        manifest = read_manifest(folder)
        require_kind(manifest, "exact", folder)
        index = cls.__new__(cls)
        index.metric, index.dim, index.memory = *read_settings(folder, manifest), memory
        index.ids = read_ids(folder)
        width = index.dim + (index.metric == "euclidean")
        form = read_array(folder, "gallery", np.float32, (len(index), width))
        center = read_array(folder, "center", np.float32, (index.dim,)) if index.metric == "euclidean" else None
        index._gallery = Gallery.from_form(form, index.metric, center)
        if not index._gallery.is_sound():
            raise ValueError(f"gallery.npy in {str(folder)!r} is damaged: its lengths are wrong. Save the index again.")
        return index


def read_settings(folder: Path, manifest: dict[str, Any]) -> tuple[str, int]:
    """Metric and dim of an index folder, checked."""
    metric = checked(folder, manifest, "metric", lambda metric: metric in METRICS)
    return metric, checked(folder, manifest, "dim", lambda dim: type(dim) is int and dim > 0)


def read_ids(folder: Path) -> np.ndarray:
    """Ids of an index folder, checked: `(n,)` int64."""
    ids = read_array(folder, "ids", np.int64, (None,))
    return as_item_ids(ids, len(ids))


def as_item_ids(ids: npt.ArrayLike | None, count: int) -> np.ndarray:
    """Checks the ids of an index of `count` vectors: `(count,)` int64, row numbers where `ids` is None."""
    if count == 0:
        raise ValueError("Received no vectors, expected at least one.")
    if ids is None:
        return np.arange(count)
    ids = as_ids(ids, "ids", count)
    distinct, counts = np.unique(ids, return_counts=True)
    if len(distinct) < count:
        raise ValueError(f"Received ids that repeat, such as {distinct[counts.argmax()]}. Give every vector its own.")
    return ids


def as_queries(index: Any, queries: npt.ArrayLike, k: int) -> np.ndarray:
    """Checks the arguments of a search and returns the queries as float32."""
    queries = as_vectors(queries, "queries")
    if queries.shape[1] != index.dim:
        raise ValueError(f"Received queries of dim {queries.shape[1]}, expected {index.dim} as in the index.")
    require_whole("k", k, 1, len(index))
    return queries


def require_kind(manifest: dict[str, Any], kind: str, folder: str | PathLike) -> None:
    """Raises `ValueError` unless the manifest is of this kind of index."""
    if manifest.get("kind") != kind:
        raise ValueError(
            f"Received folder={str(folder)!r} with an index of kind {manifest.get('kind')!r}, expected {kind!r}. "
            "tfdml.search.load picks the right class."
        )
