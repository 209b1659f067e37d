"""Whitening: directions of equal variance, learned on training embeddings."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_vectors, require, require_whole
from tfdml.search.blocks import slices
from tfdml.search.scores import l2_normalize

_ROWS = 65_536  # rows that are in float64 at the same time


@dataclass(frozen=True, eq=False)
class Whitening:
    """A map to directions of equal variance, and to length 1: w(x) = normalized((x - mean) projection).

    With the covariance V diag(v) V^T of the training embeddings and the shrinkage s in [0, 1],

        projection = V diag((1 - s) v + s mean(v))^(-1/2)

    so that cosine similarity counts each direction alike, and few directions with a large variance do not decide. `s`
    enlarges directions of small variance less, because they hold more noise; s = 1 only subtracts the mean.

    Example:

        >>> x = np.array([[10.0, 1.0], [-10.0, 1.0], [10.0, -1.0], [-10.0, -1.0]])  # the first direction decides
        >>> whitening = tfdml.search.Whitening.learn(x)
        >>> np.abs(whitening(x[:1])).astype(float).round(4).tolist()  # both count alike
        [[0.7071, 0.7071]]

    Attributes:
        mean: `(dim,)` float32, of the training embeddings.
        projection: `(dim, out)` float32, its columns by falling variance.

    Source: Jegou, Chum, Negative Evidences and Co-occurences in Image Retrieval: The Benefit of PCA and Whitening, ECCV
    2012; shrinkage towards a multiple of the identity, Ledoit, Wolf, A Well-Conditioned Estimator for Large-Dimensional
    Covariance Matrices, 2004, with the amount chosen by the user.
    """

    mean: np.ndarray
    projection: np.ndarray

    @classmethod
    def learn(cls, embeddings: npt.ArrayLike, *, dim: int | None = None, shrinkage: float = 0.0) -> Self:
        """The whitening of training embeddings: of classes that are not searched later.

        Args:
            embeddings: `(n, dim)` floats, as the model returns them; several times as many rows as columns.
            dim: number of directions of the result, of the largest variance; None for all with a variance above 0.
            shrinkage: s, from 0 to 1.
        """
        x = as_vectors(embeddings, "embeddings")
        require(len(x) > 1, f"{len(x)} embeddings", "at least 2, and better several times their dim")
        require(0 <= shrinkage <= 1, f"shrinkage={shrinkage!r}", "a number from 0 to 1")
        mean = x.mean(axis=0, dtype=np.float64)
        variances, directions = _principal_directions(x, mean)
        usable = x.shape[1] if shrinkage else int((variances > 0).sum())
        dim = usable if dim is None else dim
        require_whole("dim", dim, 1)
        require(dim <= usable, f"dim={dim} of {usable} directions with a variance", "fewer directions, or shrinkage")
        scales = np.sqrt((1 - shrinkage) * variances[:dim] + shrinkage * variances.mean())
        return cls(mean.astype(np.float32), (directions[:, :dim] / scales).astype(np.float32))

    def __call__(self, embeddings: npt.ArrayLike) -> np.ndarray:
        """The whitened embeddings.

        Args:
            embeddings: `(n, dim)` floats, of queries and gallery alike.

        Returns:
            `(n, out)` float32 of length 1; zero where an embedding is the mean.
        """
        x = as_vectors(embeddings, "embeddings")
        require(x.shape[1] == len(self.mean), f"embeddings of dim {x.shape[1]}", f"{len(self.mean)}, as in training")
        return l2_normalize((x - self.mean) @ self.projection)


def _principal_directions(x, mean):
    """Variances `(dim,)`, falling, 0 where they are rounding errors; and directions, the columns of `(dim, dim)`."""
    variances, directions = np.linalg.eigh(_covariance(x, mean))
    variances, directions = variances[::-1], directions[:, ::-1]
    rounding = max((np.finfo(np.float32).eps * np.abs(x).max()) ** 2, np.finfo(np.float64).eps * variances[0])
    require(variances[0] > len(mean) * rounding, "embeddings that are all the same", "embeddings that differ")
    return np.where(variances > len(mean) * rounding, variances, 0.0), directions


def _covariance(x, mean):
    """The covariance matrix, `(dim, dim)` float64, by blocks of rows."""
    blocks = (x[rows] - mean for rows in slices(len(x), _ROWS))
    return sum(block.T @ block for block in blocks) / len(x)
