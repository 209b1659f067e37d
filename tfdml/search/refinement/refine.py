"""A query that learns which of its answers are positives."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_vectors, require
from tfdml.search.scores import l2_normalize

Vectors = np.ndarray | Sequence[npt.ArrayLike]
_RIDGE, _SHARE = 0.1, 0.5  # chosen by studies/labeling.py on validation classes


def refine(query: npt.ArrayLike, positive: Vectors, negative: Vectors | None = None) -> np.ndarray:
    """The query to search with once some answers are known to be right, and others to be wrong.

        q' = normalized(w / |w| + m / 2),   w = X^T (X X^T + 0.1 I)^-1 y

    m is the normalized mean of the query and the positives. w is a ridge regression of y = 1 for these and -1 for the
    negatives; the rows of X are unit vectors, less the point halfway between the means of both kinds. Without
    negatives, q' is m. A search takes it as any query, for the metrics "cosine" and "dot".

    Example:

        >>> refined = tfdml.search.refine([1.0, 0.0], positive=[[0.8, 0.6]], negative=[[0.8, -0.6]])
        >>> refined.astype(float).round(3).tolist()
        [0.737, 0.676]

    Args:
        query: `(dim,)` floats.
        positive: `(p, dim)` floats, right answers: one at least.
        negative: `(n, dim)` floats, wrong answers; None or no rows: none.

    Returns:
        `(dim,)` float32 of length 1.

    Source: Rocchio, Relevance Feedback in Information Retrieval, 1971, for m.
    """
    positives = _unit(np.atleast_2d(query), "query")
    require(len(positives) == 1, f"{len(positives)} queries", "one, (dim,)")
    require(len(positive) > 0, "no positives", "one right answer at least")
    positives = np.concatenate([positives, _unit(positive, "positive", positives.shape[1])])
    mean = l2_normalize(positives.mean(axis=0, keepdims=True))
    if negative is None or len(negative) == 0:
        return mean[0]
    wrong = _unit(negative, "negative", positives.shape[1])
    x = np.concatenate([positives, wrong]) - (positives.mean(axis=0) + wrong.mean(axis=0)) / 2
    y = np.repeat([1.0, -1.0], [len(positives), len(wrong)])
    w = x.T @ np.linalg.solve(x @ x.T + _RIDGE * np.eye(len(x)), y)
    return l2_normalize(l2_normalize(w[None].astype(np.float32)) + _SHARE * mean)[0]


def _unit(vectors, name, dim=None):
    rows = l2_normalize(as_vectors(vectors, name))
    received = f"{name} of dim {rows.shape[1]} and a query of dim {dim}"
    require(dim in (None, rows.shape[1]), received, "the same dim")
    return rows
