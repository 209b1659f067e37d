"""The nearest vectors of a gallery, by score and then by position."""

import numpy as np

from tfdml.search.blocks import slices

_PAIRS_PER_EXACT = 32  # Scoring one pair alone takes as long as scoring this number of pairs of a block.
_SCORES_PER_STEP = 2**18  # Scores searched at the same time, so that they stay in the cache.


def nearest(scores, k, rows, block, allowed=None):
    """The `k` vectors of the gallery that score highest with each query of a slice: columns and scores, `(rows, k)`.

    The highest score comes first, equal ones by position. It overwrites `block`, `(rows, n)` float32. `allowed` is
    `(n,)` bool, the vectors to choose from, None for all; `k` is at most their number.
    """
    candidates = _candidates(scores, k, rows, block, allowed)
    if candidates is None:
        _exclude(scores.exact_block(rows, out=block), allowed)
        columns = np.stack([largest(row, k) for row in block])
        return columns, np.take_along_axis(block, columns, axis=1)
    row, column = np.divmod(candidates, block.shape[1])
    exact = scores.exact(rows.start + row, column)
    order = np.lexsort((-exact, row))  # Equal scores stay in order.
    best = order[np.searchsorted(row, np.arange(len(block)))[:, None] + np.arange(k)]
    return column[best], exact[best]


def _exclude(block, allowed):
    if allowed is not None:
        np.copyto(block, -np.inf, where=~allowed)


def _candidates(scores, k, rows, block, allowed):
    """Flat positions of the candidates for the `k` best of each row; None if scoring all pairs is faster.

    Where few slices hold an allowed vector, the threshold is -inf for all rows, to score all pairs.
    """
    limit = block.size // _PAIRS_PER_EXACT
    if len(block) * k > limit:
        return None
    _exclude(scores.approximate(rows, out=block), allowed)
    positions = []
    for step in slices(len(block), max(1, _SCORES_PER_STEP // block.shape[1])):
        queries = np.arange(rows.start + step.start, rows.start + step.stop)
        low = scores.below(queries, top_k_threshold(block[step], k))
        positions.append(step.start * block.shape[1] + np.flatnonzero(block[step] >= low[:, None]))
        limit -= len(positions[-1])
        if limit < 0:
            return None
    return np.concatenate(positions)


def largest(scores, k):
    """Positions `(k,)` of the `k` largest of `(n,)` scores, largest first, equal ones by position."""
    candidates = np.flatnonzero(scores >= top_k_threshold(scores, k))
    return candidates[np.argsort(-scores[candidates], kind="stable")[:k]]


def top_k_threshold(scores, k, spare=8):
    """A threshold that the `k` largest scores and few others reach: the k-th largest maximum of many slices.

    `scores` are `(..., n)`, `k` and the result `(...)`. Each item of `k` has `spare` slices: with more, fewer other
    scores reach the threshold. Where n is small, it is the k-th largest score itself.
    """
    n, num_slices = scores.shape[-1], max(1024, spare * int(np.max(k)))
    if n >= 2 * num_slices:
        scores = scores[..., : n // num_slices * num_slices].reshape(*scores.shape[:-1], -1, num_slices).max(axis=-2)
        n = num_slices
    if np.ndim(k) == 0:
        return np.partition(scores, n - k, axis=-1)[..., n - k]
    return np.take_along_axis(np.sort(scores, axis=-1), (n - k)[..., None], axis=-1)[..., 0]


def merged(ids, values, more_ids, more_values, k):
    """The `k` best of two lists per query, `(q, min(k, a + b))`; larger values are nearer, equal ones in list order."""
    if not ids.shape[1]:
        return more_ids, more_values
    ids, values = np.concatenate([ids, more_ids], axis=1), np.concatenate([values, more_values], axis=1)
    order = np.argsort(-values, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(ids, order, axis=1), np.take_along_axis(values, order, axis=1)


def means_of_best(values, numbers, counts, best):
    """The mean of the `best` largest values of each item of a row, at its first value; -inf at its others.

    Args:
        values: `(rows, n)`, falling.
        numbers: `(rows, n)` int, the item of each value.
        counts: `(items,)`, the number of values of each item; a row may lack the smallest. All count if they are fewer.
        best: whole number of at least 1.

    Returns:
        means: `(rows, n)` float64. A missing value counts as the last one of the row: the mean is an upper bound.
        is_whole: `(rows, n)` bool, whether no value is missing.
    """
    order, n = np.argsort(numbers, axis=1, kind="stable"), values.shape[1]
    sorted_values, items = np.take_along_axis(values, order, axis=1), np.take_along_axis(numbers, order, axis=1)
    sums, missing = np.zeros(values.shape), np.minimum(counts, best)[items]
    wanted = missing.copy()
    for rank in range(min(best, n)):
        is_same = items[:, rank:] == items[:, : n - rank]
        sums[:, : n - rank] += np.where(is_same, sorted_values[:, rank:], 0)
        missing[:, : n - rank] -= is_same
    sums = (sums + missing * values[:, -1:]) / wanted
    sums[:, 1:][items[:, 1:] == items[:, :-1]] = -np.inf
    means, is_whole = np.empty(values.shape), np.empty(values.shape, bool)
    np.put_along_axis(means, order, sums, axis=1)
    np.put_along_axis(is_whole, order, missing == 0, axis=1)
    return means, is_whole


def without_self(neighbors, scores, rows):
    """Neighbor lists `(queries, k - 1)` without the query itself, or without the last if copies rank above the query.

    `rows` is `(queries,)`, the row of each query in the gallery.
    """
    is_dropped = neighbors == rows[:, None]
    is_dropped[~is_dropped.any(axis=1), -1] = True
    shape = len(neighbors), neighbors.shape[1] - 1
    return neighbors[~is_dropped].reshape(shape), scores[~is_dropped].reshape(shape)
