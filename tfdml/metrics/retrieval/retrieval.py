"""Retrieval metrics, computed from the ranks of the items of a query's class.

Definitions for a query with R relevant items in its gallery. Ranks start at 1, rel(i) = 1 where the i-th neighbor is
relevant, and P(i) = (1/i) sum_{j<=i} rel(j).

* recall@k: 1 if one of the first k neighbors is relevant, else 0 (the hit rate; others divide hits by R);
* precision@k: (1/k) sum_{i<=k} rel(i);
* r_precision: (1/R) sum_{i<=R} rel(i);
* map@r: (1/R) sum_{i<=R} P(i) rel(i);
* map: (1/R) sum over the whole ranking of P(i) rel(i);
* mrr: 1 / rank of the first relevant item;
* map@k: (1/R) sum_{i<=k} P(i) rel(i), so map@k with k = R is map@r; others divide by min(k, R), or by the hits;
* ndcg@k: sum_{i<=k} grade(i) / log2(i + 1), divided by the largest value that any ranking has; a grade is 1 where the
  item is relevant, unless `match` returns grades.

All except map follow from the ranks of the relevant items among the first max(k, R), and the rank of the best one.
"""

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_unmasked, as_vectors, require_metric, require_varied
from tfdml.metrics.retrieval.match import Match, sides_of, values_of_grades
from tfdml.metrics.retrieval.measures import as_cutoffs, depth_of, empty_values, last_of, values_of_ranks
from tfdml.metrics.retrieval.ranks import for_ranks
from tfdml.metrics.retrieval.relevance import by_flags
from tfdml.metrics.retrieval.ties import expected_values
from tfdml.metrics.statistics.confidence import mean_over_queries, require_average
from tfdml.search.blocks import MEMORY, for_blocks
from tfdml.search.scores import Gallery

_TIE_RATE = 0.01


