"""Retrieval metrics, computed from the ranks of the items of a query's class.

Definitions for a query with R relevant items in its gallery. Ranks start at 1, rel(i) = 1 where the i-th neighbor is
relevant, and P(i) = (1/i) sum_{j<=i} rel(j).

* recall@k: 1 if one of the first k neighbors is relevant, else 0 (the hit rate; others divide hits by R);
* precision@1: rel(1);
* r_precision: (1/R) sum_{i<=R} rel(i);
* map@r: (1/R) sum_{i<=R} P(i) rel(i);
* map: (1/R) sum over the whole ranking of P(i) rel(i);
* mrr: 1 / rank of the first relevant item.

All except map follow from the ranks of the relevant items among the first max(k, R), and the rank of the best one.
"""

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tfdml._checks import as_unmasked, as_vectors, require_metric
from tfdml.metrics.confidence import mean_over_queries, require_average
from tfdml.metrics.ranks import for_ranks
from tfdml.metrics.relevance import Sides
from tfdml.metrics.ties import expected_values
from tfdml.search.blocks import MEMORY
from tfdml.search.scores import Gallery

_TIE_RATE = 0.01


def retrieval(
    embeddings: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    k: int | Sequence[int] = (1, 2, 4, 8),
    gallery: npt.ArrayLike | None = None,
    gallery_labels: npt.ArrayLike | None = None,
    groups: npt.ArrayLike | None = None,
    gallery_groups: npt.ArrayLike | None = None,
    metric: str = "cosine",
    ties: str = "index",
    average: str = "micro",
    per_query: bool = False,
    full_map: bool = True,
    memory: int = MEMORY,
    progress: bool = False,
) -> dict[str, Any]:
    """Exact retrieval metrics of embeddings.

    Without `gallery`, every row is a query against all other rows (leave-one-out). A query is removed from its gallery
    by row number, so duplicates stay. With `gallery`, nothing is removed. Queries without a relevant item are excluded
    from the means and counted. The docstring of this module and docs/metrics.md hold the definitions.

    The score of a pair depends only on its two vectors (`tfdml.search.scores`), so the results do not depend on memory,
    threads or the BLAS. Scores are computed for one block of queries at a time, never for all pairs.

    Args:
        embeddings: `(queries, dim)` floats. They need not be normalized.
        labels: `(queries,)` integer class ids, any int64.
        k: ranks of recall@k, an integer or several.
        gallery: `(items, dim)` floats to search in, for separate queries and gallery.
        gallery_labels: `(items,)` integers, with `gallery`.
        groups: `(queries,)` integers, such as type family, shop or sequence. All items of the query's group are removed
            from its gallery, regardless of class.
        gallery_groups: `(items,)` integers, with `gallery` and `groups`.
        metric: "cosine" (normalized here; a zero vector has cosine 0 with everything), "dot" or "euclidean".
        ties: "index" ranks items with the same score in the order of the gallery; "expected" returns the mean over all
            of their orders.
        average: "micro", the mean over queries, or "macro", the mean over classes of their means.
        per_query: return arrays instead of means.
        full_map: False omits `map`, the only metric that needs the rank of every relevant item, and is faster.
        memory: bytes for the blocks of scores, in addition to one or two float32 copies of the embeddings and about
            20 MiB per thread.
        progress: show a progress bar.

    Returns:
        dict of floats: `recall@k` for each k, `precision@1`, `r_precision`, `map@r`, with `full_map` also `map`, `mrr`;
        and of integers: `queries`, the number of queries in the means, and `skipped`, the number without a relevant
        item. With `per_query`, dict of `(queries,)` float64 arrays with NaN where a query was skipped; no counts.

    Raises:
        ValueError: labels that are not integers; masked entries; different lengths; an empty gallery; k below 1 or
            above the size of the gallery; embeddings that are not finite or all the same; no query with a relevant
            item.

    Warns:
        UserWarning: with ties="index", if the first relevant item of more than 1% of the queries has the same score as
            an item that is not relevant, so that the order of the gallery decides its rank.

    Source: Musgrave et al., A Metric Learning Reality Check, ECCV 2020 (R-Precision, MAP@R); Oh Song et al., Deep
    Metric Learning via Lifted Structured Feature Embedding, CVPR 2016 (Recall@k).
    """
    require_metric(metric)
    require_average(average)
    if ties not in ("index", "expected"):
        raise ValueError(f"Received ties={ties!r}, expected 'index' or 'expected'.")
    queries = as_vectors(embeddings, "embeddings")
    items = queries if gallery is None else as_vectors(gallery, "gallery")
    _require_same_dim(queries, items)
    size = None if gallery is None else len(items)
    sides = Sides(labels, gallery_labels, groups, gallery_groups, len(queries), size)
    ks = _as_ranks(k, sides.candidates)
    values, tie_rate = _exact_values(queries, items, sides, ks, metric, ties, full_map, memory, progress)
    if ties == "index" and tie_rate > _TIE_RATE:
        warnings.warn(
            f"For {tie_rate:.1%} of the queries the first relevant item ties with one that is not relevant, and "
            "the order of the gallery decides. Pass ties='expected', or look for duplicates and collapsed embeddings.",
            stacklevel=2,
        )
    return values if per_query else _means(values, sides.labels, average)


