"""Recall of approximate search against exact search."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt


def neighbor_recall(found: npt.ArrayLike, exact: npt.ArrayLike) -> float:
    """Share of the exact neighbors that were found, in any order.

    (1 / q) sum over queries of |found_i and exact_i| / |exact_i|

    Report it with every number that depends on approximate search.

    Args:
        found: `(q, m)` integer ids; may list more neighbors than `exact`.
        exact: `(q, k)` integer ids, no id twice in a row, for the same queries.

    Returns:
        a float in [0, 1].

    Raises:
        ValueError: the numbers of queries differ, or are 0.
    """
    found, exact = np.asarray(found), np.asarray(exact)
    if found.ndim != 2 or exact.ndim != 2 or len(found) != len(exact) or exact.size == 0:
        raise ValueError(
            f"Received found of shape {found.shape} and exact of shape {exact.shape}, expected (q, m) and (q, k) "
            "with the same q > 0 and k > 0."
        )
    hits = sum(np.isin(right, row).sum() for row, right in zip(found, exact, strict=True))
    return float(hits / exact.size)


def smallest(reached: Callable[[int], bool], least: int, most: int) -> int:
    """The smallest number that reaches something which grows with it, or up to an eighth more; `most` if none does."""
    low = high = least
    while high < most and not reached(high):
        low, high = high, min(2 * high, most)
    while high - low > max(1, high // 8):
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high
