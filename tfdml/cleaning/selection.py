"""Which examples to label next: typical, diverse or uncertain ones, by their embeddings."""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import (
    are_all_the_same,
    as_ids,
    as_vectors,
    require,
    require_one_of,
    require_seed,
    require_whole,
)
from tfdml._core.optional import optional_import
from tfdml.search import Exact
from tfdml.search.nearest import without_self
from tfdml.search.scores import l2_normalize

RULES = ("typical", "diverse", "uncertain")
IN_TURN = "all"
_NEIGHBORS = 20  # of a density
_VOTES = 10  # labeled neighbors that may disagree
_SAMPLE = 20_000  # examples of a clustering, and of a cluster for densities
Scores = Callable[["Covered"], np.ndarray]


class Selection(NamedTuple):
    """Examples to label, in order: see `select`."""

    rows: np.ndarray
    rules: tuple[str, ...]
    similarity: np.ndarray


def select(
    embeddings: npt.ArrayLike,
    count: int,
    *,
    labels: npt.ArrayLike | None = None,
    rule: str = "typical",
    similarity: float = 0.98,
    seed: int = 0,
) -> Selection:
    """Choose the examples whose labels are worth most, one after the other.

    * "typical": k-means makes as many clusters as there will be labels. The next example is from the largest of the
      clusters with the fewest labels: the one with the highest mean cosine to its 20 nearest neighbors there.
    * "diverse": the example that is least similar to all that have a label or were chosen before (k-center).
    * "uncertain": the example whose labeled neighbors disagree most: the cosine of the nearest one is least above the
      cosine of the nearest one of another class.
    * "all": the three in turn; without labels, the first two.

    No two examples are near copies: an example as similar as `similarity` to a labeled or a chosen one is left out.
    Embeddings are relative to their mean. Time grows with n x (count + labels) x dim; there is no n x n matrix.

    Example: three clusters; the first is labeled.

        >>> x = np.repeat(np.eye(3), 4, axis=0) + np.random.default_rng(0).normal(size=(12, 3)) / 20
        >>> chosen = tfdml.cleaning.select(x, 2, labels=[0, -1, -1, -1] + 8 * [-1], similarity=1)
        >>> sorted((chosen.rows // 4).tolist())
        [1, 2]

    Args:
        embeddings: `(n, dim)` floats, of a model that need not know the classes.
        count: number of examples to choose.
        labels: `(n,)` integer class ids, -1 for none; None: no example has a label.
        rule: "typical", "diverse", "uncertain" or "all".
        similarity: cosine of near copies, above 0 and up to 1.
        seed: of k-means.

    Returns:
        A record: `rows`, `(count,)` int64, in the order of their choice; `rules`, the rule that chose each; and
        `similarity`, `(count,)`, the cosine of each to the nearest labeled or earlier one, NaN for the first of all.

    Raises:
        ValueError: fewer than `count` examples without a label that are no near copies; embeddings that are all the
            same; "uncertain" without two classes.
    """
    x = as_vectors(embeddings, "embeddings")
    classes = np.full(len(x), -1) if labels is None else as_ids(labels, "labels", len(x))
    require_one_of((*RULES, IN_TURN), rule=rule)
    require_seed(seed)
    unlabeled = int((classes < 0).sum())
    require_whole("count", count, 1)
    require(count <= unlabeled, f"count={count}", f"{unlabeled} at most: so many examples have no label")
    require(0 < similarity <= 1, f"similarity={similarity}", "a cosine above 0, 1 at most")
    require(not are_all_the_same(x), "embeddings that are all the same", "different images, or another model")
    is_telling = len(np.unique(classes[classes >= 0])) > 1
    require(is_telling or rule != "uncertain", "rule='uncertain' without labels of two classes", "'typical' at first")
    rules = [name for name in RULES if rule in (name, IN_TURN) and (is_telling or name != "uncertain")]
    x = l2_normalize(x - x.mean(axis=0))
    covered = Covered(x, classes, similarity)
    scores = {name: _SCORES[name](x, classes, count, seed) for name in rules}
    return _greedy(covered, scores, count)


class Covered:
    """Examples that have a label or were chosen: their `rows`, and the cosine of each example to the nearest one.

    `is_open` are the others that are no near copies of them.
    """

    def __init__(self, x: np.ndarray, labels: np.ndarray, similarity: float):
        self._x, self._limit = x, similarity - 1e-6  # rounding
        self.rows = np.flatnonzero(labels >= 0).tolist()
        self.nearest = np.full(len(x), -np.inf, np.float32)
        if self.rows:
            self.nearest = Exact(x[self.rows]).search(x, 1)[1][:, 0]
        self.is_open = (labels < 0) & (self.nearest < self._limit)

    def add(self, row: int) -> None:
        """Cover a row."""
        self.rows.append(row)
        np.maximum(self.nearest, self._x @ self._x[row], out=self.nearest)
        self.is_open &= self.nearest < self._limit
        self.is_open[row] = False


