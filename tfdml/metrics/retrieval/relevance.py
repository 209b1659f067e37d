"""Relevance and exclusion rules between queries and gallery."""

import numpy as np

from tfdml._core.checks import as_ids, as_readable, as_unmasked, require


class Relevance:
    """The relevant and the excluded gallery items of each query, from labels and groups.

    Gallery labels, groups and `num_items` are None in leave-one-out, where the queries are the gallery and each query
    is excluded by its row, also from `num_candidates`. `counts` is the number of relevant items of each query.
    """

    def __init__(self, labels, gallery_labels, groups, gallery_groups, num_queries, num_items):
        """Check the ids."""
        received = f"{num_queries} queries and {num_items} gallery items"
        require(num_queries != 0 and num_items != 0, received, "at least one of each")
        self.leave_one_out = num_items is None
        for name, ids in (("gallery_labels", gallery_labels), ("gallery_groups", gallery_groups)):
            if self.leave_one_out and ids is not None:
                raise ValueError(f"Received {name} without a gallery. Leave it out, or pass the gallery as well.")
        if not self.leave_one_out and (gallery_labels is None or (groups is None) != (gallery_groups is None)):
            raise ValueError("A gallery needs gallery_labels, and groups need gallery_groups. Pass both or neither.")
        self.labels = as_ids(labels, "labels", num_queries)
        self.groups = None if groups is None else as_ids(groups, "groups", num_queries)
        self.gallery_labels, self.gallery_groups = self.labels, self.groups
        if not self.leave_one_out:
            self.gallery_labels = as_ids(gallery_labels, "gallery_labels", num_items)
            self.gallery_groups = None if groups is None else as_ids(gallery_groups, "gallery_groups", num_items)
        self.num_candidates = len(self.gallery_labels) - self.leave_one_out
        self._classmates = _rows_by_id(self.labels, self.gallery_labels)
        codes = np.unique(np.concatenate([self.gallery_labels, self.labels]), return_inverse=True)[1].astype(np.int32)
        self._gallery_codes, self._codes = np.split(codes, [len(self.gallery_labels)])
        self._groupmates = None if groups is None else _rows_by_id(self.groups, self.gallery_groups)
        self.counts = self._relevant_counts()

    def relevant(self, rows):
        """Pairs of queries and relevant items, `(P,)` indices of `rows` and gallery rows, by query and then by item."""
        order, start, stop = self._classmates
        sizes = (stop - start)[rows]
        query = np.repeat(np.arange(len(sizes)), sizes)
        column = order[np.arange(len(query)) + np.repeat(start[rows] - np.cumsum(sizes) + sizes, sizes)]
        is_candidate = ~self.is_excluded(rows[query], column[:, None])[:, 0]
        return query[is_candidate], column[is_candidate]

    def classmates(self, row):
        """Gallery rows of a query's class, ascending: its relevant items, and excluded items of the same class."""
        order, start, stop = self._classmates
        return order[start[row] : stop[row]]

    def same_class(self, rows, columns):
        """Whether queries and gallery rows have the same class, `(m,)` booleans, regardless of exclusion."""
        return self._codes[rows] == self._gallery_codes[columns]

    def grades_of_lists(self, rows, neighbors, last):
        """Relevance of neighbors, `(rows, n)` booleans despite exclusion; numbers of relevant items; None for grades of
        1.
        """
        return self.gallery_labels[neighbors] == self.labels[rows, None], self.counts[rows], None

    def excluded(self, row):
        """Gallery rows that are not candidates for a query: its group, or in leave-one-out the query itself."""
        if self.groups is not None:
            order, start, stop = self._groupmates
            return order[start[row] : stop[row]]
        return [row] if self.leave_one_out else []

    def exclude(self, tile, rows, columns):
        """Set the scores of a tile, a slice of queries with a slice of the gallery, to -inf for excluded items."""
        if self.groups is not None:
            np.copyto(tile, -np.inf, where=self.groups[rows, None] == self.gallery_groups[columns])
        elif self.leave_one_out:
            diagonal = np.arange(max(rows.start, columns.start), min(rows.stop, columns.stop))
            tile[diagonal - rows.start, diagonal - columns.start] = -np.inf

    def is_excluded(self, rows, neighbors):
        """Whether each neighbor `(len(rows), n)`, a gallery row or -1, is no candidate for its query; booleans."""
        is_excluded = neighbors == rows[:, None] if self.leave_one_out else np.zeros(neighbors.shape, bool)
        if self.groups is not None:
            is_excluded |= (self.gallery_groups[neighbors] == self.groups[rows, None]) & (neighbors >= 0)
        return is_excluded

    def _relevant_counts(self):
        _, start, stop = self._classmates
        if self.groups is None:
            return stop - start - self.leave_one_out
        pairs = np.stack([self.labels, self.groups], axis=1)
        gallery_pairs = np.stack([self.gallery_labels, self.gallery_groups], axis=1)
        distinct, codes = np.unique(np.concatenate([gallery_pairs, pairs]), axis=0, return_inverse=True)
        gallery_codes, codes = np.split(codes.reshape(-1), [len(gallery_pairs)])
        return stop - start - np.bincount(gallery_codes, minlength=len(distinct))[codes]

    def candidate_counts(self, rows):
        """Number of candidates per query: `(len(rows),)`."""
        if self.groups is None:
            return np.full(len(rows), self.num_candidates)
        _, start, stop = self._groupmates
        return len(self.gallery_labels) - (stop - start)[rows]


