"""Two-dimensional coordinates of embeddings: PCA, t-SNE, UMAP."""

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from tfdml._core.checks import as_vectors, require, require_positive, require_varied
from tfdml._core.optional import optional_import


def pca(embeddings: npt.ArrayLike) -> np.ndarray:
    """Coordinates along the two directions of largest variance, by scikit-learn.

    Example: points on a line have one coordinate.

        >>> x = np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 2.0], [2.0, 4.0, 4.0]])
        >>> abs(tfdml.visualize.pca(x)).round(4)  # the sign is arbitrary
        array([[3., 0.],
               [0., 0.],
               [3., 0.]], dtype=float32)

    Args:
        embeddings: `(n, dim)` of two or more rows and columns.

    Returns:
        `(n, 2)` float32, of mean 0; the same in every call.

    Raises:
        ImportError: scikit-learn is not installed.
        ValueError: fewer rows or columns, values that are not finite, or embeddings that are all equal.
    """
    vectors = _as_varied(embeddings, "pca", 2)
    sklearn = optional_import("sklearn.decomposition", feature="visualize.pca", extra="maps")
    return sklearn.PCA(2, svd_solver="full").fit_transform(vectors.astype(np.float64)).astype(np.float32)


def tsne(embeddings: npt.ArrayLike, *, perplexity: float = 30.0, seed: int = 0) -> np.ndarray:
    """Coordinates that keep neighbors together, by scikit-learn's t-SNE with squared Euclidean distances.

    Sizes of clusters and distances between them mean little. Starts from PCA; runs on one core, so that a machine gives
    the same coordinates in every call.

    Example: two groups far from each other stay apart.

        >>> x = np.random.default_rng(0).normal(size=(8, 3)) + np.repeat([[0.0], [100.0]], 4, axis=0)
        >>> y = tfdml.visualize.tsne(x)
        >>> first, second = y[:4].mean(axis=0), y[4:].mean(axis=0)
        >>> y.shape, bool(np.linalg.norm(first - second) > np.linalg.norm(y[:4] - first, axis=1).max())
        ((8, 2), True)

    Args:
        embeddings: `(n, dim)` of three or more rows and two or more columns.
        perplexity: effective number of neighbors; at most `(n - 1) / 3` is used.
        seed: seed of random numbers, 0 to 2**32 - 1.

    Returns:
        `(n, 2)` float32.

    Raises:
        ImportError: scikit-learn is not installed.
        ValueError: fewer rows or columns, embeddings not finite or all equal, or a perplexity of 0 or less.
    """
    require_positive(perplexity=perplexity)
    vectors = _as_varied(embeddings, "tsne", 3)
    manifold = optional_import("sklearn.manifold", feature="visualize.tsne", extra="maps")
    perplexity = min(perplexity, (len(vectors) - 1) / 3)
    with threadpool_limits(1):  # sums of several threads differ in their last bits, which t-SNE amplifies
        return manifold.TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(vectors)


def umap(embeddings: npt.ArrayLike, *, neighbors: int = 15, min_dist: float = 0.1, seed: int = 0) -> np.ndarray:
    """Coordinates that keep neighbors together, by umap-learn, with Euclidean distances.

    Runs on one core, so that every call on a machine gives the same. The first call compiles for half a minute.

    Example:

        >>> x = np.random.default_rng(0).normal(size=(20, 3)) + np.repeat([[0.0], [100.0]], 10, axis=0)
        >>> tfdml.visualize.umap(x, neighbors=5).shape
        (20, 2)

    Args:
        embeddings: `(n, dim)` of four or more rows and two or more columns.
        neighbors: number of neighbors that shape the map; at most `n - 1` are used.
        min_dist: smallest distance of points in the map.
        seed: seed of random numbers, 0 to 2**32 - 1.

    Returns:
        `(n, 2)` float32.

    Raises:
        ImportError: umap-learn is not installed.
        ValueError: fewer rows or columns, embeddings not finite or all equal, or fewer than 2 neighbors.
    """
    require(neighbors >= 2, f"neighbors={neighbors}", "2 or more")
    vectors = _as_varied(embeddings, "umap", 4)
    library = optional_import("umap", feature="visualize.umap", extra="maps")
    neighbors = min(neighbors, len(vectors) - 1)
    options = {"n_neighbors": neighbors, "min_dist": min_dist, "random_state": seed, "n_jobs": 1}
    return library.UMAP(**options).fit_transform(vectors)


def _as_varied(embeddings, name, rows):
    """Embeddings as float32, of enough rows, not all the same."""
    vectors = as_vectors(embeddings, "embeddings")
    is_enough = len(vectors) >= rows and vectors.shape[1] >= 2
    require(is_enough, f"embeddings of shape {vectors.shape}", f"{rows} or more rows and 2 or more columns for {name}")
    require_varied(vectors)
    return vectors
