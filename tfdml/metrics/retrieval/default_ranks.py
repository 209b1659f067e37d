"""Ranks of recall@k and cmc@k where none are given."""

from collections.abc import Sequence


def default_ranks(candidates: int, ranks: Sequence[int] = (1, 2, 4, 8)) -> tuple[int, ...]:
    """Those of some ranks, the first of which is 1, that a query with this number of candidates has, and at least 1."""
    return tuple(k for k in ranks if k <= max(candidates, 1))
