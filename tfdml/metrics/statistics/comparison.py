"""Comparison of two models on the same queries."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import require
from tfdml.metrics.statistics.confidence import bootstrap_interval, least_classes, weighted_sums
from tfdml.typing import Labels

_SAMPLES = 10_000  # of the bootstrap and of the test
_BITS = 2**20  # Random bits drawn at the same time.
_ROUNDING = 1e-12  # Relative rounding error of a sum of the same differences in another order.


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The difference of two models on the same queries. `print` shows it as a sentence.

    The sentence calls one model better if the interval does not contain 0 and p is at most 1 - confidence. For one of
    several comparisons, replace p by the adjusted value: `dataclasses.replace(comparison, p=adjusted)`, see
    `holm_correction`.

    Attributes:
        names: names of the two models.
        difference: mean of the first model minus mean of the second.
        low, high: confidence interval of the difference; NaN with too few classes for one.
        p: p-value of the difference, two-sided.
        confidence: confidence of the interval.
        queries, classes: numbers of queries and of classes with values.
    """

    names: tuple[str, str]
    difference: float
    low: float
    high: float
    p: float
    confidence: float
    queries: int
    classes: int

    def __str__(self) -> str:
        """A sentence; one point is 0.01."""
        first, second = self.names
        interval = f"{100 * self.confidence:g}% interval"
        details = f"({interval}, p = {self.p:.2g}, {self.queries} queries of {self.classes} classes)"
        if np.isnan(self.low):
            least = f"a {interval} needs {least_classes(self.confidence)} classes or more"
            return f"{first} and {second} cannot be told apart: {least}, and there are {self.classes}."
        if self.p > 1 - self.confidence or self.low <= 0 <= self.high:
            difference = f"{first} - {second} is {_points(self.low, self.high)}"
            return f"{first} and {second} cannot be told apart: {difference} {details}."
        if self.low > 0:
            return f"{first} is better than {second} by {_points(self.low, self.high)} {details}."
        return f"{second} is better than {first} by {_points(-self.high, -self.low)} {details}."


def _points(low, high):
    return f"{100 * low:.1f} to {100 * high:.1f} points"