def _greedy(covered, scores, count):
    """The open example with the highest score, again and again, by each rule in turn."""
    names, rows, similarity = list(scores), [], []
    for number in range(count):
        received = f"count={count}, but only {number} examples are no near copies of labeled or of chosen ones"
        require(bool(covered.is_open.any()), received, "a lower count, or a higher similarity")
        values = scores[names[number % len(names)]](covered)
        row = int(np.where(covered.is_open, values, -np.inf).argmax())
        similarity.append(covered.nearest[row] if covered.rows else np.nan)
        rows.append(row)
        covered.add(row)
    rules = tuple(names[number % len(names)] for number in range(count))
    return Selection(np.array(rows, np.int64), rules, np.array(similarity, np.float32))


def _typical(x, labels, count, seed):
    """Scores: the densest example of the largest cluster with the fewest labels has the highest.

    Source: Hacohen, Dekel, Weinshall, Active Learning on a Budget: Opposite Strategies Suit High and Low Budgets, ICML
    2022.
    """
    clusters = min(int((labels >= 0).sum()) + count, len(x))
    cell = _clusters(x, clusters, seed)
    density, sizes = np.empty(len(x), np.float32), np.bincount(cell, minlength=clusters)
    for number in range(clusters):
        rows = np.flatnonzero(cell == number)
        if len(rows) == 0:
            continue  # near copies make fewer clusters
        density[rows] = _density(x[rows], np.random.default_rng([seed, number]))

    def scores(covered):
        labels_of_cells = np.bincount(cell[covered.rows], minlength=clusters)
        rank = np.argsort(np.lexsort((-sizes, labels_of_cells)))
        return density / 3 - rank[cell]

    return scores


def _clusters(x, clusters, seed):
    """The cluster of each example by k-means of a sample, `(n,)`."""
    cluster = optional_import("sklearn.cluster", feature="select", extra="evaluation")
    sample = np.random.default_rng(seed).permutation(len(x))[: max(_SAMPLE, 20 * clusters)]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Number of distinct clusters")  # near copies
        k_means = cluster.KMeans(clusters, n_init=1, random_state=seed).fit(x[np.sort(sample)])
    return k_means.predict(x)


def _density(x, rng):
    """The mean cosine of each example to its nearest others, in a sample of them where they are many."""
    gallery = np.sort(rng.permutation(len(x))[:_SAMPLE])
    k = min(_NEIGHBORS + 1, len(gallery))
    return Exact(x[gallery]).search(x, k)[1].mean(axis=1)


def _diverse(x, labels, count, seed):
    """Scores: the least similar example has the highest; at first the one that is like most others.

    Source: Sener, Savarese, Active Learning for Convolutional Neural Networks: A Core-Set Approach, ICLR 2018.
    """
    first = x @ x.mean(axis=0)
    return lambda covered: -covered.nearest if covered.rows else first


def _uncertain(x, labels, count, seed):
    """Scores: minus the margin of cosines between the nearest label and the nearest one of another class.

    Source: Scheffer, Decomain, Wrobel, Active Hidden Markov Models for Information Extraction, IDA 2001.
    """
    labeled = np.flatnonzero(labels >= 0)
    margin = nearest_labels(x[labeled], labels[labeled], x)[2]
    return lambda covered: -margin


def nearest_labels(
    x: np.ndarray, labels: np.ndarray, queries: np.ndarray, *, is_self: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The nearest labeled example of each query, its cosine, and how much less the nearest one of another class has.

    It looks at ten neighbors: where they agree, the last one stands for another class. With `is_self`, the queries are
    the examples, and no neighbors of themselves.
    """
    k = min(_VOTES, len(x) - is_self)
    columns, cosines = Exact(x).search(queries, k + is_self)
    if is_self:
        columns, cosines = without_self(columns, cosines, np.arange(len(x)))
    is_other = labels[columns] != labels[columns[:, :1]]
    other = np.where(is_other.any(axis=1), is_other.argmax(axis=1), k - 1)
    return columns[:, 0], cosines[:, 0], cosines[:, 0] - cosines[np.arange(len(queries)), other]


_SCORES: dict[str, Callable[..., Scores]] = {"typical": _typical, "diverse": _diverse, "uncertain": _uncertain}
