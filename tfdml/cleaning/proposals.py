"""Labels that neighbors propose, with a stated precision."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, as_vectors, require, require_fraction
from tfdml.metrics import ScoreCalibration
from tfdml.search import Exact
from tfdml.search.scores import l2_normalize


class Proposals(NamedTuple):
    """Labels for examples without one, the most probable first: see `propose_labels`."""

    rows: np.ndarray
    labels: np.ndarray
    neighbors: np.ndarray
    similarity: np.ndarray
    probability: np.ndarray
    prior: float


def propose_labels(
    embeddings: npt.ArrayLike, labels: npt.ArrayLike, *, precision: float = 0.95, prior: float | None = None
) -> Proposals:
    """Propose the label of its nearest labeled neighbor for each example without one that is similar enough.

    Each labeled example is searched among the others: `ScoreCalibration.fit_search` turns the cosine of a nearest
    neighbor into the probability of its class. The proposals are the longest list, by falling probability, whose mean
    probability is at least `precision`. Embeddings are relative to their mean.

    The calibration is that of labels drawn at random. Labels that `select` chose are farther from each other than the
    other examples are from them: then more than the stated share is right.

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
        prior: how often an example without a label is of a class that has one; None: one minus the share of labels that
            are alone in their class (Good and Turing).

    Returns:
        A record of arrays, one entry per proposal: `rows` of examples without a label, their `labels`, the `neighbors`
        that propose them, the `similarity` to these and the `probability`; and the `prior`. No entries if no list has
        the precision.

    Raises:
        ValueError: no example without a label; fewer than ten labels with a second one of their class.

    Source: Good, The Population Frequencies of Species and the Estimation of Population Parameters, Biometrika, 1953.
    """
    x = as_vectors(embeddings, "embeddings")
    classes = as_ids(labels, "labels", len(x))
    require_fraction(precision=precision)
    labeled, others = np.flatnonzero(classes >= 0), np.flatnonzero(classes < 0)
    require(len(others) > 0, "labels of all examples", "some examples without a label, -1")
    x = l2_normalize(x - x.mean(axis=0))
    if prior is None:
        prior = seen_share(classes[labeled])
    calibration = ScoreCalibration.fit_search(x[labeled], classes[labeled], prior=prior)
    columns, cosines = Exact(x[labeled]).search(x[others], 1)
    probability = calibration(cosines[:, 0])
    order = np.argsort(-cosines[:, 0], kind="stable")
    means = np.cumsum(probability[order]) / np.arange(1, len(order) + 1)
    order = order[: 1 + np.flatnonzero(means >= precision).max(initial=-1)]
    neighbors = labeled[columns[order, 0]]
    return Proposals(others[order], classes[neighbors], neighbors, cosines[order, 0], probability[order], float(prior))


def seen_share(labels: np.ndarray) -> float:
    """The probability that the next example is of a class that has been seen, from labels drawn at random."""
    sizes = np.unique(labels, return_counts=True)[1]
    return 1 - float((sizes == 1).sum()) / max(1, len(labels))
