"""Nearest neighbors inside a graph: settings, and the TensorFlow modules that they build.

A searcher is a `tf.Module`, a function from embeddings `(batch, dim)` float32 to rows of the vectors `(batch, k)` int32
and scores `(batch, k)` float32, nearest first. Its vectors are variables, so a SavedModel keeps them in its checkpoint,
outside the graph, which may have 2 GB only.
"""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from tfdml._core.checks import require, require_whole
from tfdml.export.graph_search.cells import center_ranks, k_means

DTYPES = ("float32", "bfloat16", "int8")
_GROUP = 32  # scores whose maximum is taken first
_BLOCK = 2**17  # vectors that are compared at the same time
_CANDIDATE_BYTES = 2**26  # bytes of the candidates that are compared at the same time
_PER_CELL = 64  # vectors that train one cell
_SAMPLE = 1000  # vectors that take the place of queries where the number of probes is chosen
_SCANN_STATE = (
    "dataset",
    "scann_config",
    "serialized_partitioner",
    "datapoint_to_token",
    "ah_codebook",
    "hashed_dataset",
    "int8_dataset",
    "int8_multipliers",
    "dp_norms",
)
_LOWEST = float(np.finfo(np.float32).min)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExactSearch:
    """Search of a SavedModel that compares a query with every vector, in operations of TensorFlow alone.

    With `dtype="float32"` it finds what `tfdml.search.Exact` finds, except that scores are summed in float32: two
    vectors whose scores differ in the last bits may change places. `"bfloat16"` and `"int8"` take half and a quarter of
    the space; scores are those of the rounded vectors. An int8 vector is 127 steps of its largest entry.

    Args:
        k: number of neighbors of each image; None: 10, or all vectors of a smaller index. A request cannot change it,
            so that servers can batch requests.
        dtype: type of the stored vectors.

    Raises:
        ValueError: another dtype, or a k that is not a whole number of at least 1.
    """

    k: int | None = None
    dtype: str = "float32"

    def __post_init__(self) -> None:
        _require_settings(self.k, self.dtype)

    def searcher(self, vectors: np.ndarray, metric: str) -> tf.Module:
        """The module that searches `(n, dim)` float32 vectors."""
        return _Exact(Space(vectors, metric), neighbor_count(self.k, len(vectors)), self.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionedSearch:
    """Search of a SavedModel that visits the cells nearest to a query, in operations of TensorFlow alone.

    k-means divides the vectors into cells. A query is compared with the centers of all cells, and with the vectors of
    the `probes` nearest cells, whose scores are those of `ExactSearch`. Every query gets k neighbors: there are never
    fewer probes than the smallest cells need to hold k vectors.

    Args:
        k: number of neighbors of each image; None: 10, or all vectors of a smaller index.
        dtype: type of the stored vectors, as in `ExactSearch`.
        cells: number of cells; None: four times the square root of the number of vectors, at most a 16th of them.
        probes: number of cells that a query visits; None: as many as `recall` needs.
        recall: share of the k exact neighbors to find, measured with up to 1,000 vectors of the index as queries, each
            without itself, which did not train the cells. Queries that differ from the vectors find fewer: measure with
            your own, and raise `probes`.
        seed: of k-means and of the sample.

    Raises:
        ValueError: a setting out of range.
    """

    k: int | None = None
    dtype: str = "float32"
    cells: int | None = None
    probes: int | None = None
    recall: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        _require_settings(self.k, self.dtype)
        for name in ("cells", "probes"):
            if getattr(self, name) is not None:
                require_whole(name, getattr(self, name), 1)
        require(0 < self.recall <= 1, f"recall={self.recall!r}", "a share above 0 and up to 1")

    def searcher(self, vectors: np.ndarray, metric: str) -> tf.Module:
        """The module that searches `(n, dim)` float32 vectors."""
        space = Space(vectors, metric)
        count = max(1, min(round(4 * len(vectors) ** 0.5), len(vectors) // 16)) if self.cells is None else self.cells
        require(count <= len(vectors), f"cells={count} for {len(vectors)} vectors", "at most one cell per vector")
        require(self.probes is None or self.probes <= count, f"probes={self.probes} of {count} cells", "fewer probes")
        rows = np.random.default_rng(self.seed).permutation(len(vectors))
        train, sample = np.split(rows, [max(count, len(rows) - min(_SAMPLE, len(rows) // 10))])
        cells = k_means(space.vectors, space.vectors[train[: _PER_CELL * count]], count)
        k = neighbor_count(self.k, len(vectors))
        probes = _probes_for(space, cells, sample, k, self.recall) if self.probes is None else self.probes
        while cells.fewest(probes) < k:
            probes += 1
        return _Partitioned(space, cells, probes, k, self.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScannSearch:
    """Search of a SavedModel by the operations of ScaNN: cells, 4-bit codes, and rescoring in float32.

    Programs that load the model need these operations: Python with `import scann` before loading, or a server that was
    built with them. Stock TensorFlow Serving does not have them.

    Args:
        k: number of neighbors of each image.
        leaves: number of cells; None: the square root of the number of vectors.
        leaves_to_search: number of cells that a query visits; None: a quarter of them. A query whose cells hold fewer
            than k vectors visits all.
        rescore: number of candidates that are scored in float32 at the end; None: 10 k + 200.

    Raises:
        ValueError: a setting out of range.

    Source: Guo et al., Accelerating Large-Scale Inference with Anisotropic Vector Quantization, ICML 2020.
    """

    k: int = 10
    leaves: int | None = None
    leaves_to_search: int | None = None
    rescore: int | None = None

    def __post_init__(self) -> None:
        require_whole("k", self.k, 1)
        for name in ("leaves", "leaves_to_search", "rescore"):
            if getattr(self, name) is not None:
                require_whole(name, getattr(self, name), 1)

    def searcher(self, vectors: np.ndarray, metric: str) -> tf.Module:
        """The module that searches `(n, dim)` float32 vectors.

        Raises:
            ImportError: ScaNN does not fit the installed TensorFlow.
            ValueError: fewer than 1,000 vectors, or more leaves than vectors.
        """
        count = len(vectors)
        require(count >= 1000, f"{count} vectors for ScannSearch", "at least 1,000. Use ExactSearch")
        leaves = self.leaves or round(count**0.5)
        visited = self.leaves_to_search or -(-leaves // 4)
        require(visited <= leaves <= count, f"leaves={leaves}, leaves_to_search={visited}", "no more than vectors")
        rescore = min(count, max(self.k, self.rescore or 10 * self.k + 200))
        return _Scann(Space(vectors, metric), self.k, leaves, visited, rescore)


Search = ExactSearch | PartitionedSearch | ScannSearch

_NAMED: dict[Any, Any] = {
    None: ExactSearch,
    "exact": ExactSearch,
    "partitioned": PartitionedSearch,
    "scann": ScannSearch,
}


def as_search(search: Any) -> Search:
    """A search by its name "exact", "partitioned" or "scann", `ExactSearch()` for None, or the search itself.

    Raises:
        ValueError: anything else.
    """
    is_name = search is None or (isinstance(search, str) and search in _NAMED)
    found = _NAMED[search]() if is_name else search
    names = "'exact', 'partitioned', 'scann', an ExactSearch, PartitionedSearch, ScannSearch or None"
    require(isinstance(found, Search), f"search={search!r}", names)
    return found


def neighbor_count(k: int | None, count: int) -> int:
    """The number of neighbors in an index of `count` vectors."""
    return min(10, count) if k is None else k


def _require_settings(k, dtype):
    if k is not None:
        require_whole("k", k, 1)
    require(dtype in DTYPES, f"dtype={dtype!r}", f"one of {', '.join(map(repr, DTYPES))}")


class Space(tf.Module):
    """Vectors and queries in the form whose products rank as the metric does.

    cosine: g / |g|; dot: g; euclidean: g - c with the mean c, and the offset -|g - c|^2 / 2. A product plus its offset
    ranks as the score: for euclidean it is |q - c|^2 / 2 - |q - g|^2 / 2.

    Attributes:
        vectors: `(n, dim)` float32, an array.
    """

    def __init__(self, vectors: np.ndarray, metric: str):
        super().__init__()
        self.metric = metric
        self.center = tf.Variable(vectors.mean(axis=0, dtype=np.float64).astype(np.float32), trainable=False)
        self.vectors = vectors
        if metric == "cosine":
            length = np.linalg.norm(vectors, axis=1, keepdims=True)
            self.vectors = vectors / np.where(length > 0, length, 1)
        if metric == "euclidean":
            self.vectors = vectors - self.center.numpy()

    def offsets(self, vectors: np.ndarray) -> np.ndarray:
        """What is added to the products with vectors of this space: `(n,)` float32."""
        if self.metric == "euclidean":
            return -0.5 * np.einsum("nd,nd->n", vectors, vectors)
        return np.zeros(len(vectors), np.float32)

    def queries(self, embeddings: Any) -> Any:
        """`(batch, dim)` embeddings in this space."""
        if self.metric == "cosine":
            length = tf.norm(embeddings, axis=1, keepdims=True)
            return tf.math.divide_no_nan(embeddings, length)
        return embeddings - self.center if self.metric == "euclidean" else embeddings

    def scores(self, queries: Any, vectors: Any) -> Any:
        """`(batch, k)` scores of queries with `(batch, k, dim)` vectors: larger is nearer."""
        if self.metric == "euclidean":
            return -tf.norm(queries[:, None] - vectors, axis=2)
        return tf.linalg.matvec(vectors, queries)

    def shown(self, scores: Any) -> Any:
        """Scores as `tfdml.search` has them: distances are positive."""
        return -scores if self.metric == "euclidean" else scores


class Stored(tf.Module):
    """Vectors in a storage type: codes, and for int8 the step of each vector."""

    def __init__(self, vectors: np.ndarray, dtype: str):
        super().__init__()
        self.steps = None
        if dtype == "int8":
            steps = np.abs(vectors).max(axis=1) / np.float32(127)
            steps = np.where(steps > 0, steps, np.float32(1))
            vectors = np.rint(vectors / steps[:, None])
            self.steps = tf.Variable(steps, trainable=False)
        self.codes = tf.Variable(tf.cast(vectors, dtype), trainable=False)

    def take(self, rows: Any) -> Any:
        """`(..., dim)` float32 vectors of some rows."""
        # A gather from the variable itself would make every later read of it a copy.
        found = tf.cast(tf.gather(tf.convert_to_tensor(self.codes), rows), tf.float32)
        return found if self.steps is None else found * tf.gather(tf.convert_to_tensor(self.steps), rows)[..., None]

    def products(self, queries: Any) -> Any:
        """`(batch, n)` products of queries with all vectors."""
        found = tf.matmul(queries, tf.cast(self.codes, tf.float32), transpose_b=True)
        return found if self.steps is None else found * self.steps


class _Exact(tf.Module):
    """The best of each block of the vectors, and of all blocks together."""

    def __init__(self, space, k, dtype):
        super().__init__()
        self.space, self.k, self.settings = space, k, {}
        blocks = np.array_split(space.vectors, -(-len(space.vectors) // _BLOCK))
        starts = np.cumsum([0, *map(len, blocks)])
        self._blocks = [_Block(space, block, start, k, dtype) for block, start in zip(blocks, starts, strict=False)]

    def __call__(self, embeddings: Any) -> tuple[Any, Any]:
        """One block after the other, since each needs much memory."""
        queries = self.space.queries(embeddings)
        found: list[tuple[Any, Any]] = []
        for block in self._blocks:
            with tf.control_dependencies(found[-1] if found else []):
                found.append(block(queries))
        scores, rows = (tf.concat(parts, axis=1) for parts in zip(*found, strict=True))
        scores, place = tf.math.top_k(scores, self.k)
        return tf.gather(rows, place, batch_dims=1), self.space.shown(scores)


class _Block(tf.Module):
    """Products with some of the vectors, in variables of their own: a slice of a variable would be copied."""

    def __init__(self, space, vectors, start, k, dtype):
        super().__init__()
        self.space, self._start, self._k = space, int(start), min(k, len(vectors))
        padding = -len(vectors) % _GROUP
        self._width = len(vectors) + padding
        self._stored = Stored(np.pad(vectors, ((0, padding), (0, 0))), dtype)
        offsets = np.pad(space.offsets(vectors), (0, padding), constant_values=_LOWEST)
        self._offsets = tf.Variable(offsets, trainable=False)

    def __call__(self, queries: Any) -> tuple[Any, Any]:
        """Scores and rows of the best, `(batch, k or all)` each."""
        found = tf.nn.bias_add(self._stored.products(queries), self._offsets)
        places = _best_places(found, self._k, self._width)
        scores, places = _rescored(self.space, self._stored, queries, places)
        return scores, self._start + places


class _Partitioned(tf.Module):
    """Products with the centers; then the vectors of the nearest cells."""

    def __init__(self, space, cells, probes, k, dtype):
        super().__init__()
        self.space, self.k, self._probes = space, k, probes
        self.settings = {"cells": len(cells.centers), "probes": probes}
        ordered = np.pad(space.vectors[cells.order], ((0, 1), (0, 0)))  # the last row takes the place of none
        self._stored = Stored(ordered, dtype)
        self._none = len(cells.order)
        self._offsets = tf.Variable(np.append(space.offsets(ordered[:-1]), np.float32(_LOWEST)), trainable=False)
        self._order = tf.Variable(cells.order.astype(np.int32), trainable=False)
        self._centers = tf.Variable(cells.centers, trainable=False)
        self._center_offsets = tf.Variable(space.offsets(cells.centers), trainable=False)
        self._starts = tf.Variable(cells.starts.astype(np.int32), trainable=False)
        mean = probes * len(cells.order) / len(cells.centers)
        self._step = max(1, int(_CANDIDATE_BYTES / (4 * mean * ordered.shape[1])))

    def __call__(self, embeddings: Any) -> tuple[Any, Any]:
        """As many queries at the same time as memory allows."""
        queries = self.space.queries(embeddings)
        batch = tf.shape(queries)[0]
        step = tf.minimum(self._step, batch)
        parts = -(-batch // step)
        padded = tf.pad(queries, [[0, parts * step - batch], [0, 0]])
        parted = tf.reshape(padded, (parts, step, queries.shape[1]))
        types = (tf.float32, tf.int32)
        scores, rows = tf.map_fn(self._search, parted, fn_output_signature=types, parallel_iterations=1)
        scores, rows = (tf.reshape(found, (-1, self.k))[:batch] for found in (scores, rows))
        return rows, self.space.shown(scores)

    def _search(self, queries):
        candidates = self._candidates(queries)
        found = tf.linalg.matvec(self._stored.take(candidates), queries) + tf.gather(self._offsets, candidates)
        _, place = tf.math.top_k(found, self.k)
        places = tf.gather(candidates, place, batch_dims=1)
        scores, places = _rescored(self.space, self._stored, queries, places)
        return scores, tf.gather(self._order, places)

    def _candidates(self, queries):
        """Places of the vectors in the nearest cells of each query, `(batch, most)`, filled up with `_none`."""
        visits = tf.matmul(queries, self._centers, transpose_b=True) + self._center_offsets
        _, cells = tf.math.top_k(visits, self._probes, sorted=False)
        ends = tf.reshape(tf.gather(self._starts, cells + 1), [-1])
        places = tf.ragged.range(tf.reshape(tf.gather(self._starts, cells), [-1]), ends)
        of_queries = places.row_splits[:: self._probes]
        return tf.RaggedTensor.from_row_splits(places.values, of_queries, validate=False).to_tensor(self._none)


class _Scann(tf.Module):
    """ScaNN's searcher, which each process builds from its state at the first request."""

    def __init__(self, space, k, leaves, visited, rescore):
        super().__init__()
        self.space, self.k, self._operations = space, k, _scann_operations()
        self.settings = {"leaves": leaves, "leaves_to_search": visited, "rescore": rescore}
        distance = "squared_l2" if space.metric == "euclidean" else "dot_product"
        builder = self._operations.builder(space.vectors, k, distance).tree(leaves, visited)
        builder = builder.score_ah(2, anisotropic_quantization_threshold=0.2).reorder(rescore)
        self._state = builder.build().serialize_to_module()

    def __call__(self, embeddings: Any) -> tuple[Any, Any]:
        queries = self.space.queries(embeddings)
        handle = self._operations.tensors_to_scann(*(getattr(self._state, name) for name in _SCANN_STATE))
        searcher = self._operations.ScannSearcher(handle)
        rows, scores = self._ask(searcher, queries, self.settings["leaves_to_search"])
        short = tf.reduce_any(tf.math.is_nan(scores), axis=1, keepdims=True)  # the cells held fewer than k
        everywhere = lambda: self._ask(searcher, queries, self.settings["leaves"])  # noqa: E731
        all_rows, all_scores = tf.cond(tf.reduce_any(short), everywhere, lambda: (rows, scores))
        rows, scores = tf.where(short, all_rows, rows), tf.where(short, all_scores, scores)
        return rows, tf.sqrt(tf.maximum(scores, 0.0)) if self.space.metric == "euclidean" else scores

    def _ask(self, searcher, queries, leaves):
        """Rows and scores, filled up with NaN."""
        rows, scores = searcher.search_batched(queries, self.k, self.settings["rescore"], leaves)
        missing = [[0, 0], [0, self.k - tf.shape(scores)[1]]]
        rows = tf.pad(tf.cast(rows, tf.int32), missing)
        scores = tf.pad(scores, missing, constant_values=float("nan"))
        return tf.ensure_shape(rows, (None, self.k)), tf.ensure_shape(scores, (None, self.k))


def _scann_operations():
    try:
        from scann import scann_ops
    except Exception as error:  # Operations built for another TensorFlow raise one of TensorFlow's own errors.
        raise ImportError(
            f"ScannSearch needs ScaNN, which did not import ({error}). ScaNN 1.4 requires TensorFlow 2.20, on Linux. "
            "Run: pip install tfdml[scann], which brings both. PartitionedSearch needs no further package."
        ) from error
    return scann_ops


def _probes_for(space, cells, sample, k, recall):
    """The fewest probes with which some of the vectors, as queries, find this share of their neighbors.

    Args:
        sample: `(q,)` rows of the vectors. Without any, all cells are visited.
    """
    if not len(sample):
        return len(cells.centers)
    queries = space.vectors[sample]
    found = _neighbors(space, queries, k + 1)
    ranks = center_ranks(queries, cells, found, space.offsets(cells.centers))[found != sample[:, None]]
    return int(np.sort(ranks)[int(np.ceil(recall * len(ranks))) - 1]) + 1


def _neighbors(space, queries, k):
    """Rows of the nearest vectors, `(q, k)`, in blocks of queries."""
    k = min(k, len(space.vectors))
    offsets, step = space.offsets(space.vectors), max(1, 2**25 // len(space.vectors))
    blocks = [queries[start : start + step] for start in range(0, len(queries), step)]
    kth = len(space.vectors) - k
    parts = [np.argpartition(block @ space.vectors.T + offsets, kth, axis=1)[:, kth:] for block in blocks]
    return np.concatenate(parts)


def _best_places(scores, k, width):
    """The places of the k largest of each row, the largest first, and where two are equal the first.

    They lie in the k groups with the largest maxima, which are found much faster.
    """
    if k * _GROUP >= width:
        return tf.math.top_k(scores, k).indices
    grouped = tf.reshape(scores, (-1, width // _GROUP, _GROUP))
    groups = tf.sort(tf.math.top_k(tf.reduce_max(grouped, axis=2), k, sorted=False).indices, axis=1)
    members = tf.reshape(tf.gather(grouped, groups, batch_dims=1), (-1, k * _GROUP))
    place = tf.math.top_k(members, k).indices
    return tf.gather(groups, place // _GROUP, batch_dims=1) * _GROUP + place % _GROUP


def _rescored(space, stored, queries, places):
    """The scores of some vectors of each query, and their places in this order.

    A Euclidean distance from products is inaccurate near 0.
    """
    scores, order = tf.math.top_k(space.scores(queries, stored.take(places)), places.shape[1])
    return scores, tf.gather(places, order, batch_dims=1)
