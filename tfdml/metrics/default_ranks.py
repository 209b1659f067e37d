"""Ranks of recall@k where none are given."""


def default_ranks(candidates: int) -> tuple[int, ...]:
    """Those of the ranks 1, 2, 4 and 8 that a query with this number of candidates has, and at least 1."""
    return tuple(k for k in (1, 2, 4, 8) if k <= max(candidates, 1))
