"""A query that learns from what its user says of some answers."""

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_vectors, require
from tfdml.search.scores import l2_normalize


def refine(query, positive, negative=None, *, alpha=1.0, beta=0.75, gamma=0.15):
    q = l2_normalize(as_vectors(np.atleast_2d(query), "query"))
    p = l2_normalize(as_vectors(positive, "positive"))
    n = l2_normalize(as_vectors(negative, "negative")) if negative is not None and len(negative) else np.zeros_like(q)
    return l2_normalize(alpha * q + beta * p.mean(axis=0) - gamma * n.mean(axis=0))[0]
