"""Late interaction: scores of sets of vectors, such as maps of features."""

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_vectors, require
from tfdml.search.scores import l2_normalize


def maxsim(queries: npt.ArrayLike, candidates: npt.ArrayLike) -> np.ndarray:
    """Late interaction (MaxSim): each vector of a query takes the most similar vector of a candidate.

        s(q, c) = mean over i of max over j of cos(q_i, c_j)

    So a part of the query may be anywhere in the candidate. It is a model of pairs for `rerank`: an index finds
    neighbors by one vector per image, and their maps of features, `tfdml.networks.feature_map`, put them in order.

    Example: both vectors of the query are in candidate 0, one of them is in candidate 1.

        >>> query = [[[1.0, 0.0], [0.0, 1.0]]]
        >>> tfdml.search.maxsim(query, [[[0.0, 2.0], [3.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]]).tolist()
        [1.0, 0.5]

    Args:
        queries: `(batch, ..., dim)` numbers: vectors, or maps of any shape; or `(1, ..., dim)`, for all candidates.
        candidates: `(batch, ..., dim)` numbers. Lengths do not count: `tfdml.metrics.int8_codes` of the vectors take a
            quarter of the space of float32.

    Returns:
        `(batch,)` float32 from -1 to 1; a vector of zeros has the cosine 0. It is not symmetric.

    Raises:
        ValueError: queries or candidates without vectors, of other dims, or of another number.

    Source: Khattab, Zaharia, ColBERT: Efficient and Effective Passage Search via Contextualized Late Interaction over
    BERT, SIGIR 2020, equation 3, with a sum.
    """
    q, c = _as_unit_vectors(queries, "queries"), _as_unit_vectors(candidates, "candidates")
    received = f"queries of shape {np.shape(queries)}, candidates of shape {np.shape(candidates)}"
    require(q.shape[2] == c.shape[2] and len(q) in (1, len(c)), received, "one dim, and one query or one per candidate")
    return np.matmul(q, c.transpose(0, 2, 1)).max(axis=2).mean(axis=1)


def _as_unit_vectors(sets, name):
    """Sets of vectors of length 1, `(batch, vectors, dim)` float32."""
    sets = np.asarray(sets)
    require(sets.ndim > 2 and sets.size > 0, f"{name} of shape {sets.shape}", "(batch, vectors, dim), at least one")
    vectors = as_vectors(sets.reshape(-1, sets.shape[-1]), name)
    return l2_normalize(vectors).reshape(len(sets), -1, vectors.shape[1])