def _rows_by_id(ids, gallery_ids):
    """Gallery rows by id: `order[start[i]:stop[i]]` are the rows with the id of query i, ascending."""
    order = np.argsort(gallery_ids, kind="stable")
    ordered = gallery_ids[order]
    return order, np.searchsorted(ordered, ids, "left"), np.searchsorted(ordered, ids, "right")


def split_by_flags(vectors, gallery, annotations, queries, in_gallery):
    """Vectors of queries and gallery, and the dict of their labels and groups, from one set with flags.

    Without groups, each row is its own group, to exclude a query from its gallery.
    """
    for name, array in (("gallery", gallery), *annotations.items()):
        if "gallery" in name and array is not None:
            raise ValueError(f"Received {name} with queries or in_gallery. Pass one set with flags, or two sets.")
    count, groups = len(vectors), annotations["groups"]
    q, g = _as_flags(queries, "queries", count), _as_flags(in_gallery, "in_gallery", count)
    labels = as_rows(annotations["labels"], "labels", count)
    groups = np.arange(count) if groups is None else as_ids(groups, "groups", count)
    split = {"labels": labels[q], "gallery_labels": labels[g], "groups": groups[q], "gallery_groups": groups[g]}
    return vectors[q], vectors[g], split


def _as_flags(flags, name, count):
    """One boolean for each row; None for all True."""
    flags = np.ones(count, bool) if flags is None else np.asarray(as_unmasked(flags, name))
    is_flags = flags.dtype == bool and flags.shape == (count,)
    require(is_flags, f"{name} of shape {flags.shape}, {flags.dtype}", f"({count},) booleans: one flag per row")
    return flags


def as_rows(labels, name, count):
    """Labels of any form as an array with one entry per row."""
    array = np.asarray(as_readable(as_unmasked(labels, name)))
    shape = array.shape[:1]
    require(shape == (count,), f"{name} of shape {array.shape}", f"({count}, ...): one entry per row")
    return array


def require_classes(relevance):
    """Raise a ValueError if queries and gallery have one class only."""
    first = relevance.labels[0]
    if (relevance.labels == first).all() and (relevance.gallery_labels == first).all():
        raise ValueError(
            f"Received labels of one class, {first}, so every item is relevant to every query and all metrics are 1. "
            "Evaluate at least two classes."
        )
