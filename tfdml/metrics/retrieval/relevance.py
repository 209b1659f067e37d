"""Relevance and exclusion rules between queries and gallery."""

import numpy as np

from tfdml._core.checks import as_ids, as_unmasked, require


class Sides:
    """Relevance and exclusion between queries and gallery, from their labels and groups."""

    def __init__(self, labels, gallery_labels, groups, gallery_groups, queries, items):
        """Checks the ids; `items` is None for leave-one-out."""
        if queries == 0 or items == 0:
            raise ValueError(f"Received {queries} queries and {items} gallery items, expected at least one of each.")
        self.leave_one_out = items is None
        for name, given in (("gallery_labels", gallery_labels), ("gallery_groups", gallery_groups)):
            if self.leave_one_out and given is not None:
                raise ValueError(f"Received {name} without a gallery. Leave it out, or pass the gallery as well.")
        if not self.leave_one_out and (gallery_labels is None or (groups is None) != (gallery_groups is None)):
            raise ValueError("A gallery needs gallery_labels, and groups need gallery_groups. Pass both or neither.")
        self.labels = as_ids(labels, "labels", queries)
        self.groups = None if groups is None else as_ids(groups, "groups", queries)
        self.gallery_labels, self.gallery_groups = self.labels, self.groups
        if not self.leave_one_out:
            self.gallery_labels = as_ids(gallery_labels, "gallery_labels", items)
            self.gallery_groups = None if groups is None else as_ids(gallery_groups, "gallery_groups", items)
        self.candidates = len(self.gallery_labels) - self.leave_one_out
        self._classmates = _members(self.labels, self.gallery_labels)
        codes = np.unique(np.concatenate([self.gallery_labels, self.labels]), return_inverse=True)[1].astype(np.int32)
        self._gallery_codes, self._codes = np.split(codes, [len(self.gallery_labels)])
        self._groupmates = None if groups is None else _members(self.groups, self.gallery_groups)
        self.counts = self._relevant_counts()

    def relevant(self, rows):
        """Pairs of queries and relevant items, for some queries `(m,)`, by query and then by item.

        Returns:
            query: `(P,)` places in `rows`.
            column: `(P,)` gallery rows.
        """
        order, left, right = self._classmates
        sizes = (right - left)[rows]
        query = np.repeat(np.arange(len(sizes)), sizes)
        column = order[np.arange(len(query)) + np.repeat(left[rows] - np.cumsum(sizes) + sizes, sizes)]
        kept = ~self.removed(rows[query], column[:, None])[:, 0]
        return query[kept], column[kept]

    def classmates(self, row):
        """Gallery rows of a query's class, ascending: its relevant items, and excluded items of the same class."""
        order, left, right = self._classmates
        return order[left[row] : right[row]]

    def same_class(self, rows, columns):
        """Whether queries and gallery rows have the same class, `(m,)` booleans, regardless of exclusion."""
        return self._codes[rows] == self._gallery_codes[columns]

    def listed_grades(self, rows, listed, last):
        """Relevance of listed gallery rows `(rows, n)`, regardless of exclusion, and the number of relevant items.

        Returns:
            `(rows, n)` booleans, `(rows,)` integers, and None for the highest grades: all grades are 1.
        """
        return self.gallery_labels[listed] == self.labels[rows, None], self.counts[rows], None

    def excluded(self, row):
        """Gallery rows that are not candidates for a query: its group, or in leave-one-out the query itself."""
        if self.groups is not None:
            order, left, right = self._groupmates
            return order[left[row] : right[row]]
        return [row] if self.leave_one_out else []

    def exclude(self, tile, rows, columns):
        """Set the scores of a tile, of a slice of queries with a slice of the gallery, to -inf for no candidates."""
        if self.groups is not None:
            np.copyto(tile, -np.inf, where=self.groups[rows, None] == self.gallery_groups[columns])
        elif self.leave_one_out:
            own = np.arange(max(rows.start, columns.start), min(rows.stop, columns.stop))
            tile[own - rows.start, own - columns.start] = -np.inf

    def removed(self, rows, listed):
        """Where `listed` `(len(rows), n)` is a gallery row that is not a candidate for the query; boolean."""
        found = listed == rows[:, None] if self.leave_one_out else np.zeros(listed.shape, bool)
        if self.groups is not None:
            found |= (self.gallery_groups[listed] == self.groups[rows, None]) & (listed >= 0)
        return found

    def _relevant_counts(self):
        """Number of relevant items of every query: `(queries,)`."""
        _, left, right = self._classmates
        if self.groups is None:
            return right - left - self.leave_one_out
        pairs = np.stack([self.labels, self.groups], axis=1)
        gallery_pairs = np.stack([self.gallery_labels, self.gallery_groups], axis=1)
        distinct, codes = np.unique(np.concatenate([gallery_pairs, pairs]), axis=0, return_inverse=True)
        gallery_codes, codes = np.split(codes.reshape(-1), [len(gallery_pairs)])
        return right - left - np.bincount(gallery_codes, minlength=len(distinct))[codes]

    def gallery_sizes(self, rows):
        """Number of candidates per query: `(len(rows),)`."""
        if self.groups is None:
            return np.full(len(rows), self.candidates)
        _, left, right = self._groupmates
        return len(self.gallery_labels) - (right - left)[rows]


def _members(ids, gallery_ids):
    """Gallery rows by id: those of query i are `order[left[i]:right[i]]`, ascending."""
    order = np.argsort(gallery_ids, kind="stable")
    ordered = gallery_ids[order]
    return order, np.searchsorted(ordered, ids, "left"), np.searchsorted(ordered, ids, "right")


def by_flags(vectors, gallery, about, queries, in_gallery):
    """Vectors of queries and gallery, and the dict of their labels and groups, from one set with flags.

    Without groups, each row is its own group, so that a query is removed from its gallery.
    """
    for name, given in (("gallery", gallery), *about.items()):
        if "gallery" in name and given is not None:
            raise ValueError(f"Received {name} with queries or in_gallery. Pass one set with flags, or two sets.")
    count, groups = len(vectors), about["groups"]
    q, g = _flagged("queries", queries, count), _flagged("in_gallery", in_gallery, count)
    labels = label_rows(about["labels"], "labels", count)
    groups = np.arange(count) if groups is None else as_ids(groups, "groups", count)
    sides = {"labels": labels[q], "gallery_labels": labels[g], "groups": groups[q], "gallery_groups": groups[g]}
    return vectors[q], vectors[g], sides


def _flagged(name, flags, count):
    """The flags of all rows as booleans; None for all of them."""
    flags = np.ones(count, bool) if flags is None else np.asarray(as_unmasked(flags, name))
    if flags.dtype != bool or flags.shape != (count,):
        raise ValueError(
            f"Received {name} of shape {flags.shape}, {flags.dtype}, expected ({count},) booleans: one flag per row."
        )
    return flags


def label_rows(labels, name, count):
    """Labels of any form as an array with one entry per row."""
    array = np.asarray(as_unmasked(labels, name))
    shape = array.shape[:1]
    require(shape == (count,), f"{name} of shape {array.shape}", f"({count}, ...): one entry per row")
    return array


def require_classes(sides):
    """Raise a ValueError if queries and gallery have one class only."""
    first = sides.labels[0]
    if (sides.labels == first).all() and (sides.gallery_labels == first).all():
        raise ValueError(
            f"Received labels of one class, {first}, so every item is relevant to every query and all metrics are 1. "
            "Evaluate at least two classes."
        )
