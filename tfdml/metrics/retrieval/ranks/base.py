"""The record of ranks, ranks from counts, and sorting within groups."""

from typing import NamedTuple

import numpy as np


class Ranks(NamedTuple):
    """Ranks of the relevant items of queries, by query and then by rank; each field is `(P,)` integers.

    Attributes:
        query: number of the query within its block.
        above: number of items with a higher score.
        before: number of items with the same score and an earlier row in the gallery; the rank is above + before + 1.
        equal: number of items with the same score, itself included. If all of them are relevant, each may instead be
            counted as alone, one above the other; no metric depends on this choice.
    """

    query: np.ndarray
    above: np.ndarray
    before: np.ndarray
    equal: np.ndarray


def ranks_of_counts(query, column, above, before, equal):
    """`Ranks` of relevant items from the items that are not relevant.

    The more of these have a higher score, the lower is a relevant item. Relevant items with the same number above have
    no other item between them; those that tie with one share its score and follow the rest.

    Args:
        query, column: `(P,)` query within its block and gallery row of each relevant item, in any order.
        above, before, equal: `(P,)` numbers of items that are not relevant and have a higher score, the same score and
            an earlier row, and the same score.
    """
    tied = equal > 0
    order = np.lexsort((column, tied, above, query))
    query, above, before, equal, tied = (field[order] for field in (query, above, before, equal, tied))
    place = np.arange(len(query)) - np.searchsorted(query, query)
    new = ~tied
    new[:1] = True
    new[1:] |= ~tied[:-1] | (query[1:] != query[:-1]) | (above[1:] != above[:-1])
    starts = np.flatnonzero(new)
    lengths = np.diff(np.append(starts, len(query)))
    first, together = np.repeat(place[starts], lengths), np.repeat(lengths, lengths)
    return Ranks(query, above + first, before + place - first, equal + together)


def order_of(group, exact, column):
    """Sorts items by group, descending score and column.

    Args:
        group, exact, column: `(m,)` for each item its group, score and gallery row.

    Returns:
        order: `(m,)` item at each place.
        first: `(m,)` the first place with the same group and score, for each place.
        equal: `(m,)` number of places with the same group and score, for each place.
    """
    keys = group << 32 | descending(exact)
    order = np.argsort(keys)
    keys = keys[order]
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
    lengths = np.diff(starts, append=len(keys))
    first, equal = np.repeat(starts, lengths), np.repeat(lengths, lengths)
    tied = np.flatnonzero(equal > 1)
    order[tied] = order[tied][np.lexsort((column[order[tied]], keys[tied]))]
    return order, first, equal


def joined(arrays):
    """Index of the array that each entry comes from, and the concatenation of the arrays."""
    return np.repeat(np.arange(len(arrays)), [len(a) for a in arrays]), np.concatenate(arrays)


def descending(scores):
    """Integers from 0 to 2^32 - 1 that sort as the scores `(m,)` float32 do in descending order, `(m,)` int64.

    The bits of floats, as integers, sort like the floats where these are positive and in reverse where they are
    negative.
    """
    bits = (0 - scores).view(np.int32)  # 0 - x is never the negative zero
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)) + np.int64(2**31)


def from_descending(numbers):
    """The scores of the integers of `descending`, `(m,)` float32."""
    bits = (numbers - 2**31).astype(np.int32)
    return -(bits ^ ((bits >> 31) & 0x7FFFFFFF)).view(np.float32)
