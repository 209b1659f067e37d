"""Agreement of a clustering with classes; docs/clustering.md defines nmi and ami, with classes i and clusters j.

f1 = 2 sum_ij C(n_ij, 2) / (sum_i C(a_i, 2) + sum_j C(b_j, 2)): a cluster predicts that two examples have one class.
"""

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from tfdml._core.checks import as_ids, as_vectors, require, require_one_of, require_varied, require_whole
from tfdml._core.optional import optional_import
from tfdml.search.scores import l2_normalize
from tfdml.typing import Labels

_MINI_BATCH_ABOVE = 2_000_000_000  # Examples times clusters.
_BATCH = 4096  # Examples in a mini-batch; at least one per cluster.
_ROUNDING = 1e-9  # Of an entropy, relative.


def clustering(
    embeddings: npt.ArrayLike,
    labels: Labels,
    *,
    seed: int = 0,
    restarts: int = 1,
    mini_batch: bool | None = None,
    metric: str = "cosine",
) -> dict[str, Any]:
    """`clustering_scores` of k-means with as many clusters as classes.

    Example: k-means finds the classes, rows 0, 1 and rows 2, 3.

        >>> x = np.array([[1.0, 0.0], [0.96, 0.28], [0.0, 1.0], [0.28, 0.96]])
        >>> numbers = tfdml.metrics.clustering(x, [0, 0, 1, 1])
        >>> round(numbers["nmi"], 6), numbers["f1"], numbers["clusters"]
        (1.0, 1.0, 2)

    Args:
        embeddings: `(n, dim)` floats.
        labels: `(n,)` integer class ids, any int64.
        seed: seed of k-means, 0 or more.
        restarts: number of runs of k-means from other starts; the one with the smallest inertia counts.
        mini_batch: True for mini-batch k-means, False for k-means; None: mini-batch above 2,000,000,000 examples times
            classes. Where classes are small, mini-batch k-means finds worse clusters: do not compare it with k-means.
        metric: "cosine" (normalizes the embeddings) or "euclidean".

    Returns:
        dict of floats `nmi`, `ami` and `f1`, and of the settings: integers `clusters`, `seed` and `restarts`, and
        `algorithm`, "k-means" or "mini-batch k-means".

    Source: k-means and mini-batch k-means of scikit-learn, started by k-means++.
    """
    require_one_of(("cosine", "euclidean"), metric=metric)
    require_whole("seed", seed, 0, 2**32 - 1)
    require_whole("restarts", restarts, 1)
    x = as_vectors(embeddings, "embeddings")
    labels = as_ids(labels, "labels", len(x))
    clusters = len(np.unique(labels))
    expected = "two classes, and one of them with two examples"
    require(1 < clusters < len(x), f"{len(x)} examples of {clusters} classes", expected)
    require_varied(x)
    mini_batch = clusters * len(x) > _MINI_BATCH_ABOVE if mini_batch is None else mini_batch
    with threadpool_limits(1, "blas"):  # The start makes many small products, between which BLAS threads would wait.
        x = l2_normalize(x) if metric == "cosine" else x
        cluster_ids = _k_means(x, clusters, mini_batch, n_init=restarts, random_state=seed)
    return {
        **clustering_scores(labels, cluster_ids),
        "clusters": clusters,
        "seed": seed,
        "restarts": restarts,
        "algorithm": "mini-batch k-means" if mini_batch else "k-means",
    }


def _k_means(x, clusters, mini_batch, **options):
    sklearn = optional_import("sklearn.cluster", feature="clustering", extra="evaluation")
    if mini_batch:
        return sklearn.MiniBatchKMeans(clusters, batch_size=max(_BATCH, clusters), **options).fit_predict(x)
    return sklearn.KMeans(clusters, **options).fit_predict(x)


