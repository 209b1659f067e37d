"""Retrieval metrics, computed from the ranks of the items of a query's class; docs/metrics.md defines them.

All except map follow from the ranks of the relevant items among the first max(k, R), and the rank of the best one.
"""

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_unmasked, as_vectors, require, require_metric, require_one_of, require_varied
from tfdml._core.terminal import show_progress
from tfdml.metrics.retrieval.match import Match, relevance_of, values_of_grades
from tfdml.metrics.retrieval.measures import (
    Cutoff,
    Rank,
    as_cutoffs,
    depth_of,
    empty_values,
    last_of,
    values_of_ranks,
)
from tfdml.metrics.retrieval.ranks import map_blocks, measure_ranks
from tfdml.metrics.retrieval.relevance import Relevance, split_by_flags
from tfdml.metrics.retrieval.ties import expected_values
from tfdml.metrics.statistics.intervals import AVERAGES, mean_over_queries
from tfdml.search.blocks import MAX_BYTES
from tfdml.search.scores import Gallery, Scores
from tfdml.typing import Labels

_TIE_RATE = 0.01


def retrieval(
    embeddings: npt.ArrayLike | None,
    labels: Labels,
    *,
    neighbors: npt.ArrayLike | None = None,
    k: Rank | Sequence[Rank] | None = None,
    extra: Sequence[str] = (),
    gallery: npt.ArrayLike | None = None,
    gallery_labels: Labels | None = None,
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
    at_r: bool = True,
    max_bytes: int = MAX_BYTES,
    verbose: int = 0,
) -> dict[str, Any]:
    """Exact retrieval metrics of embeddings, or the metrics of the neighbor lists of any search.

    Without `gallery`, every row is a query against all other rows (leave-one-out). The metric removes a query from its
    gallery by row number, so duplicates stay. With `queries` and `in_gallery`, some rows are queries, some are in the
    gallery, and some are both; the metric removes a row that is both from its own gallery. With `gallery`, it removes
    nothing. The means exclude queries without a relevant item; a count says how many. docs/metrics.md has the
    definitions.

    The score of a pair depends only on its two vectors, so the results do not depend on memory, threads or the BLAS.

    Example: rows 0 and 2 have their classmate as the first neighbor, rows 1 and 3 as the second.

        >>> x = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.6, 0.8]])
        >>> numbers = tfdml.metrics.retrieval(x, [0, 0, 1, 1], k=(1, 2))
        >>> numbers["recall@1"], numbers["recall@2"], numbers["mrr"]
        (0.5, 1.0, 0.75)

    Neighbor lists: search for at least the number of members of the largest class, because the metric removes the query
    itself.

        >>> lists = [[0, 1, 2], [1, 2, 0], [2, 3, 1], [3, 1, 2]]  # 1 2, 2 0, 3 1 and 1 2 without the query
        >>> numbers = tfdml.metrics.retrieval(None, [0, 0, 1, 1], neighbors=lists, k=(1, 2))
        >>> numbers["recall@1"], numbers["recall@2"], numbers["mrr"]
        (0.5, 1.0, 0.75)

    Args:
        embeddings: `(queries, dim)` floats. They may have any norm. None with `neighbors`.
        labels: `(queries,)` integer class ids, any int64; with `match`, any array with one entry per row.
        neighbors: `(queries, n)` integers in place of embeddings, row numbers in the gallery, nearest first. -1 where
            the search found nothing counts as an item that is not relevant. Without `gallery_labels`, the queries are
            the gallery, and the metric removes each query from its own list, at any rank. Where some queries are in the
            gallery, pass example ids as `groups` to exclude each query from its own list. There is no `map`, and `mrr`
            is a lower bound: a query without a relevant item in its list counts 0.
        k: ranks of recall@k, an integer or several; None: 1, 2, 4 and 8, as far as a query has candidates. A text such
            as "1%" is a share of the candidates, rounded up: `k=(1, "1%")` gives recall@1 and recall@1%.
        extra: names of more metrics, such as ("precision@5", "ndcg@10", "map@10").
        gallery: `(items, dim)` floats to search in.
        gallery_labels: `(items,)` integers, with `gallery` or `neighbors`; with `match`, as `labels`.
        queries, in_gallery: `(rows,)` booleans, which rows of `embeddings` are queries and which are in the gallery;
            None for all. Not with `gallery`.
        groups: `(queries,)` integers, such as type family, shop or sequence. A query ignores gallery items of its
            group, regardless of class.
        gallery_groups: `(items,)` integers, with `gallery_labels` and `groups`.
        match: function of the labels of some queries `(A, ...)` and of the gallery `(items, ...)` that returns a matrix
            `(A, items)`, of booleans or of grades of at least 0; items with a grade above 0 are relevant. None: items
            with an equal label are relevant. Several threads call it, for one block of queries at a time. It sorts
            every ranking, so this is slower than comparing classes.
        metric: "cosine" (normalized here; a zero vector has cosine 0 with everything), "dot" or "euclidean".
        ties: "index" ranks items with the same score in the order of the gallery; "expected" returns the mean over all
            of their orders.
        average: "micro", the mean over queries, or "macro", the mean over classes of their means. Not with `match`.
        per_query: return arrays instead of means.
        full_map: False omits `map`, the only metric that needs the rank of every relevant item, and is faster.
        at_r: False omits `r_precision` and `map@r` of `neighbors`, so that lists may be shorter than the largest class.
        max_bytes: bytes for the blocks of scores, beside up to three float32 copies of the embeddings, about 25 MiB per
            thread, and the memory of `match`.
        verbose: 1 shows a progress bar, 0 does not.

    Returns:
        dict of floats: `recall@k` for each k, the metrics of `extra`, `precision@1`, `r_precision`, `map@r`, with
        `full_map` also `map`, `mrr`; and of integers: `queries`, the number of queries in the means, and `skipped`, the
        number without a relevant item. With `per_query`, dict of `(queries,)` float64 arrays with NaN for a skipped
        query; no counts.

    Raises:
        ValueError: arguments that do not fit each other; no query with a relevant item, or one class only; a list that
            repeats an item, or is shorter than the largest k or, with `at_r`, than the number of relevant items.

    Source: Musgrave et al., A Metric Learning Reality Check, ECCV 2020 (R-Precision, MAP@R); Oh Song et al., Deep
    Metric Learning via Lifted Structured Feature Embedding, CVPR 2016 (Recall@k).
    """
    require_metric(metric)
    require_one_of(AVERAGES, average=average)
    require_one_of(("index", "expected"), ties=ties)
    sides = {"gallery": gallery, "queries": queries, "in_gallery": in_gallery}
    _require_embeddings_or_lists(embeddings, neighbors, sides)
    annotations = {
        "labels": labels,
        "gallery_labels": gallery_labels,
        "groups": groups,
        "gallery_groups": gallery_groups,
    }
    if neighbors is not None:
        values, relevance = _of_lists(neighbors, annotations, match, average, k, extra, at_r)
    else:
        vectors, items, relevance = _vectors_and_relevance(embeddings, annotations, match, average, **sides)
        equal_labels = gallery_labels is not None and groups is None and np.array_equal(labels, gallery_labels)
        if equal_labels and np.array_equal(vectors, items):
            warnings.warn("The gallery is the queries: each query finds itself. Leave out gallery=.", stacklevel=2)
        searched = Gallery(items, metric)
        scores = searched.scores(None if relevance.leave_one_out and metric == "cosine" else vectors)
        require_varied(searched.augmented if metric == "cosine" else items)
        ranking = _Ranking(scores, relevance, as_cutoffs(k, extra, relevance.num_candidates), ties, full_map)
        blocks = (_by_rank if match is None else _by_grade)(ranking, max_bytes, verbose)
        values, tie_rate = _values_per_query(ranking, blocks, verbose)
        if ties == "index" and tie_rate > _TIE_RATE:
            warnings.warn(
                f"For {tie_rate:.1%} of the queries the first relevant item ties with one that is not relevant, and "
                "the order of the gallery decides. Pass ties='expected', or look for duplicates and collapsed "
                "embeddings.",
                stacklevel=2,
            )
    return values if per_query else _means(values, relevance.labels, average)