def retrieval(
    embeddings: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    k: int | Sequence[int] | None = None,
    extra: Sequence[str] = (),
    gallery: npt.ArrayLike | None = None,
    gallery_labels: npt.ArrayLike | None = None,
    queries: npt.ArrayLike | None = None,
    in_gallery: npt.ArrayLike | None = None,
    groups: npt.ArrayLike | None = None,
    gallery_groups: npt.ArrayLike | None = None,
    match: Match | None = None,
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
    by row number, so duplicates stay. With `queries` and `in_gallery`, some rows are queries, some are in the gallery,
    and some are both; those are removed from their own gallery, also by row number. With `gallery`, nothing is removed.
    Queries without a relevant item are excluded from the means and counted. The docstring of this module and
    docs/metrics.md hold the definitions.

    The score of a pair depends only on its two vectors (`tfdml.search.scores`), so the results do not depend on memory,
    threads or the BLAS. Scores are computed for one block of queries at a time, never for all pairs.

    Args:
        embeddings: `(queries, dim)` floats. They need not be normalized.
        labels: `(queries,)` integer class ids, any int64; with `match`, any array with one entry per row.
        k: ranks of recall@k, an integer or several; None: those of 1, 2, 4 and 8 that a query has candidates for.
        extra: names of more metrics, such as ("precision@5", "ndcg@10", "map@10").
        gallery: `(items, dim)` floats to search in, for separate queries and gallery.
        gallery_labels: `(items,)` integers, with `gallery`; with `match`, as `labels`.
        queries: `(rows,)` booleans, which rows of `embeddings` are queries; None for all. Not with `gallery`.
        in_gallery: `(rows,)` booleans, which rows of `embeddings` are in the gallery; None for all. Not with `gallery`.
        groups: `(queries,)` integers, such as type family, shop or sequence. All items of the query's group are removed
            from its gallery, regardless of class.
        gallery_groups: `(items,)` integers, with `gallery` and `groups`.
        match: function of the labels of some queries `(A, ...)` and of the gallery `(items, ...)` that returns a matrix
            `(A, items)`, of booleans or of grades of at least 0; items with a grade above 0 are relevant. None: items
            with an equal label are relevant. `tfdml.metrics.shared_labels` is for items with several labels,
            `tfdml.metrics.shared_levels` for hierarchies. It is called in several threads, for one block of queries at
            a time. Every ranking is sorted, so this is slower than comparing classes.
        metric: "cosine" (normalized here; a zero vector has cosine 0 with everything), "dot" or "euclidean".
        ties: "index" ranks items with the same score in the order of the gallery; "expected" returns the mean over all
            of their orders.
        average: "micro", the mean over queries, or "macro", the mean over classes of their means. Not with `match`.
        per_query: return arrays instead of means.
        full_map: False omits `map`, the only metric that needs the rank of every relevant item, and is faster.
        memory: bytes for the blocks of scores, in addition to one or two float32 copies of the embeddings, three with
            `queries` or `in_gallery`, and about 25 MiB per thread. What `match` uses inside is added.
        progress: show a progress bar.

    Returns:
        dict of floats: `recall@k` for each k, the metrics of `extra`, `precision@1`, `r_precision`, `map@r`, with
        `full_map` also `map`, `mrr`; and of integers: `queries`, the number of queries in the means, and `skipped`, the
        number without a relevant item. With `per_query`, dict of `(queries,)` float64 arrays with NaN where a query was
        skipped; no counts.

    Raises:
        ValueError: labels that are not integers; masked entries; different lengths; no query or an empty gallery; k
            below 1 or above the size of the gallery; an unknown name in `extra`; embeddings that are not finite or all
            the same; no query with a relevant item, or one class only; a result of `match` of another shape.

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
    about = {"labels": labels, "gallery_labels": gallery_labels, "groups": groups, "gallery_groups": gallery_groups}
    vectors, items, sides = _arranged(embeddings, gallery, queries, in_gallery, match, average, about)
    cutoffs = as_cutoffs(k, extra, sides.candidates)
    measure = _exact_values if match is None else _matched_values
    values, tie_rate = measure(vectors, items, sides, cutoffs, metric, ties, full_map, memory, progress)
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
    k: int | Sequence[int] | None = None,
    extra: Sequence[str] = (),
    gallery_labels: npt.ArrayLike | None = None,
    groups: npt.ArrayLike | None = None,
    gallery_groups: npt.ArrayLike | None = None,
    match: Match | None = None,
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
        labels: `(queries,)` integer class ids, any int64; with `match`, any array with one entry per row.
        k: ranks of recall@k, an integer or several; None: those of 1, 2, 4 and 8 that a query has candidates for.
        extra: names of more metrics, as in `retrieval`.
        gallery_labels: `(items,)` integers; with `match`, as `labels`. None: the queries are the gallery
            (leave-one-out), and a query's own row is removed from its list, at any place.
        groups: `(queries,)` integers. Items of the query's group are removed from its list. Where some queries are in
            the gallery, the ids of the examples as groups remove each query from its own list.
        gallery_groups: `(items,)` integers, with `gallery_labels` and `groups`.
        match: as in `retrieval`.
        at_r: False omits `r_precision` and `map@r`, so that lists may be shorter than the largest class.
        average: "micro", the mean over queries, or "macro", the mean over classes of their means. Not with `match`.
        per_query: return arrays instead of means.

    Returns:
        as `retrieval` with `full_map=False`. A query without a relevant item in its list counts 0 in `mrr`, which is
        therefore a lower bound.

    Raises:
        ValueError: a list with fewer remaining neighbors than the largest k, or with `at_r` than the query has relevant
            items; numbers that are not rows of the gallery, or that repeat within a list; other errors of `retrieval`.
    """
    require_average(average)
    neighbors = np.asarray(as_unmasked(neighbors, "neighbors"))
    if neighbors.ndim != 2 or neighbors.dtype.kind not in "iu":
        raise ValueError(
            f"Received neighbors of shape {neighbors.shape}, dtype {neighbors.dtype}, expected (queries, n) integers."
        )
    items = None if gallery_labels is None else len(np.asarray(gallery_labels))
    about = {"labels": labels, "gallery_labels": gallery_labels, "groups": groups, "gallery_groups": gallery_groups}
    sides = sides_of(match, average, **about, queries=len(neighbors), items=items)
    cutoffs = as_cutoffs(k, extra, sides.candidates)
    values = empty_values(cutoffs, len(neighbors), ["map"] if at_r else ["map", "r_precision", "map@r"])
    step = max(1, 2**20 // max(1, neighbors.shape[1] if match is None else len(sides.gallery_labels)))
    for start in range(0, len(neighbors), step):
        rows = slice(start, min(start + step, len(neighbors)))
        found = _values_of_lists(neighbors[rows].astype(np.int64), rows, sides, cutoffs, at_r)
        for name in values:
            values[name][rows] = found[name]
    return values if per_query else _means(values, sides.labels, average)


def _values_of_lists(listed, rows, sides, cutoffs, at_r):
    """Values per query from the lists of a slice of the queries."""
    _require_listed(listed, len(sides.gallery_labels), rows.start)
    queries = np.arange(rows.start, rows.stop)
    removed = sides.removed(queries, listed)
    grades, counts, best = sides.listed_grades(rows, listed, last_of(cutoffs))
    needed = np.maximum(last_of(cutoffs), counts if at_r else 0)
    _require_long_enough(queries, (~removed).sum(axis=1), np.minimum(needed, sides.gallery_sizes(queries)), counts)
    relevant = (grades > 0) & (listed >= 0) & ~removed
    ranks = np.where(relevant, np.cumsum(~removed, axis=1), np.inf)
    order = np.argsort(ranks, axis=1, kind="stable")[:, : max(1, relevant.sum(axis=1).max(initial=0))]
    ranks, gains = (np.take_along_axis(x, order, axis=1) for x in (ranks, grades))
    return values_of_ranks(ranks, counts, cutoffs, gains, best)


def _arranged(embeddings, gallery, queries, in_gallery, match, average, about):
    """Vectors of queries and gallery, and their `Sides`; `about` holds labels and groups of both."""
    vectors = as_vectors(embeddings, "embeddings")
    gallery = None if gallery is None else as_vectors(gallery, "gallery")
    if queries is not None or in_gallery is not None:
        vectors, gallery, about = by_flags(vectors, gallery, about, queries, in_gallery)
    items, size = (vectors, None) if gallery is None else (gallery, len(gallery))
    _require_same_dim(vectors, items)
    return vectors, items, sides_of(match, average, **about, queries=len(vectors), items=size)


def _scores(queries, items, sides, metric):
    """`Scores` of all queries; raises `ValueError` if all items are the same."""
    gallery = Gallery(items, metric)
    scores = gallery.scores(None if sides.leave_one_out and metric == "cosine" else queries)
    require_varied(gallery.augmented if metric == "cosine" else items)
    return scores


def _matched_values(queries, items, sides, cutoffs, metric, ties, full_map, memory, progress):
    """`_exact_values` for relevance by `match`."""
    scores = _scores(queries, items, sides, metric)
    values = empty_values(cutoffs, len(queries), [] if full_map else ["map"])
    tied = np.zeros(len(queries), bool)

    def evaluate(rows, block):
        scores.exact_block(rows, out=block)
        for query, row, grades in zip(range(rows.start, rows.stop), block, sides.grades(rows), strict=True):
            row[sides.excluded(query)] = -np.inf
            if grades.any():
                found, tied[query] = values_of_grades(row, grades, cutoffs, ties)
                for name in values:
                    values[name][query] = found[name]

    bar = _progress_bar(len(queries)) if progress else None
    needs = {"memory": memory, "row_bytes": 16 * len(items), "thread_bytes": 128 * len(items)}
    for done in for_blocks(evaluate, len(queries), len(items), **needs):
        if bar:
            bar.add(done)
    return values, tied.sum() / max(1, np.count_nonzero(~np.isnan(values["mrr"])))


def _exact_values(queries, items, sides, cutoffs, metric, ties, full_map, memory, progress):
    """Values per query, and the share of queries whose first relevant item ties with one that is not relevant."""
    scores = _scores(queries, items, sides, metric)
    counts = sides.counts
    values = empty_values(cutoffs, len(queries), [] if full_map else ["map"])
    tied = np.zeros(len(queries), bool)
    depth = np.full(len(queries), len(items)) if full_map else np.maximum(depth_of(cutoffs), counts)
    measure = partial(_in_order, width=max(1, counts.max())) if ties == "index" else _in_expectation

    def use(some, ranks):
        tied[some] = _tied_at_the_best(ranks, len(some))
        found = measure(ranks, counts[some], cutoffs)
        for name in values:
            values[name][some] = found[name]

    bar = _progress_bar(len(queries)) if progress else None
    thread_bytes = (64 if ties == "index" else 128) * len(items)
    needs = {"memory": memory, "row_bytes": 48 * max(1, counts.max()), "thread_bytes": thread_bytes}
    left = len(queries)
    for done in for_ranks(use, scores, sides, depth, **needs):
        done = min(done, left)  # Some queries are ranked in two ways.
        left -= done
        if bar and done:
            bar.add(done)
    return values, tied.sum() / max(1, np.count_nonzero(counts))


def _in_order(ranks, counts, cutoffs, width):
    """Values per query with equal scores ranked by position; NaN for a query without a relevant item."""
    lengths = np.bincount(ranks.query, minlength=len(counts))
    table = np.full((len(counts), width), np.inf)
    table[np.arange(width) < lengths[:, None]] = ranks.above + ranks.before + 1
    return values_of_ranks(table, counts, cutoffs)


def _in_expectation(ranks, counts, cutoffs):
    """Values per query as means over all orders of equal scores; NaN for a query without a relevant item."""
    values = empty_values(cutoffs, len(counts))
    ends = np.searchsorted(ranks.query, np.arange(len(counts) + 1))
    for i in np.flatnonzero(counts):
        some = slice(ends[i], ends[i + 1])
        for name, value in expected_values(ranks.above[some], ranks.equal[some], counts[i], cutoffs).items():
            values[name][i] = value
    return values


def _tied_at_the_best(ranks, queries):
    """Whether an item that is not relevant has the best relevant score of a query: `(queries,)` booleans."""
    ends = np.searchsorted(ranks.query, np.arange(queries + 1))
    lengths, tied = np.diff(ends), np.zeros(queries, bool)
    first = ends[:-1][lengths > 0]
    best = ranks.above == np.repeat(ranks.above[first], lengths[lengths > 0])
    tied[lengths > 0] = ranks.equal[first] > np.add.reduceat(best, first, dtype=int)
    return tied


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


def _require_same_dim(queries, items):
    if queries.shape[1] != items.shape[1]:
        raise ValueError(f"Received embeddings of dim {queries.shape[1]} and a gallery of dim {items.shape[1]}.")


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
    short = np.flatnonzero((left < needed) & (counts > 0))
    if len(short):
        i = short[np.argmax(needed[short] - left[short])]
        raise ValueError(
            f"Received {left[i]} neighbors for query {rows[i]} after removal of the query itself and its group, "
            f"expected at least {needed[i]}, the larger of k and its number of relevant items. Search for more "
            "neighbors; for recall@k and mrr alone pass at_r=False."
        )
