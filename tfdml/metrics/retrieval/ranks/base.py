"""The record of ranks, and keys that sort scores."""

from typing import NamedTuple

import numpy as np


class Ranks(NamedTuple):
    """Ranks of the relevant items of queries, by query and then by rank; each field is `(P,)` integers.

    Attributes:
        query: number of the query within its block.
        above: number of items with a higher score.
        earlier: number of items with the same score and an earlier row in the gallery; the rank is above + earlier + 1.
        equal: number of items with the same score, itself included. If all of them are relevant, each may instead be
            counted as alone, one above the other; no metric depends on this choice.
    """

    query: np.ndarray
    above: np.ndarray
    earlier: np.ndarray
    equal: np.ndarray


def descending_keys(scores):
    """Integers from 0 to 2^32 - 1 that sort as the scores `(m,)` float32 do in descending order, `(m,)` int64."""
    bits = (0 - scores).view(np.int32)  # 0 - x is never the negative zero; bits of negative floats sort in reverse
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)) + np.int64(2**31)


def scores_of_keys(keys):
    """The scores of `descending_keys`, `(m,)` float32."""
    bits = (keys - 2**31).astype(np.int32)
    return -(bits ^ ((bits >> 31) & 0x7FFFFFFF)).view(np.float32)


def descending_order(row):
    """Columns by descending score and then by column, ten times as fast as a stable argsort."""
    keys = (descending_keys(row) - 2**31) << 32  # the score in the upper half, the column in the lower one
    keys += np.arange(len(row))
    keys.sort()
    return keys & 0xFFFFFFFF