def retrieval_from_neighbors(
    neighbors: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    k: int | Sequence[int] = (1, 2, 4, 8),
    gallery_labels: npt.ArrayLike | None = None,
    groups: npt.ArrayLike | None = None,
    gallery_groups: npt.ArrayLike | None = None,
    at_r: bool = True,
    average: str = "micro",
    per_query: bool = False,
) -> dict[str, Any]:
    """The metrics of `retrieval` from the neighbor lists of any search.

    Search for at least the number of members of the largest class, because this function removes the query itself:

        most = numpy.unique(labels, return_counts=True)[1].max()
        found, _ = tfdml.search.Scann(embeddings).search(embeddings, max(most, 9))
        numbers = retrieval_from_neighbors(found, labels)

    Args:
        neighbors: `(queries, n)` integers, row numbers in the gallery, nearest first. -1 marks a place where the search
            found nothing, and counts as an item that is not relevant.
        labels: `(queries,)` integer class ids, any int64.
        k: ranks of recall@k, an integer or several.
        gallery_labels: `(items,)` integers. None: the queries are the gallery (leave-one-out), and a query's own row
            is removed from its list, at any place.
        groups: `(queries,)` integers. Items of the query's group are removed from its list.
        gallery_groups: `(items,)` integers, with `gallery_labels` and `groups`.
        at_r: False omits `r_precision` and `map@r`, so that lists may be shorter than the largest class.
        average: "micro", the mean over queries, or "macro", the mean over classes of their means.
        per_query: return arrays instead of means.

    Returns:
        as `retrieval` with `full_map=False`. A query without a relevant item in its list counts 0 in `mrr`, which is
        therefore a lower bound.

    Raises:
        ValueError: a list with fewer remaining neighbors than max(k), or with `at_r` than the query has relevant items;
            numbers that are not rows of the gallery, or that repeat within a list; labels as in `retrieval`.
    """
    require_average(average)
    neighbors = np.asarray(as_unmasked(neighbors, "neighbors"))
    if neighbors.ndim != 2 or neighbors.dtype.kind not in "iu":
        raise ValueError(
            f"Received neighbors of shape {neighbors.shape}, dtype {neighbors.dtype}, expected (queries, n) integers."
        )
    items = None if gallery_labels is None else len(np.asarray(gallery_labels))
    sides = Sides(labels, gallery_labels, groups, gallery_groups, len(neighbors), items)
    ks = _as_ranks(k, sides.candidates)
    values = _empty_values(ks, len(neighbors), ["map"] if at_r else ["map", "r_precision", "map@r"])
    counts = sides.counts
    step = max(1, 2**20 // max(1, neighbors.shape[1]))
    for start in range(0, len(neighbors), step):
        rows = np.arange(start, min(start + step, len(neighbors)))
        listed = neighbors[rows].astype(np.int64)
        _require_listed(listed, len(sides.gallery_labels), start)
        removed = sides.removed(rows, listed)
        needed = np.maximum(max(ks), counts[rows]) if at_r else np.full(len(rows), max(ks))
        _require_long_enough(rows, (~removed).sum(axis=1), np.minimum(needed, sides.gallery_sizes(rows)), counts)
        relevant = (sides.gallery_labels[listed] == sides.labels[rows, None]) & (listed >= 0) & ~removed
        ranks = np.where(relevant, np.cumsum(~removed, axis=1), np.inf)
        ranks = np.sort(ranks, axis=1)[:, : max(1, relevant.sum(axis=1).max(initial=0))]
        found = _values_of_ranks(ranks, counts[rows], ks)
        for name in values:
            values[name][rows] = found[name]
    return values if per_query else _means(values, sides.labels, average)


def _exact_values(queries, items, sides, ks, metric, ties, full_map, memory, progress):
    """Values per query, and the share of queries whose first relevant item ties with one that is not relevant."""
    gallery = Gallery(items, metric)
    scores = gallery.scores(None if sides.leave_one_out else queries)
    _require_varied(gallery.form if metric == "cosine" else items)
    counts = sides.counts
    values = _empty_values(ks, len(queries), [] if full_map else ["map"])
    tied = np.zeros(len(queries), bool)
    depth = np.full(len(queries), len(items)) if full_map else np.maximum(1, counts)
    measure = partial(_in_order, width=max(1, counts.max())) if ties == "index" else _in_expectation

    def use(some, ranks):
        tied[some] = _tied_at_the_best(ranks, len(some))
        found = measure(ranks, counts[some], ks)
        for name in values:
            values[name][some] = found[name]

    bar = _progress_bar(len(queries)) if progress else None
    needs = {"memory": memory, "row_bytes": 48 * max(1, counts.max()), "thread_bytes": 128 * len(items)}
    for done in for_ranks(use, scores, sides, depth, **needs):
        if bar:
            bar.add(min(done, len(queries) - bar._seen_so_far))
    return values, tied.sum() / max(1, np.count_nonzero(counts))


def _in_order(ranks, counts, ks, width):
    """Values per query with equal scores ranked by position; NaN for a query without a relevant item."""
    lengths = np.bincount(ranks.query, minlength=len(counts))
    table = np.full((len(counts), width), np.inf)
    table[np.arange(width) < lengths[:, None]] = ranks.above + ranks.before + 1
    return _values_of_ranks(table, counts, ks)


def _in_expectation(ranks, counts, ks):
    """Values per query as means over all orders of equal scores; NaN for a query without a relevant item."""
    values = _empty_values(ks, len(counts))
    ends = np.searchsorted(ranks.query, np.arange(len(counts) + 1))
    for i in np.flatnonzero(counts):
        some = slice(ends[i], ends[i + 1])
        for name, value in expected_values(ranks.above[some], ranks.equal[some], counts[i], ks).items():
            values[name][i] = value
    return values


def _tied_at_the_best(ranks, queries):
    """Whether an item that is not relevant has the best relevant score of a query: `(queries,)` booleans."""
    query, first = np.unique(ranks.query, return_index=True)
    best = ranks.above == np.repeat(ranks.above[first], np.diff(np.append(first, len(ranks.query))))
    tied = np.zeros(queries, bool)
    tied[query] = ranks.equal[first] > np.bincount(ranks.query[best], minlength=queries)[query]
    return tied


def _values_of_ranks(ranks, counts, ks):
    """Values per query from the ranks of its relevant items.

    Args:
        ranks: `(queries, width)` ascending, from 1; infinity after the last.
        counts: `(queries,)` R; 0 gives NaN.
        ks: ranks of recall@k.

    Returns:
        dict of `(queries,)` float64.
    """
    first = ranks[:, 0]
    precision = np.arange(1, ranks.shape[1] + 1) / ranks
    within = ranks <= counts[:, None]
    total = np.maximum(counts, 1)
    values = {
        **{f"recall@{k}": first <= k for k in ks},
        "precision@1": first <= 1,
        "r_precision": within.sum(axis=1) / total,
        "map@r": (precision * within).sum(axis=1) / total,
        "map": precision.sum(axis=1) / total,
        "mrr": 1 / first,
    }
    return {name: np.where(counts > 0, value, np.nan) for name, value in values.items()}


def _empty_values(ks, queries, leave_out=()):
    names = _values_of_ranks(np.ones((1, 1)), np.ones(1), ks)
    return {name: np.full(queries, np.nan) for name in names if name not in leave_out}


def _means(values, labels, average):
    """Means over the queries with a relevant item, and the counts of queries with and without one."""
    skipped = int(np.isnan(values["mrr"]).sum())
    if skipped == len(labels):
        raise ValueError(
            f"None of the {skipped} queries has a relevant item in its gallery, so there is no mean. "
            "Check that the labels of queries and gallery are the same ids, and that classes have two members."
        )
    means = {name: mean_over_queries(value, labels, average) for name, value in values.items()}
    return {**means, "queries": len(labels) - skipped, "skipped": skipped}


def _progress_bar(target):
    from keras.utils import Progbar

    return Progbar(target, unit_name="query")


def _as_ranks(k, candidates):
    """The ranks of recall@k: distinct integers, ascending."""
    ks = np.unique(np.atleast_1d(k)).tolist()
    if not ks or not all(isinstance(n, int) for n in ks) or ks[0] < 1:
        raise ValueError(f"Received k={k!r}, expected positive integers, such as (1, 2, 4, 8).")
    if ks[-1] > candidates:
        raise ValueError(f"Received k={ks[-1]}, but a query has {candidates} candidates. Lower k.")
    return ks


def _require_same_dim(queries, items):
    if queries.shape[1] != items.shape[1]:
        raise ValueError(f"Received embeddings of dim {queries.shape[1]} and a gallery of dim {items.shape[1]}.")


def _require_varied(items):
    if len(items) > 1 and np.ptp(items, axis=0).max() <= 1e-6 * np.abs(items).max():
        raise ValueError(
            "Received embeddings that are all the same, so every ranking is random. The model has collapsed: look at "
            "its loss, its learning rate, and whether its inputs reach it."
        )


def _require_listed(listed, items, start):
    """Raises `ValueError` unless every list holds distinct rows of the gallery, or -1."""
    if listed.size and (listed.min() < -1 or listed.max() >= items):
        raise ValueError(
            f"Received neighbors from {listed.min()} to {listed.max()}, expected row numbers of the gallery, "
            f"0 to {items - 1}, or -1 for none. Search with an index whose ids are row numbers."
        )
    ordered = np.sort(listed, axis=1)
    repeats = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1)
    if repeats.any():
        raise ValueError(f"Received neighbors that repeat within a list, first for query {start + repeats.argmax()}.")


def _require_long_enough(rows, left, needed, counts):
    """Raises `ValueError` where a list is too short for the metrics; skipped queries need no neighbors."""
    short = np.flatnonzero((left < needed) & (counts[rows] > 0))
    if len(short):
        i = short[np.argmax(needed[short] - left[short])]
        raise ValueError(
            f"Received {left[i]} neighbors for query {rows[i]} after removal of the query itself and its group, "
            f"expected at least {needed[i]}, the larger of max(k) and its number of relevant items. Search for more "
            "neighbors; for recall@k and mrr alone pass at_r=False."
        )
