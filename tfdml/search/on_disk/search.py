"""Exact nearest neighbors in vectors that are read from disk, block by block."""

from typing import Any

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_vectors, require_metric, require_whole
from tfdml._core.checksums import stated_model
from tfdml.search.blocks import MAX_BYTES, in_threads, slices, thread_count
from tfdml.search.nearest import merged, nearest
from tfdml.search.on_disk.shards import Shards, blocks_of, require_one_model
from tfdml.search.scores import Gallery

_ROWS = 2**16  # per block of vectors
_VECTOR_BYTES = 24  # of each number of a block: as read, in float32 and in float64
_SCORE_BYTES = 8  # of each score of a block


def search_on_disk(
    shards: Shards,
    queries: npt.ArrayLike,
    k: int,
    *,
    metric: str = "cosine",
    max_bytes: int = MAX_BYTES,
    model: Any = None,
    other_model: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Exact nearest neighbors in vectors that do not fit into memory.

    Rows and scores equal `Exact(vectors, metric=metric).search(queries, k)` to the last bit, where `vectors` are all
    shards, one after the other. Vectors are read once, a block at a time in each thread, and scored in float32.

    See also: `Exact` for vectors that fit into memory; `tfdml.distributed.build_index` for more than one machine.

    Example:

        >>> np.save("gallery.npy", np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]))
        >>> neighbors, scores = tfdml.search.search_on_disk("gallery.npy", [[0.0, 2.0]], k=2)
        >>> neighbors.tolist(), scores.astype(float).round(4).tolist()
        ([[2, 1]], [[1.0, 0.8]])

    Args:
        shards: an array `(n, dim)` of any floats or integers, such as a `np.memmap` of float16, bfloat16 or int8; a
            path of a `.npy` file or of a Parquet file with a column `embedding`, read one row group at a time; or a
            list of these.
        queries: `(q, dim)` floats, finite.
        k: number of neighbors, 1 to the number of vectors.
        metric: "cosine", "dot" or "euclidean".
        max_bytes: bytes for the blocks and their scores, in addition to the queries and the results.
        model: the model of the queries, as for `Exact`. Parquet files that
            `tfdml.models.write_embeddings` wrote state the model of their vectors.
        other_model: whether queries and shards may be of different models.

    Returns:
        rows: `(q, k)` int64 row numbers over all shards, nearest first; equal scores by row.
        scores: `(q, k)` float32, as in `Exact.search`.

    Raises:
        ValueError: a shard, by name, that is damaged, not finite or of another dim or model.
    """
    require_metric(metric)
    if not other_model:
        require_one_model(shards, stated_model(model, queries))
    queries = as_vectors(queries, "queries")
    size = min(_ROWS, max_bytes // (2 * thread_count() * _VECTOR_BYTES * queries.shape[1]))
    rows = min(len(queries), max_bytes // (2 * thread_count() * _SCORE_BYTES * max(1, size)))
    if size < 1 or rows < 1 <= len(queries):
        raise ValueError(f"Received max_bytes={max_bytes}, which is too little for a block of vectors. Raise it.")
    blocks = blocks_of(shards, size)
    require_whole("k", k, 1, blocks[-1].start + blocks[-1].length)

    def search(block):
        return _search(Gallery(block.read(queries.shape[1]), metric), queries, min(k, block.length), max(1, rows))

    neighbors, values = np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
    for block, (columns, block_values) in zip(blocks, in_threads(search, blocks), strict=True):
        neighbors, values = merged(neighbors, values, block.start + columns, block_values, k)
    return neighbors, -values if metric == "euclidean" else values


def _search(gallery, queries, k, step):
    """Neighbors in one block of vectors, `step` queries at a time."""
    scores = gallery.scores(queries)
    columns, values = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
    buffer = np.empty((min(step, len(queries)), len(gallery)), np.float32)
    for rows in slices(len(queries), step):
        columns[rows], values[rows] = nearest(scores, k, rows, buffer[: rows.stop - rows.start])
    return columns, values
