"""Metrics of single queries, from the ranks of their relevant items."""

import math
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

_NAME = re.compile(r"(recall|precision|ndcg|map)@([1-9][0-9]*)")
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)%")

Rank = int | str
"""A whole number, or a share of the candidates of a query, such as "1%"."""


class Cutoff(NamedTuple):
    """A metric of the first `k` neighbors, such as precision@5; `share` is the text of a share such as "1%"."""

    measure: str
    k: int
    share: str = ""

    def __str__(self):
        """The key of the metric."""
        return f"{self.measure}@{self.share or self.k}"


def listed_ranks(k: Rank | Sequence[Rank]) -> list[Rank]:
    """The ranks of recall@k as a list: positive whole numbers, and shares such as "1%"."""
    listed: Iterable[Rank] = [k] if isinstance(k, str) or not isinstance(k, Iterable) else k
    ranks: list[Rank] = [rank if isinstance(rank, str) else np.asarray(rank).item() for rank in listed]
    if not ranks or not all(map(_is_rank, ranks)):
        raise ValueError(f"Received k={k!r}, expected positive integers, such as (1, 2, 4, 8), or shares: '1%'.")
    return ranks


def number_of_rank(rank: Rank, num_candidates: int) -> int:
    """A rank as a whole number: a share rounds up to at least 1."""
    return math.ceil(_share(rank) * num_candidates) if isinstance(rank, str) else rank


def _is_rank(rank):
    return _share(rank) > 0 if isinstance(rank, str) else type(rank) is int and rank > 0


def _share(text):
    """The fraction that a percentage is; 0 for another text, or a share above 100%."""
    match = _PERCENT.fullmatch(text)
    share = Fraction(match[1]) / 100 if match else Fraction(0)
    return share if share <= 1 else Fraction(0)


def default_ranks(num_candidates: int, ranks: Sequence[int] = (1, 2, 4, 8)) -> tuple[int, ...]:
    """The `ranks` that a query has candidates for, at least the first one."""
    return tuple(k for k in ranks if k <= max(num_candidates, 1))


def as_cutoffs(k: Rank | Sequence[Rank] | None, extra: Sequence[str], num_candidates: int) -> list[Cutoff]:
    """`Cutoff`s of recall@k, by k or `default_ranks`, and of the extra names, in their order; each once."""
    ranks = default_ranks(num_candidates) if k is None else listed_ranks(k)
    if isinstance(extra, str):
        raise ValueError(f"Received extra={extra!r}, expected several names. Write extra=({extra!r},).")
    shares = [rank if isinstance(rank, str) else "" for rank in ranks]
    numbers = [number_of_rank(rank, num_candidates) for rank in ranks]
    recalls = [Cutoff("recall", number, share) for number, share in zip(numbers, shares, strict=True)]
    cutoffs = list(dict.fromkeys([*sorted(recalls, key=lambda cutoff: cutoff[1:]), *map(_parse, extra)]))
    last = last_of(cutoffs)
    if last > num_candidates:
        raise ValueError(f"Received k={last}, but a query has {num_candidates} candidates. Lower k.")
    return cutoffs


def last_of(cutoffs: Sequence[Cutoff]) -> int:
    """The number of first places that the metrics need."""
    return max(cutoff.k for cutoff in cutoffs)


def depth_of(cutoffs: Sequence[Cutoff]) -> int:
    """The number of first places whose relevant items are all needed, at least 1; recall@k needs the best one."""
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
    """Dict of values per query, `(queries,)` float64, NaN where R = `num_relevant`, `(queries,)`, is 0.

    `ranks` of relevant items are `(queries, width)`, ascending from 1, infinity after the last; `gains`, their grades.
    `ideal_gains` are the highest grades, descending, at least as many as the last cutoff or all; None without grades.
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