def clustering_scores(labels: Labels, clusters: npt.ArrayLike) -> dict[str, float]:
    """Normalized and adjusted mutual information, and pairwise F1, of a clustering.

    nmi has the geometric mean of the entropies, as papers on metric learning define it; scikit-learn's default is the
    arithmetic mean. It rises with the number of clusters even for random ones; ami, whose mean over random clusterings
    is 0, does not.

    Example: the classes have 1 + 1 pairs, the clusters 3 + 0, and one pair is in both: f1 is 2 / (2 + 3).

        >>> tfdml.metrics.clustering_scores([0, 0, 1, 1], [0, 0, 0, 1])["f1"]
        0.4

    Args:
        labels: `(n,)` integer class ids, any int64.
        clusters: `(n,)` integer cluster ids, any int64.

    Returns:
        dict of floats: `nmi`, `ami` and `f1`. For one cluster nmi and ami are 0. f1 is 0 where no two examples have the
        same class and the same cluster.

    Source: Strehl, Ghosh, Cluster Ensembles, JMLR 2002 (NMI with the geometric mean); Vinh, Epps, Bailey, Information
    Theoretic Measures for Clusterings Comparison, JMLR 2010 (AMI, expected mutual information).
    """
    labels = as_ids(labels, "labels")
    clusters = as_ids(clusters, "clusters", len(labels))
    a, b, n = _counts(labels, clusters)
    require(len(a) > 1, "labels of one class", "at least two classes")
    h_a, h_b = _entropy(a), _entropy(b)
    information = h_a + h_b - _entropy(n)
    expected = expected_mutual_information(a, b)
    mean, one_cluster = (h_a + h_b) / 2, len(b) == 1
    # 1 where both labelings have no two examples together, so that every permutation agrees
    ami = 1.0 if mean - expected <= _ROUNDING * mean else (information - expected) / (mean - expected)
    return {
        "nmi": 0.0 if one_cluster else float(information / np.sqrt(h_a * h_b)),
        "ami": 0.0 if one_cluster else float(ami),
        "f1": float(2 * _pairs(n) / max(1, _pairs(a) + _pairs(b))),
    }


def expected_mutual_information(a: np.ndarray, b: np.ndarray) -> float:
    """E[I] = sum_ij sum_n P(n) n / N log(N n / (a_i b_j)) over permutations, in nats; P(n) is hypergeometric.

    `a` and `b` are sizes `(classes,)` and `(clusters,)` of at least 1 with the sum N. The function counts equal sizes
    together, so the sum has at most 2N pairs i, j instead of classes x clusters.
    """
    from scipy import special

    total = int(np.sum(a))
    log_factorial = special.gammaln(np.arange(1, total + 2))
    pairs = itertools.product(_distinct(a), _distinct(b))
    return sum(m * n * _expected_of_sizes(size, other, total, log_factorial) for (size, m), (other, n) in pairs)


def _distinct(sizes):
    """Distinct sizes, each with the number of times it occurs."""
    return np.stack(np.unique(sizes, return_counts=True), axis=1).tolist()


def _expected_of_sizes(a, b, total, log_factorial):
    n = np.arange(max(1, a + b - total), min(a, b) + 1)
    ways = sum(log_factorial[size] for size in (a, b, total - a, total - b)) - log_factorial[total]
    log_p = ways - sum(log_factorial[size] for size in (n, a - n, b - n, total - a - b + n))
    return float(np.sum(np.exp(log_p) * n / total * np.log(n * (total / (a * b)))))


def _counts(labels, clusters):
    """Sizes of classes, of clusters, and of the classes in clusters that are not empty."""
    labels, clusters = (np.unique(ids, return_inverse=True)[1] for ids in (labels, clusters))
    both = labels * (clusters.max() + 1) + clusters
    return [np.unique(ids, return_counts=True)[1] for ids in (labels, clusters, both)]


def _entropy(counts):
    """Entropy of a labeling, in nats."""
    shares = counts / counts.sum()
    return -np.sum(shares * np.log(shares))


def _pairs(counts):
    return float(np.sum(counts * (counts - 1.0) / 2))
