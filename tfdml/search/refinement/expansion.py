"""Query expansion and database augmentation: vectors replaced by means with their nearest neighbors."""

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, as_vectors, require, require_whole
from tfdml.search.blocks import MAX_BYTES, slices
from tfdml.search.exact import Exact
from tfdml.search.nearest import without_self
from tfdml.search.scores import l2_normalize


def expand_queries(
    queries: npt.ArrayLike,
    gallery: npt.ArrayLike,
    *,
    k: int = 10,
    alpha: float = 0.0,
    self_rows: npt.ArrayLike | None = None,
) -> np.ndarray:
    """Query expansion: each query becomes a mean of itself and its nearest gallery items, to search with once more.

        q' = normalized(q + sum over the k nearest g of max(0, q . g)^alpha g)

    q and g are unit vectors. `alpha=0` is average query expansion (AQE): all k items have the weight 1. With `alpha`
    above 0 (alpha-QE), near items have larger weights.

    It uses no labels, so an item that the protocol excludes, such as one of the query's camera, may be in the mean. The
    result of a query depends on the gallery: report it as another protocol, "with query expansion".

    Example:

        >>> expanded = tfdml.search.expand_queries([[1.0, 0.0]], [[0.8, 0.6], [-1.0, 0.0]], k=1)
        >>> expanded.astype(float).round(4).tolist()  # (1.8, 0.6), normalized
        [[0.9487, 0.3162]]

    Args:
        queries: `(q, dim)` floats. They may have any norm.
        gallery: `(n, dim)` floats.
        k: number of items in the mean, 1 to n, or to n - 1 with `self_rows`.
        alpha: exponent of the weights, 0 or more.
        self_rows: `(q,)` integers: the row of the gallery that is the query itself, and none of its neighbors; -1 where
            it is not in the gallery. None: no query is.

    Returns:
        `(q, dim)` float32 of length 1. A query of zeros stays zero where its weights are 0.

    Source: Chum, Philbin, Sivic, Isard, Zisserman, Total Recall: Automatic Query Expansion with a Generative Feature
    Model for Object Retrieval, ICCV 2007, average query expansion; Radenovic, Tolias, Chum, Fine-tuning CNN Image
    Retrieval with No Human Annotation, PAMI 2018, section 3.4, alpha-QE.
    """
    x, items = as_vectors(queries, "queries"), as_vectors(gallery, "gallery")
    require(x.shape[1] == items.shape[1], f"queries of dim {x.shape[1]}, gallery of {items.shape[1]}", "one dim")
    rows = np.full(len(x), -1) if self_rows is None else as_ids(self_rows, "self_rows", len(x))
    require(
        len(rows) == 0 or (rows.min() >= -1 and rows.max() < len(items)),
        f"self_rows from {rows.min(initial=0)} to {rows.max(initial=0)}",
        f"rows of a gallery of {len(items)} items, or -1",
    )
    _require_settings(k, len(items) - (self_rows is not None), alpha)
    return _expanded(x, items, rows, k, alpha)


def augment_database(gallery: npt.ArrayLike, *, k: int = 10, alpha: float = 0.0) -> np.ndarray:
    """Database augmentation (DBA): each item becomes a mean of itself and its k nearest other items.

        g' = normalized(g + sum over the k nearest h != g of max(0, g . h)^alpha h)

    The same as `expand_queries` of the gallery in itself. Compute it once, when you build an index; a search of the
    augmented items takes no more time than before. Neighbors are found among the original items.

    Example:

        >>> augmented = tfdml.search.augment_database([[1.0, 0.0], [0.8, 0.6], [-1.0, 0.0]], k=1)
        >>> augmented[0].astype(float).round(4).tolist()  # (1.8, 0.6), normalized
        [0.9487, 0.3162]

    Args:
        gallery, alpha: as in `expand_queries`.
        k: number of other items in the mean, 1 to n - 1.

    Source: Turcot, Lowe, Better Matching with Fewer Features: The Selection of Useful Features in Large Database
    Recognition Problems, WS-LAVD at ICCV 2009; Arandjelovic, Zisserman, Three Things Everyone Should Know to Improve
    Object Retrieval, CVPR 2012.
    """
    items = as_vectors(gallery, "gallery")
    _require_settings(k, len(items) - 1, alpha)
    return _expanded(items, items, np.arange(len(items)), k, alpha)


def _require_settings(k, most, alpha):
    require_whole("k", k, 1, most)
    require(0 <= alpha < np.inf, f"alpha={alpha!r}", "a finite number of 0 or more")


def _expanded(x, items, self_rows, k, alpha):
    index, x = Exact(items), l2_normalize(x)
    items, expanded = index.vectors, np.empty_like(x)
    finds_itself = bool((self_rows >= 0).any())
    for rows in slices(len(x), max(1, MAX_BYTES // (8 * (k + 2) * (x.shape[1] + 8)))):
        neighbors, similarities = index.search(x[rows], k + finds_itself)
        if finds_itself:
            neighbors, similarities = without_self(neighbors, similarities, self_rows[rows])
        weights = np.maximum(similarities, 0) ** alpha if alpha else np.ones_like(similarities)
        expanded[rows] = l2_normalize(x[rows] + np.einsum("qk,qkd->qd", weights, items[neighbors]))
    return expanded