def paired_comparison(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    labels: Labels,
    *,
    names: tuple[str, str] = ("A", "B"),
    confidence: float = 0.95,
    average: str = "micro",
    seed: int = 0,
) -> Comparison:
    """Compare two models by their values on the same queries, with whole classes as the units.

    The interval of the mean difference is a `bootstrap_interval`. The p-value comes from a sign-flip permutation test:
    if the models were equal, the difference of each class would be as likely as its negative. With T the mean
    difference and T' the same with a random sign for each class,

        p = (1 + #{|T'| >= |T|}) / (1 + samples),

    with 10,000 samples, or the share of all 2^C signs with |T'| >= |T|, where C classes have no more signs than that.

    Both cover another choice of test classes, not other training seeds: a comparison of methods needs several seeds of
    each, see `seed_interval`. With fewer than about 20 classes the interval is too narrow, and with fewer than 6 there
    is none for 95%; the p-value holds for any number, and cannot be below 2 / 2^C.

    Example:

        >>> a, b = [0.9, 0.8, 0.7, 0.9, 0.8, 0.9], [0.5, 0.6, 0.5, 0.7, 0.6, 0.5]
        >>> comparison = tfdml.metrics.paired_comparison(a, b, labels=[0, 1, 2, 3, 4, 5])
        >>> round(float(comparison.difference), 4), float(comparison.p)  # 2 of the 64 signs reach this difference
        (0.2667, 0.03125)

    Args:
        a, b: `(queries,)` floats, such as `retrieval(..., per_query=True)["map@r"]` of two models on the same set. NaN
            marks a query that is excluded, in both.
        labels: `(queries,)` integer class ids.
        names: names of the two models.
        confidence, average, seed: as in `bootstrap_interval`.

    Returns:
        `Comparison`. Equal values give a difference of 0, and p = 1.

    Raises:
        ValueError: NaN in one of the two only, or fewer than two classes with values.

    Source: Fisher, The Design of Experiments, 1935; for retrieval, Smucker, Allan and Carterette, A Comparison of
    Statistical Significance Tests for Information Retrieval Evaluation, CIKM 2007; the 1 in the p-value, Phipson and
    Smyth, Permutation P-values Should Never Be Zero, 2010.
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    require(a.shape == b.shape, f"values of shapes {a.shape} and {b.shape}", "values of the same queries")
    excluded = np.isnan(a)
    require(
        np.array_equal(excluded, np.isnan(b)),
        f"{excluded.sum()} and {np.isnan(b).sum()} queries with NaN, not the same ones",
        "NaN at the same queries. Evaluate both models with the same gallery and groups",
    )
    differences = a - b
    low, high = bootstrap_interval(
        differences, labels, confidence=confidence, samples=_SAMPLES, average=average, seed=seed
    )
    sums, weights = weighted_sums(differences, labels, average)
    require(len(sums) > 1, "values of one class", "two classes at least, since classes are the units")
    return Comparison(
        names=names,
        difference=float(sums.sum() / weights.sum()),
        low=low,
        high=high,
        p=_sign_flip_p(sums, _SAMPLES, seed),
        confidence=confidence,
        queries=int(len(a) - excluded.sum()),
        classes=len(sums),
    )


def _sign_flip_p(sums, samples, seed):
    """p-value of a sum under random signs of its terms; exact where all signs are no more than `samples`."""
    least = abs(sums.sum()) - _ROUNDING * np.abs(sums).sum()
    is_exact = len(sums) <= np.log2(samples)
    every = np.arange(2 ** len(sums))[:, None] >> np.arange(len(sums)) & 1 if is_exact else None
    flips = [every] if is_exact else _random_flips(len(sums), samples, seed)
    count = sum(np.count_nonzero(np.abs(sums.sum() - 2 * (flipped @ sums)) >= least) for flipped in flips)
    return count / 2 ** len(sums) if is_exact else (1 + count) / (1 + samples)


def _random_flips(classes, samples, seed):
    """Random choices of classes whose sign is flipped: yields matrices `(draws, classes)` of 0 and 1."""
    rng = np.random.default_rng(seed)
    step = max(1, _BITS // classes)
    for start in range(0, samples, step):
        shape = (min(step, samples - start), classes)
        bits = np.frombuffer(rng.bytes(-(-shape[0] * classes // 8)), np.uint8)
        yield np.unpackbits(bits, count=shape[0] * classes).reshape(shape).astype(np.float64)


def holm_correction(p_values: npt.ArrayLike) -> np.ndarray:
    """Holm-adjusted p-values of several comparisons: they control the family-wise error rate.

    With m p-values in ascending order, p(1) to p(m), the i-th becomes max_{j <= i} min(1, (m - j + 1) p(j)). The
    comparisons may depend on each other.

    Example: the smallest of two p-values is doubled.

        >>> tfdml.metrics.holm_correction([0.2, 0.01]).tolist()
        [0.2, 0.02]

    Args:
        p_values: `(m,)` numbers from 0 to 1, of all comparisons that were made, not of the best ones only.

    Returns:
        `(m,)` float64 in the same order; empty for none.

    Source: Holm, A Simple Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of Statistics, 1979.
    """
    p = np.asarray(p_values, np.float64)
    is_valid = p.ndim == 1 and bool(((p >= 0) & (p <= 1)).all())
    require(is_valid, f"p-values {p.tolist()}", "(m,) numbers from 0 to 1")
    order = np.argsort(p)
    adjusted = np.empty(len(p))
    adjusted[order] = np.maximum.accumulate(np.minimum(1, np.arange(len(p), 0, -1) * p[order]))
    return adjusted
