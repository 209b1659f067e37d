"""Recall of approximate search against exact search."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt


def neighbor_recall(neighbors: npt.ArrayLike, exact: npt.ArrayLike) -> float:
    """Share of the exact neighbors that an approximate search returned, in any order.

    (1 / q) sum over queries of |neighbors_i and exact_i| / |exact_i|

    Report it with every number that depends on approximate search.

    Example:

        >>> tfdml.search.neighbor_recall([[4, 1, 2], [7, 8, 9]], exact=[[1, 4, 5], [7, 8, 9]])  # (2 / 3 + 1) / 2
        0.8333333333333334

    Args:
        neighbors: `(q, m)` integer ids; may list more neighbors than `exact`.
        exact: `(q, k)` integer ids, no id twice in a row, for the same queries, at least one.
    """
    neighbors, exact = np.asarray(neighbors), np.asarray(exact)
    if neighbors.ndim != 2 or exact.ndim != 2 or len(neighbors) != len(exact) or exact.size == 0:
        raise ValueError(
            f"Received neighbors of shape {neighbors.shape} and exact of shape {exact.shape}, expected (q, m) and "
            "(q, k) with the same q > 0 and k > 0."
        )
    hits = sum(np.isin(expected, row).sum() for row, expected in zip(neighbors, exact, strict=True))
    return float(hits / exact.size)


def smallest_sufficient(is_sufficient: Callable[[int], bool], least: int, most: int) -> int:
    """The smallest sufficient number, or up to an eighth more; `most` if none is. Above it all are sufficient."""
    low = high = least
    while high < most and not is_sufficient(high):
        low, high = high, min(2 * high, most)
    while high - low > max(1, high // 8):
        middle = (low + high) // 2
        low, high = (low, middle) if is_sufficient(middle) else (middle, high)
    return high
