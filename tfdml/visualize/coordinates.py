"""Two-dimensional coordinates of embeddings `(n, dim)`, as `(n, 2)` float32: PCA, t-SNE, UMAP."""

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from tfdml._core.checks import as_vectors, require, require_varied
from tfdml._core.optional import optional_import


def pca(embeddings: npt.ArrayLike) -> np.ndarray:
    """Coordinates along the two directions of largest variance, by scikit-learn; the same in every call."""
    vectors = _as_varied(embeddings, "pca", 2)
    sklearn = optional_import("sklearn.decomposition", feature='embedding_map(method="pca")', extra="maps")
    return sklearn.PCA(2, svd_solver="full").fit_transform(vectors.astype(np.float64)).astype(np.float32)


def tsne(embeddings: npt.ArrayLike) -> np.ndarray:
    """Coordinates that keep neighbors together, by scikit-learn's t-SNE on one core for the same results."""
    vectors = _as_varied(embeddings, "tsne", 3)
    manifold = optional_import("sklearn.manifold", feature='embedding_map(method="tsne")', extra="maps")
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    with threadpool_limits(1):  # sums of several threads differ in their last bits, which t-SNE amplifies
        return manifold.TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(vectors)


def umap(embeddings: npt.ArrayLike) -> np.ndarray:
    """Coordinates that keep neighbors together, by umap-learn, on one core for the same results in every call."""
    vectors = _as_varied(embeddings, "umap", 4)
    library = optional_import("umap", feature='embedding_map(method="umap")', extra="maps")
    options = {"n_neighbors": min(15, len(vectors) - 1), "random_state": 0, "n_jobs": 1}
    return library.UMAP(**options).fit_transform(vectors)


def _as_varied(embeddings, name, rows):
    """Embeddings as float32, of enough rows, not all the same."""
    vectors = as_vectors(embeddings, "embeddings")
    is_enough = len(vectors) >= rows and vectors.shape[1] >= 2
    require(is_enough, f"embeddings of shape {vectors.shape}", f"{rows} or more rows and 2 or more columns for {name}")
    require_varied(vectors)
    return vectors
