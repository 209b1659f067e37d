"""Unit vectors and scores from their definitions, in float64."""

import numpy as np


def unit(x):
    """`(n, dim)`: each row divided by its length."""
    x = np.asarray(x, np.float64)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def scores_of(queries, gallery, metric="cosine"):
    """`(q, n)`: cosine, product or negative distance, each from its two vectors alone, so that equal ones are ties."""
    q, g = np.asarray(queries, np.float64), np.asarray(gallery, np.float64)
    if metric == "euclidean":
        return -np.linalg.norm(q[:, None] - g, axis=2)
    if metric == "cosine":
        q, g = unit(q), unit(g)
    return np.einsum("qd,nd->qn", q, g)


def item_scores(scores, items, best=1):
    """Of each item, the score of its nearest vector, and the mean of its `best` scores: two dicts."""
    ordered = {item: sorted(scores[items == item], reverse=True) for item in set(items)}
    return (
        {item: values[0] for item, values in ordered.items()},
        {item: float(np.mean(values[:best])) for item, values in ordered.items()},
    )
