"""Labels that neighbors propose, with a stated precision."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, as_vectors, require, require_fraction
from tfdml._core.optional import optional_import
from tfdml.cleaning.selection import nearest_labels
from tfdml.search.scores import l2_normalize

_LEAST = 10  # labels


class Proposals(NamedTuple):
    """Labels for examples without one, the most probable first: see `propose_labels`."""

    rows: np.ndarray
    labels: np.ndarray
    neighbors: np.ndarray
    similarity: np.ndarray
    probability: np.ndarray


def propose_labels(embeddings: npt.ArrayLike, labels: npt.ArrayLike, *, precision: float = 0.9) -> Proposals:
    """Propose the label of its nearest labeled neighbor for each example without one that is similar enough.

    The score is the margin: the cosine of the nearest labeled example less the cosine of the nearest one of another
    class, among ten. Each labeled example is searched among the others, and a logistic curve turns the margin into the
    probability that the nearest one has its class. A label that is alone in its class is wrong there: so the curve
    counts classes that have no label yet, as often as Good and Turing expect them. The proposals are the longest list,
    by falling probability, whose mean probability is at least `precision`. Embeddings are relative to their mean.

    The probability is that of labels drawn at random. `ScoreCalibration` needs more labels than a few.

    Example:

        >>> rng = np.random.default_rng(0)
        >>> x = np.repeat(np.eye(4), 50, axis=0) + rng.normal(size=(200, 4)) / 8
        >>> labels = np.where(rng.random(200) < 0.3, np.arange(200) // 50, -1)
        >>> proposals = tfdml.cleaning.propose_labels(x, labels, precision=0.9)
        >>> len(proposals.rows) > 100, bool((proposals.labels == proposals.rows // 50).mean() > 0.9)
        (True, True)

    Args:
        embeddings: `(n, dim)` floats.
        labels: `(n,)` integer class ids, -1 for none.
        precision: share of the proposals that should be right, between 0 and 1.

    Returns:
        A record of arrays, one entry per proposal: `rows` of examples without a label, their `labels`, the `neighbors`
        that propose them, the `similarity` to these and the `probability`. No entries if no list has the precision.

    Raises:
        ValueError: no example without a label; fewer than ten labels, or labels of one class.

    Source: Platt, Probabilistic Outputs for Support Vector Machines, 1999; Good, The Population Frequencies of Species
    and the Estimation of Population Parameters, Biometrika, 1953.
    """
    x = as_vectors(embeddings, "embeddings")
    classes = as_ids(labels, "labels", len(x))
    require_fraction(precision=precision)
    labeled, others = np.flatnonzero(classes >= 0), np.flatnonzero(classes < 0)
    require(len(others) > 0, "labels of all examples", "some examples without a label, -1")
    count, kinds = len(labeled), len(np.unique(classes[labeled]))
    require(count >= _LEAST and kinds > 1, f"{count} labels of {kinds} classes", f"{_LEAST} of two classes at least")
    x = l2_normalize(x - x.mean(axis=0))
    gallery = x[labeled], classes[labeled]
    nearest, _, margins = nearest_labels(*gallery, x[labeled], is_self=True)
    curve = _logistic(margins, classes[labeled[nearest]] == classes[labeled])
    nearest, cosines, margins = nearest_labels(*gallery, x[others])
    probability = curve(margins)
    order = np.argsort(-margins, kind="stable")
    means = np.cumsum(probability[order]) / np.arange(1, len(order) + 1)
    order = order[: 1 + np.flatnonzero(means >= precision).max(initial=-1)]
    neighbors = labeled[nearest[order]]
    return Proposals(others[order], classes[neighbors], neighbors, cosines[order], probability[order])


def _logistic(values: np.ndarray, hits: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The logistic curve of most likelihood, with rates of 1 / (n + 2) in place of 0.

    It stays below the share of hits, with one hit and one miss more, of the fifth with the highest values: beyond what
    was seen, few values would make it steep. It is constant where it would fall.
    """
    linear = optional_import("sklearn.linear_model", feature="propose_labels", extra="evaluation")
    target = np.where(hits, (hits.sum() + 1) / (hits.sum() + 2), 1 / ((~hits).sum() + 2))
    center, spread = values.mean(), values.std() or 1.0
    x = np.tile(values - center, 2)[:, None] / spread
    weights = np.concatenate([target, 1 - target])
    fitted = linear.LogisticRegression(C=np.inf).fit(x, np.repeat([1, 0], len(values)), weights)
    highest = hits[np.argsort(-values, kind="stable")[: max(_LEAST, len(values) // 5)]]
    most = (highest.sum() + 1) / (len(highest) + 2)
    if fitted.coef_[0, 0] <= 0:
        return lambda new: np.full(len(new), target.mean())
    return lambda new: np.minimum(fitted.predict_proba((new - center)[:, None] / spread)[:, 1], most)
