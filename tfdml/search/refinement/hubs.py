"""Correction of hubs: similarities relative to those that a vector has with its neighborhood."""

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_vectors, require, require_whole
from tfdml.search.exact import Exact
from tfdml.search.scores import l2_normalize


def neighborhood_similarity(x: npt.ArrayLike, cohort: npt.ArrayLike, *, k: int = 10) -> np.ndarray:
    """Mean cosine of each vector with its k nearest vectors of a cohort, r(x).

    A vector with many near neighbors, a hub, is similar to everything, and one threshold for all pairs accepts too many
    pairs of it. Cross-domain similarity local scaling (CSLS) is relative to the neighborhoods of both sides:

        csls(a, b) = cos(a, b) - (r(a) + r(b)) / 2

    Example:

        >>> x, cohort = np.array([[1.0, 0.0], [0.0, 1.0]]), [[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]
        >>> r = tfdml.search.neighborhood_similarity(x, cohort, k=2)
        >>> r.astype(float).round(4).tolist()  # (1 + 0.6) / 2 and (0.8 + 0) / 2
        [0.8, 0.4]

    Args:
        x: `(n, dim)` floats. They may have any norm.
        cohort: `(m, dim)` floats: vectors of the same network, of other classes, such as training images. In a search,
            the gallery for queries, and queries for the gallery, as in the paper.
        k: number of neighbors, 1 to m; 10 in the paper.

    Source: Conneau, Lample, Ranzato, Denoyer, Jegou, Word Translation Without Parallel Data, ICLR 2018, section 2.3,
    where the score is 2 cos(a, b) - r(a) - r(b).
    """
    x, cohort = as_vectors(x, "x"), as_vectors(cohort, "cohort")
    require(x.shape[1] == cohort.shape[1], f"x of dim {x.shape[1]}, cohort of {cohort.shape[1]}", "one dim")
    require_whole("k", k, 1, len(cohort))
    _, similarities = Exact(cohort).search(l2_normalize(x), k)
    return np.asarray(similarities.mean(axis=1), np.float32)
