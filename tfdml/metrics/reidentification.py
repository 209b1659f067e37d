"""Re-identification: the same person or vehicle, seen by another camera."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, as_vectors, require, require_whole
from tfdml.metrics.reranking import KReciprocalReranking
from tfdml.metrics.retrieval.measures import default_ranks
from tfdml.metrics.retrieval.retrieval import retrieval
from tfdml.search.blocks import MAX_BYTES
from tfdml.typing import Labels


def reidentification(
    embeddings: npt.ArrayLike | None,
    labels: Labels,
    cameras: npt.ArrayLike,
    *,
    scores: npt.ArrayLike | None = None,
    neighbors: npt.ArrayLike | None = None,
    gallery: npt.ArrayLike | None = None,
    gallery_labels: Labels | None = None,
    gallery_cameras: npt.ArrayLike | None = None,
    k: int | Sequence[int] | None = None,
    junk: int | Sequence[int] = -1,
    rerank: KReciprocalReranking | None = None,
    metric: str = "cosine",
    per_query: bool = False,
    max_bytes: int = MAX_BYTES,
) -> dict[str, Any]:
    """Cumulative match characteristic and mean average precision of re-identification.

    A query ignores gallery items of the same identity and the same camera. It does not ignore other identities in its
    camera, as with `retrieval(groups=cameras)`, nor items whose identity no query has (distractors). The metric removes
    gallery items and queries with a junk id. The means exclude queries without a relevant item; a count says how many.

    * cmc@k: share of queries with a relevant item among the first k.
    * map: mean over queries of (1/R) sum over the whole ranking of P(i) rel(i), see `retrieval`.

    Example: the query ignores its identity in its own camera 0, and finds it in camera 1 at rank 2.

        >>> gallery = {"gallery": [[1.0, 0.0], [0.8, 0.6], [0.6, 0.8]], "gallery_labels": [1, 2, 1]}
        >>> tfdml.metrics.reidentification([[1.0, 0.0]], [1], [0], **gallery, gallery_cameras=[0, 1, 1], k=(1, 2))
        {'cmc@1': 0.0, 'cmc@2': 1.0, 'map': 0.5, 'queries': 1, 'skipped': 0}

    Args:
        embeddings: `(queries, dim)` floats. They may have any norm. None with `scores` or `neighbors`.
        labels: `(queries,)` integers, identities.
        cameras: `(queries,)` integers.
        scores: `(queries, items)` floats of any model in place of embeddings, larger for nearer items. Equal ones are
            in the order of the gallery.
        neighbors: whole rankings in place of embeddings, such as the output of `tfdml.search.rerank`:
            `(queries, items)` row numbers of the gallery, nearest first. A query that is an item of the gallery ignores
            itself.
        gallery: `(items, dim)` floats to search in; None: every row is a query against all other rows.
        gallery_labels, gallery_cameras: `(items,)` integers, with `gallery`, `scores` or `neighbors`.
        k: ranks of cmc@k, an integer or several; None: 1, 5 and 10, as far as a query has candidates.
        junk: ids of images to remove, such as poor detections: -1 in Market-1501.
        rerank: None, or `KReciprocalReranking()` for distances of embeddings re-ranked by their neighbors.
        metric: of embeddings, "cosine", "dot" or "euclidean"; "dot" cannot be re-ranked.
        per_query: return arrays instead of means.
        max_bytes: bytes for the blocks of scores.

    Returns:
        dict of floats: `cmc@k` for each k, `map`; and of integers: `queries`, the number of queries in the means, and
        `skipped`, the number without a relevant item or with a junk id. With `per_query`, dict of `(queries,)` float64
        arrays with NaN for a skipped query; no counts.

    Raises:
        ValueError: no item left, or no query with a relevant item; rankings that do not have each item of the gallery
            once.

    Source: Zheng, Shen, Tian, Wang, Wang, Tian, Scalable Person Re-identification: A Benchmark, ICCV 2015. The
    program of its authors takes the area under the precision-recall curve by trapezoids, so its map differs a little.
    """
    ways = {"embeddings": embeddings, "scores": scores, "neighbors": neighbors}
    passed = [name for name, array in ways.items() if array is not None]
    require(len(passed) == 1, " and ".join(passed) or "none of them", f"one of {', '.join(ways)}")
    options: dict[str, Any] = {"k": k, "junk": junk}
    if embeddings is None:
        if gallery_labels is None or gallery_cameras is None:
            raise ValueError(f"Received {passed[0]} without gallery_labels or gallery_cameras. Pass both.")
        if scores is not None:
            neighbors = np.argsort(-as_vectors(scores, "scores"), axis=1, kind="stable")
        items = _without_junk(np.zeros((np.size(gallery_labels), 1)), gallery_labels, gallery_cameras, (), "gallery")
        values, is_used = _of_rankings(neighbors, labels, cameras, items, **options)
    else:
        arrays = {"gallery": gallery, "gallery_labels": gallery_labels, "gallery_cameras": gallery_cameras}
        names = [name for name, array in arrays.items() if array is not None]
        require(len(names) in (0, 3), f"{' and '.join(names)} alone", f"{', '.join(arrays)}, or none")
        items = tuple(arrays.values()) if names else None
        options |= {"rerank": rerank, "metric": metric, "max_bytes": max_bytes}
        values, is_used = _of_embeddings(embeddings, labels, cameras, items, **options)
    values_of_all = {name: np.full(len(is_used), np.nan) for name in values}
    for name, array in values_of_all.items():
        array[is_used] = values[name]
    return values_of_all if per_query else _means(values_of_all)


def _of_rankings(rankings, labels, cameras, items, *, k, junk):
    rankings = _as_rankings(rankings, len(items.labels))
    queries = _without_junk(np.zeros((len(rankings), 1)), labels, cameras, junk)
    is_junk = np.isin(items.labels, junk)
    count = int((~is_junk).sum())
    k = default_ranks(count, (1, 5, 10)) if k is None else k
    for rank in np.atleast_1d(k).tolist():
        require_whole("k", rank, 1, count)
    groups = _groups(queries, items)
    hits = _hits(rankings[queries.is_used], queries.labels, items.labels, groups, is_junk)
    return _values(hits, np.unique(k).tolist()), queries.is_used


def _of_embeddings(embeddings, labels, cameras, gallery, *, k, junk, rerank, metric, max_bytes):
    queries = _without_junk(embeddings, labels, cameras, junk)
    items = queries if gallery is None else _without_junk(*gallery, junk, "gallery")
    groups = _groups(queries, items)
    k = default_ranks(len(items.labels) - (items is queries), (1, 5, 10)) if k is None else k
    if rerank is None:
        values = _exact(queries, items, *groups, k=k, metric=metric, max_bytes=max_bytes)
    else:
        values = _reranked(queries, items, *groups, k=k, metric=metric, max_bytes=max_bytes, rerank=rerank)
    return values, queries.is_used


def _as_rankings(neighbors, count):
    neighbors = np.asarray(neighbors)
    expected = f"whole rankings (queries, {count}) of the row numbers of the gallery, each once"
    whole = neighbors.ndim == 2 and neighbors.shape[1] == count and neighbors.dtype.kind in "iu"
    require(whole, f"neighbors of shape {neighbors.shape} and type {neighbors.dtype}", expected)
    is_permuted = bool((np.sort(neighbors, axis=1) == np.arange(count)).all())
    require(is_permuted, "neighbors that repeat or leave out items", expected)
    return neighbors.astype(np.int64)


def _hits(rankings, labels, item_labels, groups, is_junk):
    """Whether the items of each ranking are relevant, those that the query ignores last: `(queries, items)`."""
    query_groups, item_groups = groups
    is_excluded = is_junk[rankings] | (query_groups[:, None] == item_groups[rankings])
    hits = (labels[:, None] == item_labels[rankings]) & ~is_excluded
    return np.take_along_axis(hits, np.argsort(is_excluded, axis=1, kind="stable"), axis=1)


def random_gallery(
    embeddings: npt.ArrayLike,
    labels: Labels,
    *,
    repeats: int = 10,
    k: int | Sequence[int] | None = None,
    seed: int = 0,
    metric: str = "cosine",
) -> dict[str, Any]:
    """Cumulative match characteristic with one random image per identity as the gallery, the protocol of VehicleID.

    Each repeat draws one image of every identity at random as the gallery; all other images are queries. An identity
    with one image has no query, and stays in the gallery. A query has one relevant item, so map is the mean of
    1 / rank.

    Example:

        >>> x = np.array([[0.0], [1.0], [10.0], [11.0]])
        >>> tfdml.metrics.random_gallery(x, [0, 0, 1, 1], repeats=3, k=1, metric="euclidean")
        {'cmc@1': 1.0, 'map': 1.0, 'queries': 2, 'gallery': 2, 'repeats': 3}

    Args:
        embeddings, labels, metric: as in `reidentification`.
        repeats: number of random galleries, 10 in the protocol.
        k: ranks of cmc@k, an integer or several; None: 1 and 5, as far as a query has candidates.
        seed: seed of the draws; the same seed gives the same galleries.

    Returns:
        dict of floats: `cmc@k` for each k and `map`, means over all repeats; and of integers: `queries`, the number of
        queries in one repeat, `gallery`, the number of identities, and `repeats`.

    Source: Liu, Tian, Wang, Pang, Huang, Deep Relative Distance Learning: Tell the Difference Between Similar Vehicles,
    CVPR 2016.
    """
    require_whole("repeats", repeats, 1)
    x = as_vectors(embeddings, "embeddings")
    labels = as_ids(labels, "labels", len(x))
    identities = len(np.unique(labels))
    expected = "at least two identities, one of them with two images"
    require(1 < identities < len(labels), f"{len(labels)} images of {identities} identities", expected)
    rng = np.random.default_rng(seed)
    k = default_ranks(identities, (1, 5)) if k is None else k
    options = {"k": k, "metric": metric}
    results = [_with_gallery(x, labels, rng, options) for _ in range(repeats)]
    means = {name: float(np.mean([result[name] for result in results])) for name in results[0]}
    return {**means, "queries": len(labels) - identities, "gallery": identities, "repeats": repeats}


class _Images(NamedTuple):
    """Queries or gallery items without junk; `is_used` marks the rows of the arguments that are not junk."""

    vectors: np.ndarray
    labels: np.ndarray
    cameras: np.ndarray
    is_used: np.ndarray


def _without_junk(vectors, labels, cameras, junk, name=None):
    prefix = f"{name}_" if name else ""
    vectors = as_vectors(vectors, name or "embeddings")
    labels = as_ids(labels, f"{prefix}labels", len(vectors))
    cameras = as_ids(cameras, f"{prefix}cameras", len(vectors))
    is_used = ~np.isin(labels, junk)
    received = f"{len(is_used)} {name or 'queries'}, of which none is left without junk={junk!r}"
    require(is_used.any(), received, "at least one other identity")
    return _Images(vectors[is_used], labels[is_used], cameras[is_used], is_used)


def _groups(queries, items):
    """Ids of pairs of identity and camera, of queries and of gallery items: a query ignores items of its id."""
    pairs = np.concatenate([np.stack([images.labels, images.cameras], axis=1) for images in (queries, items)])
    codes = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
    return np.split(codes, [len(queries.labels)])


def _exact(queries, items, groups, item_groups, **options):
    if items is not queries:
        options |= {"gallery": items.vectors, "gallery_labels": items.labels, "gallery_groups": item_groups}
    return _cmc_and_map(retrieval(queries.vectors, queries.labels, groups=groups, per_query=True, **options))


def _reranked(queries, items, groups, item_groups, *, k, metric, max_bytes, rerank):
    ks = np.unique(np.atleast_1d(k)).tolist()
    for rank in ks:
        require_whole("k", rank, 1, len(items.labels) - (items is queries))
    gallery = None if items is queries else items.vectors
    blocks = []
    for rows, d in rerank.distances(queries.vectors, gallery, metric=metric, max_bytes=max_bytes):
        is_excluded = groups[rows, None] == item_groups
        d[is_excluded] = np.inf
        is_relevant = (queries.labels[rows, None] == items.labels) & ~is_excluded
        blocks.append(_values(np.take_along_axis(is_relevant, np.argsort(d, axis=1, kind="stable"), axis=1), ks))
    return {name: np.concatenate([values[name] for values in blocks]) for name in blocks[0]}


def _values(hits, ks):
    total = hits.sum(axis=1)
    precision = np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1)
    values = {f"cmc@{k}": hits[:, :k].any(axis=1) for k in ks}
    values["map"] = (precision * hits).sum(axis=1) / np.maximum(total, 1)
    return {name: np.where(total > 0, value, np.nan) for name, value in values.items()}


def _means(values):
    is_used = ~np.isnan(values["map"])
    require(
        is_used.any(),
        f"{len(is_used)} queries, none of which has an item of its identity in another camera",
        "one at least. Check that labels and cameras of queries and gallery are the same ids",
    )
    means = {name: float(array[is_used].mean()) for name, array in values.items()}
    return {**means, "queries": int(is_used.sum()), "skipped": int((~is_used).sum())}


def _with_gallery(x, labels, rng, options):
    """cmc and map of all other rows with a gallery of one random image per identity."""
    order = rng.permutation(len(labels))
    rows = order[np.unique(labels[order], return_index=True)[1]]
    is_query = np.ones(len(labels), bool)
    is_query[rows] = False
    options = {"gallery": x[rows], "gallery_labels": labels[rows], **options}
    return _cmc_and_map(retrieval(x[is_query], labels[is_query], **options))


def _cmc_and_map(values):
    cmc = {name.replace("recall", "cmc"): value for name, value in values.items() if name.startswith("recall@")}
    return {**cmc, "map": values["map"]}
