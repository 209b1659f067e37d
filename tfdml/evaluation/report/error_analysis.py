"""Error analysis from nearest neighbors: errors, duplicates, suspicious labels."""

import numpy as np

from tfdml.evaluation.report.records import Confusion, Example, HardQuery, LabelSuspect, NearDuplicate, Neighbor
from tfdml.search import Exact

NEIGHBORS = 8  # of a query, on the page and for suspects
_AGREEING = 3  # first neighbors that agree on another class, at least, for a suspect


class Neighbors:
    """The nearest items of every query.

    Args:
        queries, items: `EmbeddedSet`s; the same one for leave-one-out, in which no query finds itself.

    Attributes:
        rows: `(queries, n)` int64 rows of the gallery, nearest first.
        similarities: `(queries, n)` float32 cosines.
        relevant: `(queries, n)` bool, whether the item has the class of the query.
    """

    def __init__(self, queries, items):
        self.queries, self.items = queries, items
        itself = queries is items
        rows, similarities = Exact(items.vectors).search(queries.vectors, min(NEIGHBORS + itself, len(items.labels)))
        if itself:
            rows, similarities = _without_self(rows, similarities)
        self.rows, self.similarities = rows, similarities
        self.relevant = items.labels[rows] == queries.labels[:, None]

    def query(self, row):
        """A query as an `Example`."""
        return _example(self.queries, row)

    def of(self, row):
        """The neighbors of a query, a tuple of `Neighbor`."""
        columns = zip(self.rows[row], self.similarities[row], self.relevant[row], strict=True)
        return tuple(
            Neighbor(_example(self.items, item), round(float(similarity), 6), bool(relevant))
            for item, similarity, relevant in columns
        )


def _without_self(rows, similarities):
    """The lists without the query's own row, or without the last place where exact copies have displaced it."""
    itself = rows == np.arange(len(rows))[:, None]
    itself[~itself.any(axis=1), -1] = True
    return tuple(array[~itself].reshape(len(rows), -1) for array in (rows, similarities))


def _example(embedded, row):
    return Example(int(row), embedded.name(row), embedded.class_name(embedded.labels[row]))


def hardest_queries(neighbors, ranks, shown):
    """The queries whose first relevant item ranks last; `ranks` is `(queries,)`, NaN for a query without one."""
    order = np.argsort(-ranks, kind="stable")[: min(shown, np.count_nonzero(~np.isnan(ranks)))]
    order = order[ranks[order] > 1]
    return tuple(HardQuery(neighbors.query(row), int(ranks[row]), neighbors.of(row)) for row in order)


def confusions(neighbors, ranks, shown):
    """The pairs of classes with the largest numbers of wrong first neighbors, among queries with a relevant item."""
    queries, items = neighbors.queries, neighbors.items
    counted = ~np.isnan(ranks)
    wrong = counted & ~neighbors.relevant[:, 0]
    pairs = np.stack([queries.labels[wrong], items.labels[neighbors.rows[wrong, 0]]], axis=1)
    pairs, errors = np.unique(pairs, axis=0, return_counts=True)
    classes, sizes = np.unique(queries.labels[counted], return_counts=True)
    totals = sizes[np.searchsorted(classes, pairs[:, 0])]
    order = np.lexsort((totals, -errors))[:shown]
    return tuple(
        Confusion(queries.class_name(label), items.class_name(other), int(errors[i]), int(totals[i]))
        for i, (label, other) in zip(order, pairs[order], strict=True)
    )


def near_duplicates(neighbors, shown):
    """The nearest pairs of a query and its first neighbor, each pair once."""
    query, item = np.arange(len(neighbors.rows)), neighbors.rows[:, 0]
    if neighbors.queries is neighbors.items:
        pairs = np.stack([np.minimum(query, item), np.maximum(query, item)], axis=1)
        query = np.sort(np.unique(pairs, axis=0, return_index=True)[1])
    order = query[np.argsort(-neighbors.similarities[query, 0], kind="stable")][:shown]
    return tuple(NearDuplicate(neighbors.query(row), neighbors.of(row)[0]) for row in order)


def label_suspects(neighbors, shown):
    """Queries whose first neighbors agree on another class, most and nearest neighbors first; and their number.

    The first three neighbors, at least, have one class, which is not the class of the query.
    """
    labels = neighbors.items.labels[neighbors.rows]
    agreeing = np.logical_and.accumulate((labels == labels[:, :1]) & ~neighbors.relevant, axis=1).sum(axis=1)
    suspects = np.flatnonzero(agreeing >= _AGREEING)
    order = np.lexsort((-neighbors.similarities[suspects, 0], -agreeing[suspects]))
    listed = tuple(
        LabelSuspect(
            neighbors.query(row), neighbors.items.class_name(labels[row, 0]), int(agreeing[row]), neighbors.of(row)
        )
        for row in suspects[order][:shown]
    )
    return listed, len(suspects)
