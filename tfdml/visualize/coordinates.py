"""Two coordinates for each embedding: PCA, t-SNE, UMAP."""

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from tfdml._core.checks import as_vectors, require, require_varied


def pca(embeddings: npt.ArrayLike) -> np.ndarray:
    """Coordinates along the two directions of largest variance, by scikit-learn.

    Distances are preserved as far as two linear directions can preserve them.

    Args:
        embeddings: `(n, dim)` of two or more rows and columns.

    Returns:
        `(n, 2)` float32, of mean 0; the same in every call.

    Raises:
        ImportError: scikit-learn is not installed.
        ValueError: fewer rows or columns, values that are not finite, or embeddings that are all equal.
    """
    vectors = _varied(embeddings, "pca", 2)
    try:
        from sklearn.decomposition import PCA
    except ImportError as error:
        raise _missing("pca", "scikit-learn") from error
    return PCA(2, svd_solver="full").fit_transform(vectors.astype(np.float64)).astype(np.float32)


def tsne(embeddings: npt.ArrayLike, *, perplexity: float = 30.0, seed: int = 0) -> np.ndarray:
    """Coordinates that keep neighbors together, by scikit-learn's t-SNE with squared Euclidean distances.

    Sizes of clusters and distances between them mean little. Starts from PCA; runs on one core, so that a machine gives
    the same coordinates in every call.

    Args:
        embeddings: `(n, dim)` of three or more rows and two or more columns.
        perplexity: effective number of neighbors; at most `(n - 1) / 3` is used.
        seed: seed of random numbers, 0 to 2**32 - 1.

    Returns:
        `(n, 2)` float32.

    Raises:
        ImportError: scikit-learn is not installed.
        ValueError: fewer rows or columns, values that are not finite, embeddings that are all equal, or a perplexity
            that is not positive.
    """
    require(perplexity > 0, f"perplexity={perplexity}", "a number above 0")
    vectors = _varied(embeddings, "tsne", 3)
    try:
        from sklearn.manifold import TSNE
    except ImportError as error:
        raise _missing("tsne", "scikit-learn") from error
    perplexity = min(perplexity, (len(vectors) - 1) / 3)
    with threadpool_limits(1):  # sums of several threads differ in their last bits, which t-SNE amplifies
        return TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(vectors)


def umap(embeddings: npt.ArrayLike, *, neighbors: int = 15, min_dist: float = 0.1, seed: int = 0) -> np.ndarray:
    """Coordinates that keep neighbors together, by umap-learn, with Euclidean distances.

    Runs on one core, so that a machine gives the same coordinates in every call. The first call of a process compiles
    the library for half a minute.

    Args:
        embeddings: `(n, dim)` of four or more rows and two or more columns.
        neighbors: number of neighbors that shape the map; at most `n - 1` are used.
        min_dist: smallest distance of points in the map.
        seed: seed of random numbers, 0 to 2**32 - 1.

    Returns:
        `(n, 2)` float32.

    Raises:
        ImportError: umap-learn is not installed.
        ValueError: fewer rows or columns, values that are not finite, embeddings that are all equal, or fewer than 2
            neighbors.
    """
    require(neighbors >= 2, f"neighbors={neighbors}", "2 or more")
    vectors = _varied(embeddings, "umap", 4)
    try:
        from umap import UMAP
    except ImportError as error:
        raise _missing("umap", "umap-learn") from error
    few = min(neighbors, len(vectors) - 1)
    return UMAP(n_neighbors=few, min_dist=min_dist, random_state=seed, n_jobs=1).fit_transform(vectors)


def _varied(embeddings, name, rows):
    """Embeddings as float32 of enough rows, not all the same."""
    vectors = as_vectors(embeddings, "embeddings")
    enough = len(vectors) >= rows and vectors.shape[1] >= 2
    require(enough, f"embeddings of shape {vectors.shape}", f"{rows} or more rows and 2 or more columns for {name}")
    require_varied(vectors)
    return vectors


def _missing(name, package):
    return ImportError(f"visualize.{name} needs {package}: pip install tfdml[maps].")