def _require_embeddings_or_lists(embeddings, neighbors, sides):
    """Raise a ValueError unless there are embeddings, or neighbor lists, whose gallery is known by its labels."""
    number = "both" if neighbors is not None else "neither"
    require((embeddings is None) != (neighbors is None), f"{number} of embeddings and neighbors", "one of the two")
    received = " and ".join(name for name, side in sides.items() if side is not None)
    require(neighbors is None or not received, f"{received} with neighbors", "gallery_labels, or none")


def _of_lists(neighbors, annotations, match, average, k, extra, at_r):
    neighbors = np.asarray(as_unmasked(neighbors, "neighbors"))
    received = f"neighbors of shape {neighbors.shape}, dtype {neighbors.dtype}"
    require(neighbors.ndim == 2 and neighbors.dtype.kind in "iu", received, "(queries, n) integers")
    gallery_labels = annotations["gallery_labels"]
    num_items = None if gallery_labels is None else len(np.asarray(gallery_labels))
    relevance = relevance_of(match, average, **annotations, num_queries=len(neighbors), num_items=num_items)
    cutoffs = as_cutoffs(k, extra, relevance.num_candidates)
    values = empty_values(cutoffs, len(neighbors), ["map"] if at_r else ["map", "r_precision", "map@r"])
    step = max(1, 2**20 // max(1, neighbors.shape[1] if match is None else len(relevance.gallery_labels)))
    for start in range(0, len(neighbors), step):
        rows = slice(start, min(start + step, len(neighbors)))
        block_values = _values_of_lists(neighbors[rows].astype(np.int64), rows, relevance, cutoffs, at_r)
        for name in values:
            values[name][rows] = block_values[name]
    return values, relevance


def _values_of_lists(neighbors, rows, relevance, cutoffs, at_r):
    _require_rows_of_gallery(neighbors, len(relevance.gallery_labels), rows.start)
    queries = np.arange(rows.start, rows.stop)
    is_candidate = ~relevance.is_excluded(queries, neighbors)
    grades, counts, best = relevance.grades_of_lists(rows, neighbors, last_of(cutoffs))
    num_needed = np.minimum(np.maximum(last_of(cutoffs), counts if at_r else 0), relevance.candidate_counts(queries))
    _require_long_enough(queries, is_candidate.sum(axis=1), num_needed, counts)
    is_relevant = (grades > 0) & (neighbors >= 0) & is_candidate
    ranks = np.where(is_relevant, np.cumsum(is_candidate, axis=1), np.inf)
    order = np.argsort(ranks, axis=1, kind="stable")[:, : max(1, is_relevant.sum(axis=1).max(initial=0))]
    ranks, gains = (np.take_along_axis(x, order, axis=1) for x in (ranks, grades))
    return values_of_ranks(ranks, counts, cutoffs, gains, best)


def _vectors_and_relevance(embeddings, annotations, match, average, *, gallery, queries, in_gallery):
    """Vectors of queries and gallery, and their `Relevance`; `annotations` holds labels and groups of both."""
    vectors = as_vectors(embeddings, "embeddings")
    gallery = None if gallery is None else as_vectors(gallery, "gallery")
    if queries is not None or in_gallery is not None:
        vectors, gallery, annotations = split_by_flags(vectors, gallery, annotations, queries, in_gallery)
    items, num_items = (vectors, None) if gallery is None else (gallery, len(gallery))
    if vectors.shape[1] != items.shape[1]:
        raise ValueError(f"Received embeddings of dim {vectors.shape[1]} and a gallery of dim {items.shape[1]}.")
    return vectors, items, relevance_of(match, average, **annotations, num_queries=len(vectors), num_items=num_items)


class _Ranking(NamedTuple):
    scores: Scores
    relevance: Relevance
    cutoffs: list[Cutoff]
    ties: str
    full_map: bool

    def empty_values(self, num_queries):
        """A dict of the metrics of `num_queries` queries, filled with NaN."""
        return empty_values(self.cutoffs, num_queries, () if self.full_map else ("map",))


def _values_per_query(ranking, blocks, verbose):
    """Metrics per query, and the share of queries whose first relevant item ties with one that is not relevant.

    `blocks` yields numbers `(m,)` of queries and `(values, is_tied)`, their metrics and whether each ties so.
    """
    num_queries, num_ranked = len(ranking.scores), 0
    values, is_tied = ranking.empty_values(num_queries), np.zeros(num_queries, bool)
    for queries, (block_values, is_block_tied) in blocks:
        is_tied[queries] = is_block_tied
        for name, array in values.items():
            array[queries] = block_values[name]
        num_ranked += len(queries)
        if verbose:
            show_progress("queries ranked", num_ranked, num_queries)
    return values, is_tied.sum() / max(1, np.count_nonzero(~np.isnan(values["mrr"])))


def _by_rank(ranking, max_bytes, verbose):
    """The blocks of `_values_per_query`, from the ranks of the relevant items."""
    scores, relevance, cutoffs, ties, full_map = ranking
    counts, num_items = relevance.counts, len(scores.gallery)
    width = max(1, counts.max())
    depth = np.full(len(scores), num_items) if full_map else np.maximum(depth_of(cutoffs), counts)
    values_of = partial(_values_by_position, width=width) if ties == "index" else _expected_values

    def measure(queries, ranks):
        return values_of(ranks, counts[queries], cutoffs), _is_best_tied(ranks, len(queries))

    thread_bytes = (64 if ties == "index" else 128) * num_items
    needs = {"max_bytes": max_bytes, "row_bytes": 48 * width, "thread_bytes": thread_bytes}
    return measure_ranks(measure, scores, relevance, depth, verbose=verbose, **needs)


def _by_grade(ranking, max_bytes, verbose):
    """The blocks of `_values_per_query`, from the grades of the gallery by `match`."""
    scores, num_items = ranking.scores, len(ranking.scores.gallery)
    needs = {"max_bytes": max_bytes, "row_bytes": 16 * num_items, "thread_bytes": 128 * num_items}
    return map_blocks(partial(_measure_grades, ranking), len(scores), num_items, **needs)


def _measure_grades(ranking, rows, block):
    """The queries of a slice, their values and whether each is tied; It overwrites `block` `(rows, items)`."""
    queries, relevance = np.arange(rows.start, rows.stop), ranking.relevance
    values, is_tied = ranking.empty_values(len(queries)), np.zeros(len(queries), bool)
    ranking.scores.exact_block(rows, out=block)
    for i, (row, grades) in enumerate(zip(block, relevance.grades(rows), strict=True)):
        row[relevance.excluded(queries[i])] = -np.inf
        if grades.any():
            values_of_query, is_tied[i] = values_of_grades(row, grades, ranking.cutoffs, ranking.ties)
            for name in values:
                values[name][i] = values_of_query[name]
    return queries, (values, is_tied)


def _values_by_position(ranks, counts, cutoffs, width):
    lengths = np.bincount(ranks.query, minlength=len(counts))
    table = np.full((len(counts), width), np.inf)
    table[np.arange(width) < lengths[:, None]] = ranks.above + ranks.earlier + 1
    return values_of_ranks(table, counts, cutoffs)


def _expected_values(ranks, counts, cutoffs):
    """Values per query as means over all orders of equal scores; NaN for a query without a relevant item."""
    values = empty_values(cutoffs, len(counts))
    offsets = np.searchsorted(ranks.query, np.arange(len(counts) + 1))
    for i in np.flatnonzero(counts):
        rows = slice(offsets[i], offsets[i + 1])
        for name, value in expected_values(ranks.above[rows], ranks.equal[rows], counts[i], cutoffs).items():
            values[name][i] = value
    return values


def _is_best_tied(ranks, num_queries):
    """Whether an item that is not relevant has the best relevant score of a query: `(num_queries,)` booleans."""
    offsets = np.searchsorted(ranks.query, np.arange(num_queries + 1))
    lengths, is_tied = np.diff(offsets), np.zeros(num_queries, bool)
    first = offsets[:-1][lengths > 0]
    is_best = ranks.above == np.repeat(ranks.above[first], lengths[lengths > 0])
    is_tied[lengths > 0] = ranks.equal[first] > np.add.reduceat(is_best, first, dtype=int)
    return is_tied


def _means(values, labels, average):
    skipped = int(np.isnan(values["mrr"]).sum())
    if skipped == len(labels):
        raise ValueError(
            f"None of the {skipped} queries has a relevant item in its gallery, so there is no mean. "
            "Check that the labels of queries and gallery are the same ids, and that classes have two members."
        )
    means = {name: mean_over_queries(value, labels, average) for name, value in values.items()}
    return {**means, "queries": len(labels) - skipped, "skipped": skipped}


def _require_rows_of_gallery(neighbors, num_items, start):
    """Raise a ValueError unless every list holds distinct rows of the gallery, or -1."""
    if neighbors.size and (neighbors.min() < -1 or neighbors.max() >= num_items):
        raise ValueError(
            f"Received neighbors from {neighbors.min()} to {neighbors.max()}, expected row numbers of the gallery, "
            f"0 to {num_items - 1}, or -1 for none. Search with an index whose ids are row numbers."
        )
    ascending = np.sort(neighbors, axis=1)
    repeats = ((ascending[:, 1:] == ascending[:, :-1]) & (ascending[:, 1:] >= 0)).any(axis=1)
    if repeats.any():
        raise ValueError(f"Received neighbors that repeat within a list, first for query {start + repeats.argmax()}.")


def _require_long_enough(queries, num_neighbors, num_needed, counts):
    """Raise a ValueError where a list is too short for the metrics; skipped queries need no neighbors."""
    short = np.flatnonzero((num_neighbors < num_needed) & (counts > 0))
    if len(short):
        i = short[np.argmax(num_needed[short] - num_neighbors[short])]
        raise ValueError(
            f"Received {num_neighbors[i]} neighbors for query {queries[i]} after removal of the query itself and its "
            f"group, expected at least {num_needed[i]}, the larger of k and its number of relevant items. Search for "
            "more neighbors; for recall@k and mrr alone pass at_r=False."
        )
