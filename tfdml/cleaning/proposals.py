"""Labels that labeled examples propose for others, with a stated precision."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, as_vectors, require, require_fraction
from tfdml.cleaning.selection import relative_to_mean
from tfdml.metrics.calibration import logistic_curve
from tfdml.search import Exact
from tfdml.search.blocks import slices

_LEAST = 10  # labels
_RIDGE, _STRENGTH = 0.1, 1.0  # chosen on the validation sets of studies/labeling.py
_BLOCK = 4096  # examples with scores of all classes at the same time


class Proposals(NamedTuple):
    """Labels for examples without one, the most probable first: see `propose_labels`."""

    rows: np.ndarray
    labels: np.ndarray
    neighbors: np.ndarray
    similarity: np.ndarray
    probability: np.ndarray


def propose_labels(embeddings: npt.ArrayLike, labels: npt.ArrayLike, *, precision: float = 0.9) -> Proposals:
    """Propose a label for each example without one for which it is probable enough.

    A ridge regression of the classes on the embeddings, relative to their mean and of length 1, scores each class. The
    label of the highest score, which is higher than the next one by a margin m, is right with the probability

        p(m) = (1 - alone / labeled) curve(m).

    The share of labeled examples that are alone in their class estimates how often an example is of a class without a
    label (Good and Turing). The logistic curve learns from all others, each with the scores that it would have without
    its label. The proposals are the longest list, by falling probability, whose mean probability is at least
    `precision`.

    The probability holds for labels of examples that were drawn at random.

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
        A record of arrays, one entry per proposal: `rows` of examples without a label, their `labels`, `neighbors`, the
        nearest examples with these labels, the `similarity` to them and the `probability`. No entries if no list has
        the precision.

    Raises:
        ValueError: no example without a label; fewer than ten labels, labels of one class, or no two of a class.

    Source: Rifkin, Yeo, Poggio, Regularized Least-Squares Classification, 2003, for scores without the own label;
    Platt, Probabilistic Outputs for Support Vector Machines, 1999; Good, The Population Frequencies of Species and the
    Estimation of Population Parameters, Biometrika, 1953.
    """
    x = as_vectors(embeddings, "embeddings")
    classes = as_ids(labels, "labels", len(x))
    require_fraction(precision=precision)
    labeled, others = np.flatnonzero(classes >= 0), np.flatnonzero(classes < 0)
    require(len(others) > 0, "labels of all examples", "some examples without a label, -1")
    names, numbers, sizes = np.unique(classes[labeled], return_inverse=True, return_counts=True)
    received = f"{len(labeled)} labels of {len(names)} classes"
    is_enough = len(labeled) >= _LEAST and 1 < len(names) < len(labeled)
    require(is_enough, received, f"{_LEAST} of two classes at least, and two of a class")
    x = relative_to_mean(x)
    inverse = np.linalg.inv(x[labeled].T @ x[labeled] + _RIDGE * np.eye(x.shape[1]))
    weights = inverse @ np.stack([x[labeled[numbers == number]].sum(axis=0) for number in range(len(names))], axis=1)
    predicted, margins = _highest(x[labeled], weights, numbers, inverse)
    is_alone = sizes[numbers] == 1
    curve = logistic_curve(margins[~is_alone], (predicted == numbers)[~is_alone], strength=_STRENGTH)
    predicted, margins = _highest(x[others], weights)
    probability = (1 - is_alone.mean()) * curve(margins)
    order = np.argsort(-margins, kind="stable")
    means = np.cumsum(probability[order]) / np.arange(1, len(order) + 1)
    order = order[: 1 + np.flatnonzero(means >= precision).max(initial=-1)]
    rows, predicted = others[order], predicted[order]
    neighbors, similarity = _nearest_of_class(x[rows], predicted, x[labeled], numbers)
    return Proposals(rows, names[predicted], labeled[neighbors], similarity, probability[order])


def _highest(x, weights, numbers=None, inverse=None):
    """The class with the highest score s = x W of each example, and how much lower the next one is.

    With `numbers`, W is what the other examples alone would give: s becomes (s - h y) / (1 - h), h = x^T `inverse` x.
    """
    classes, margins = np.empty(len(x), np.int64), np.empty(len(x))
    for rows in slices(len(x), _BLOCK):
        scores = x[rows] @ weights
        if numbers is not None:
            leverage = ((x[rows] @ inverse) * x[rows]).sum(axis=1)
            scores[np.arange(len(scores)), numbers[rows]] -= leverage
            scores /= 1 - leverage[:, None]
        classes[rows] = scores.argmax(axis=1)
        margins[rows] = np.diff(np.partition(scores, -2, axis=1)[:, -2:], axis=1)[:, 0]
    return classes, margins


def _nearest_of_class(x, predicted, gallery, numbers):
    """The nearest labeled example of the class of each example, and its cosine."""
    neighbors, similarity = np.empty(len(x), np.int64), np.empty(len(x), np.float32)
    for label in np.unique(predicted):
        rows, columns = np.flatnonzero(predicted == label), np.flatnonzero(numbers == label)
        nearest, cosines = Exact(gallery[columns]).search(x[rows], 1)
        neighbors[rows], similarity[rows] = columns[nearest[:, 0]], cosines[:, 0]
    return neighbors, similarity
