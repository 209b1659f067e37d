"""Error analysis from nearest neighbors: errors, duplicates, suspicious labels."""

import numpy as np

from tfdml.evaluation.details.records import Confusion, Example, HardQuery, LabelSuspect, NearDuplicate, Neighbor
from tfdml.search import Exact
from tfdml.search.nearest import without_self

_NUM_NEIGHBORS = 8  # of a query
_MIN_AGREEING = 3  # neighbors of a label suspect


class NeighborLists:
    """The nearest items of some queries, nearest first; in leave-one-out no query finds itself.

    `rows` of the gallery, `similarities`, and whether an item is `relevant` are `(queries, n)`; `query_rows` None is
    for all queries.
    """

    def __init__(self, queries, items, *, metric="cosine", query_rows=None):
        self.queries, self.items = queries, items
        query_rows = np.arange(len(queries.labels)) if query_rows is None else query_rows
        finds_itself = queries is items
        k = min(_NUM_NEIGHBORS + finds_itself, len(items.labels))
        rows, similarities = Exact(items.vectors, metric=metric).search(queries.vectors[query_rows], k)
        if finds_itself:
            rows, similarities = without_self(rows, similarities, query_rows)
        self.rows, self.similarities = rows, similarities
        self.relevant = items.labels[rows] == queries.labels[query_rows][:, None]

    def query(self, row):
        """A query as an `Example`."""
        return _example(self.queries, row)

    def neighbors(self, row):
        """The neighbors of the query in a row of the lists, a tuple of `Neighbor`."""
        columns = zip(self.rows[row], self.similarities[row], self.relevant[row], strict=True)
        return tuple(
            Neighbor(_example(self.items, item), round(float(similarity), 6), bool(relevant))
            for item, similarity, relevant in columns
        )


def _example(embedded, row):
    return Example(int(row), embedded.name(row), embedded.class_name(embedded.labels[row]))


def hardest_queries(lists, ranks, shown):
    """The queries whose first relevant item ranks last; where it is always the first, those with the farthest one."""
    wrong, first = np.flatnonzero(ranks > 1), np.flatnonzero(ranks == 1)
    order = wrong[np.argsort(-ranks[wrong], kind="stable")]
    if not len(wrong):
        order = first[np.argsort(lists.similarities[first, 0], kind="stable")]
    return tuple(HardQuery(lists.query(row), int(ranks[row]), lists.neighbors(row)) for row in order[:shown])


def confusions(lists, ranks, shown):
    """The pairs of classes with the largest numbers of wrong first neighbors, among queries with a relevant item."""
    queries, items = lists.queries, lists.items
    is_counted = ~np.isnan(ranks)
    is_wrong = is_counted & ~lists.relevant[:, 0]
    pairs = np.stack([queries.labels[is_wrong], items.labels[lists.rows[is_wrong, 0]]], axis=1)
    pairs, errors = np.unique(pairs, axis=0, return_counts=True)
    classes, sizes = np.unique(queries.labels[is_counted], return_counts=True)
    totals = sizes[np.searchsorted(classes, pairs[:, 0])]
    order = np.lexsort((totals, -errors))[:shown]
    return tuple(
        Confusion(queries.class_name(label), items.class_name(other), int(errors[i]), int(totals[i]))
        for i, (label, other) in zip(order, pairs[order], strict=True)
    )


def near_duplicates(lists, shown):
    """The nearest pairs of a query and its first neighbor, each pair once."""
    query, item = np.arange(len(lists.rows)), lists.rows[:, 0]
    if lists.queries is lists.items:
        pairs = np.stack([np.minimum(query, item), np.maximum(query, item)], axis=1)
        query = np.sort(np.unique(pairs, axis=0, return_index=True)[1])
    order = query[np.argsort(-lists.similarities[query, 0], kind="stable")][:shown]
    return tuple(NearDuplicate(lists.query(row), lists.neighbors(row)[0]) for row in order)


def label_suspects(lists, shown):
    """Queries whose first three or more neighbors have one other class, most and nearest first; and their number."""
    labels = lists.items.labels[lists.rows]
    agreeing = np.logical_and.accumulate((labels == labels[:, :1]) & ~lists.relevant, axis=1).sum(axis=1)
    suspects = np.flatnonzero((agreeing >= _MIN_AGREEING) & lists.queries.is_labeled)
    order = np.lexsort((-lists.similarities[suspects, 0], -agreeing[suspects]))
    listed = tuple(
        LabelSuspect(lists.query(row), lists.items.class_name(labels[row, 0]), int(agreeing[row]), lists.neighbors(row))
        for row in suspects[order][:shown]
    )
    return listed, len(suspects)
