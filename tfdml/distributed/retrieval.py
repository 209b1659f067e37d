"""Exact search and evaluation in shards of embeddings, in bounded memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tfdml import metrics
from tfdml._core.checks import as_vectors, require, require_whole
from tfdml._core.checksums import require_same_model
from tfdml.distributed.cluster import Resources, results
from tfdml.distributed.embedding import EmbeddedShards, read_shards
from tfdml.search import search_on_disk
from tfdml.search.index.shards import merged_results
from tfdml.typing import FilePath, Labels


def search_shards(
    shards: EmbeddedShards | FilePath,
    queries: npt.ArrayLike,
    k: int,
    *,
    metric: str = "cosine",
    resources: Resources | None = None,
    model: Any = None,
    other_model: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Exact nearest neighbors in shards of embeddings, each shard a task of Ray.

    Rows and scores equal `tfdml.search.search_on_disk(shards.paths, queries, k)` to the last bit.

    See also: `build_index` for indexes that are searched often.

    Example:

        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.UnitNormalization()])
        >>> x = np.array([[3.0, 4.0], [0.0, 2.0], [1.0, 0.0]], "float32")
        >>> shards = tfdml.distributed.embed(model, x, "shards", batch_size=2, shard_size=2, actors=1)
        >>> rows, scores = tfdml.distributed.search_shards(shards, np.array([[0.0, 1.0]], "float32"), 2)
        >>> rows, scores.round(4)
        (array([[1, 0]]), array([[1. , 0.8]], dtype=float32))

    Args:
        shards: the result of `embed`, or its folder.
        queries, k, metric, model, other_model: as in `tfdml.search.search_on_disk`.
        resources: what a task takes of a node, as in `embed`.

    Returns:
        rows `(q, k)` int64, positions among the embeddings of all shards, nearest first; and scores, float32.
    """
    shards = shards if isinstance(shards, EmbeddedShards) else read_shards(shards)
    require_same_model("queries", model, "the shards", shards.fingerprint, other_model=other_model)
    require_whole("k", k, 1, len(shards))
    shared = shards, as_vectors(queries, "queries"), k, metric
    tasks = [(number,) for number in range(len(shards.paths))]
    return merged_results(
        results(_search, tasks, label="shards searched", shared=shared, resources=resources), k, metric
    )


def _search(shared, number):
    shards, queries, k, metric = shared
    start, end = shards.starts[number : number + 2]
    rows, scores = search_on_disk(shards.paths[number], queries, min(k, end - start), metric=metric)
    return start + rows, scores


def retrieval(
    shards: EmbeddedShards | FilePath,
    queries: npt.ArrayLike,
    labels: Labels,
    *,
    gallery_labels: Labels,
    query_rows: npt.ArrayLike | None = None,
    k: int | Sequence[int] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """The metrics of `tfdml.metrics.retrieval` for a gallery in shards.

    They equal `tfdml.metrics.retrieval(queries, labels, gallery=all_embeddings, full_map=False)`. The driver holds the
    queries, and as many neighbors of each as the largest class of the queries has items.

    Example: the first neighbor of the first query has its class, the first neighbor of the second has not.

        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.UnitNormalization()])
        >>> x = np.array([[3.0, 4.0], [0.0, 2.0], [1.0, 0.0]], "float32")
        >>> shards = tfdml.distributed.embed(model, x, "shards", batch_size=2, shard_size=2, actors=1)
        >>> queries = np.array([[0.0, 1.0], [1.0, 0.1]], "float32")
        >>> tfdml.distributed.retrieval(shards, queries, [7, 7], gallery_labels=[5, 7, 5], k=1)["recall@1"]
        0.5

    Args:
        shards: the gallery: the result of `embed`, or its folder.
        queries: `(q, dim)` floats.
        labels: `(q,)` integers.
        gallery_labels: `(n,)` integers, in the order of the embeddings of all shards.
        query_rows: `(q,)` positions of the queries in the gallery, where each ignores itself; None for other images.
        k: ranks of recall@k; None for 1, 2, 4 and 8.
        options: the options of `search_shards`.
    """
    shards = shards if isinstance(shards, EmbeddedShards) else read_shards(shards)
    labels, gallery_labels = np.asarray(labels), np.asarray(gallery_labels)
    require(len(gallery_labels) == len(shards), f"{len(gallery_labels)} gallery_labels", f"{len(shards)}, one each")
    classes, counts = np.unique(gallery_labels, return_counts=True)
    largest = int(counts[np.isin(classes, labels)].max(initial=1))
    ranks = [1, 2, 4, 8] if k is None else np.atleast_1d(k).tolist()
    number = min(len(shards), max(largest, *ranks) + (query_rows is not None))
    neighbors, _ = search_shards(shards, queries, number, **options)
    return metrics.retrieval(
        None,
        labels,
        neighbors=neighbors,
        gallery_labels=gallery_labels,
        k=k,
        groups=query_rows,
        gallery_groups=None if query_rows is None else np.arange(len(shards)),
    )
