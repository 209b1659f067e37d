"""Metrics of single queries, from the ranks of their relevant items."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_NAME = re.compile(r"(recall|precision|ndcg|map)@([1-9][0-9]*)")


class Cutoff(NamedTuple):
    """A metric of the first `k` places, such as precision@5."""

    measure: str
    k: int

    def __str__(self):
        """The key of the metric."""
        return f"{self.measure}@{self.k}"


def default_ranks(num_candidates: int, ranks: Sequence[int] = (1, 2, 4, 8)) -> tuple[int, ...]:
    """The `ranks` that a query has candidates for, at least the first one."""
    return tuple(k for k in ranks if k <= max(num_candidates, 1))


def as_cutoffs(k: int | Sequence[int] | None, extra: Sequence[str], num_candidates: int) -> list[Cutoff]:
    """`Cutoff`s of recall@k, by k or `default_ranks`, and of the extra names, in their order; each once.

    Raises:
        ValueError: k that are not positive integers, an unknown name, or a rank above the number of candidates.
    """
    ks = np.unique(np.atleast_1d(default_ranks(num_candidates) if k is None else k)).tolist()
    if not ks or not all(isinstance(n, int) for n in ks) or ks[0] < 1:
        raise ValueError(f"Received k={k!r}, expected positive integers, such as (1, 2, 4, 8).")
    if isinstance(extra, str):
        raise ValueError(f"Received extra={extra!r}, expected several names. Write extra=({extra!r},).")
    cutoffs = list(dict.fromkeys([*(Cutoff("recall", n) for n in ks), *map(_parse, extra)]))
    last = last_of(cutoffs)
    if last > num_candidates:
        raise ValueError(f"Received k={last}, but a query has {num_candidates} candidates. Lower k.")
    return cutoffs


def last_of(cutoffs: Sequence[Cutoff]) -> int:
    """The number of first places that the metrics need."""
    return max(cutoff.k for cutoff in cutoffs)


def depth_of(cutoffs: Sequence[Cutoff]) -> int:
    """The number of first places of which all relevant items are needed, at least 1; recall@k needs the best one."""
    return max((cutoff.k for cutoff in cutoffs if cutoff.measure != "recall"), default=1)


def _parse(name):
    match = _NAME.fullmatch(str(name))
    if not match:
        raise ValueError(
            f"Received {name!r} in extra, expected names such as 'precision@5', 'ndcg@10' or 'map@10'. The other "
            "metrics are always returned."
        )
    return Cutoff(match[1], int(match[2]))


def values_of_ranks(ranks, num_relevant, cutoffs, gains=1.0, ideal_gains=None):
    """Values per query from the ranks of its relevant items.

    Args:
        ranks: `(queries, width)` ascending, from 1; infinity after the last.
        num_relevant: `(queries,)` R; 0 gives NaN.
        cutoffs: `Cutoff`s.
        gains: `(queries, width)` the grades of the items at these ranks, for nDCG; 1 where relevance has no grades.
        ideal_gains: `(queries, m)` the highest grades, descending, at least as many as the last cutoff or all; None
            where relevance has no grades.

    Returns:
        dict of `(queries,)` float64.
    """
    total = np.maximum(num_relevant, 1)
    ideal_gains = ideal_gains if ideal_gains is None else np.where(num_relevant[:, None] > 0, ideal_gains, 1)
    precision = np.arange(1, ranks.shape[1] + 1) / ranks
    within = ranks <= num_relevant[:, None]
    at_k = {
        "recall": lambda k: ranks[:, 0] <= k,
        "precision": lambda k: (ranks <= k).sum(axis=1) / k,
        "ndcg": lambda k: (gains * discounts(ranks, k)).sum(axis=1) / ideal_dcg(total, k, ideal_gains),
        "map": lambda k: (precision * (ranks <= k)).sum(axis=1) / total,
    }
    values = {
        **{str(cutoff): at_k[cutoff.measure](cutoff.k) for cutoff in cutoffs},
        "precision@1": ranks[:, 0] <= 1,
        "r_precision": within.sum(axis=1) / total,
        "map@r": (precision * within).sum(axis=1) / total,
        "map": precision.sum(axis=1) / total,
        "mrr": 1 / ranks[:, 0],
    }
    return {name: np.where(num_relevant > 0, value, np.nan) for name, value in values.items()}


def empty_values(cutoffs, num_queries, omitted=()):
    """The dict of `values_of_ranks` for a number of queries, filled with NaN."""
    names = values_of_ranks(np.ones((1, 1)), np.ones(1, int), cutoffs)
    return {name: np.full(num_queries, np.nan) for name in names if name not in omitted}


def discounts(ranks, k):
    """1 / log2(rank + 1) for ranks up to k, 0 beyond."""
    return np.where(ranks <= k, 1 / np.log2(np.asarray(ranks) + 1), 0)


def ideal_dcg(counts, k, best=None):
    """The highest DCG@k: of R relevant items without grades, or of the `best` grades. `(queries,)`."""
    weights = discounts(np.arange(1, k + 1), k)
    if best is None:
        return np.cumsum(weights)[np.minimum(counts, k) - 1]
    return best[..., :k] @ weights[: best.shape[-1]]
