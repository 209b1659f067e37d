"""Calibration of scores: the probability that two examples have the same class, from their score."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, as_readable, as_vectors, require, require_fraction, require_metric
from tfdml._core.checksums import as_fingerprint, require_same_model
from tfdml._core.optional import optional_import
from tfdml.metrics.statistics.intervals import class_interval, least_classes
from tfdml.metrics.verification import as_pairs, as_same, require_similarities
from tfdml.search.exact import Exact
from tfdml.typing import Labels

_MIN_PAIRS = 10  # of a kind
_FEW = 100  # pairs of a kind, below which a logistic curve takes the place of the isotonic one
_LEAST = 30  # pairs of a knot
_ODDS = 1e-9  # of the bounds of an interval: their log is finite
_BINS = 10
_NEIGHBORS = 2**22  # of a call of a search
_PLACES = 10_001  # between the lowest and the highest score, where `threshold` looks
_CURVES = ("ratio", "rank_1")
Curves = tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]


class Outcomes(NamedTuple):
    """The nearest item of each query, see `search_outcomes`."""

    scores: np.ndarray
    same: np.ndarray
    classes: np.ndarray


class Reliability(NamedTuple):
    """How far probabilities are from what happened, see `reliability`."""

    brier: float
    ece: float
    probability: np.ndarray
    share: np.ndarray
    low: np.ndarray
    high: np.ndarray
    counts: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreCalibration:
    """The probability that two examples have the same class, from their score: a rising curve.

        p(s) = rank_1(s) / (1 + exp(-ratio(s)) (1 - prior) / prior)

    ratio(s) is the log of the ratio of two densities at the score: of pairs with a match, and of pairs without one. It
    does not depend on how often there is a match, so another `prior` shifts the log odds. rank_1(s) is 1 for pairs; of
    a search, it is the share of nearest items that match among queries that have a match at all.

    A knot has the mean score of 30 pairs or more. Between knots, both are straight lines; beyond the last ones they
    stay. Both are isotonic regressions, and logistic ones where one kind has fewer than 100 pairs. `fit` or
    `fit_search` makes one, of classes that were not trained on.

    See also: `reliability` for what it is worth on other data; `calibrated_threshold` for a rate.

    Example: half of all pairs below 300 match, and all others do.

        >>> scores, same = np.arange(600), np.arange(600) % 2 + (np.arange(600) >= 300) > 0
        >>> calibration = tfdml.metrics.ScoreCalibration.fit(scores, same)
        >>> calibration([100, 500]).round(2), calibration.at(0.1)([100, 500]).round(2)  # one match among 10 pairs
        (array([0.5, 1. ]), array([0.04, 0.92]))

    Attributes:
        scores: `(m,)` rising scores of the knots; larger for pairs that are more alike.
        ratio, rank_1: values at the knots, and the bounds of their intervals over classes: three times `(m,)`; bounds
            are NaN with too few classes.
        prior: how often a pair is a match, or a query has one, in (0, 1].
        metric: of the scores: "cosine", "dot" or "euclidean", whose score is minus the distance.
        model: fingerprint of the model of the scores; None if unknown.
        pairs, classes: numbers that it was made from.
    """

    scores: tuple[float, ...]
    ratio: Curves
    rank_1: Curves
    prior: float
    metric: str
    model: str | None
    pairs: int
    classes: int

    def __post_init__(self) -> None:
        """Refuse curves that are not of one length, or do not rise."""
        require_metric(self.metric)
        require_fraction(prior=self.prior)
        curves = (self.scores, *self.ratio, *self.rank_1)
        are_lines = len(curves) == 7 and len({len(curve) for curve in curves}) == 1 and len(self.scores) > 0
        rises = (np.isfinite(curve).all() and (np.diff(curve) >= 0).all() for curve in (curves[0], *curves[1::3]))
        require(are_lines and all(rises), "a calibration of other curves", "one that fit or fit_search made")

    @classmethod
    def fit(
        cls,
        scores: npt.ArrayLike,
        same: npt.ArrayLike,
        *,
        classes: Labels | None = None,
        prior: float | None = None,
        metric: str = "cosine",
        model: Any = None,
    ) -> Self:
        """The calibration of pairs.

        Args:
            scores, same: as in `verification`, of pairs of classes that were not trained on.
            classes: `(pairs,)` integer class ids of the first example of each pair; None: each pair is a class.
            prior: share of matched pairs in use; None: as in these pairs.
            metric, model: of the scores: "cosine", "dot" or "euclidean", and the model, as `search.Exact` takes it.

        Raises:
            ValueError: scores that are all the same, or distances; fewer than ten pairs of a kind.
        """
        values, is_same = as_pairs(scores, same)
        labels = np.arange(len(values)) if classes is None else as_ids(classes, "classes", len(values))
        _require_alike(values[is_same], values[~is_same])
        knots, curves = _curves(values, is_same, labels, 0.95)
        share = float(is_same.mean())
        ratio = _log_odds(curves) - _log_odds(share)
        prior = share if prior is None else prior
        return cls._made(knots, ratio, np.ones_like(ratio), labels, prior=prior, metric=metric, model=model)

    @classmethod
    def fit_search(
        cls,
        embeddings: npt.ArrayLike,
        labels: Labels,
        *,
        queries: npt.ArrayLike | None = None,
        prior: float = 0.5,
        metric: str = "cosine",
        model: Any = None,
    ) -> Self:
        """The calibration of the nearest item of a search in an index of these examples.

        Each query is searched twice: among all other examples, and among those of other classes, where it has no match.

        Args:
            embeddings, labels: `(n, dim)` floats and `(n,)` integer class ids of queries and items.
            queries: `(n,)` booleans, the examples that are queries: of classes that were not trained on; None: all.
            prior: how often a query has a match in the index.
            metric, model: as in `fit`.

        Raises:
            ValueError: as in `fit`; no query with a second example of its class.
        """
        with_match, without = _searches(embeddings, labels, queries, metric)
        _require_alike(with_match.scores, without.scores)
        scores, _, classes = map(np.concatenate, zip(with_match, without, strict=True))
        has_match = np.arange(len(scores)) < len(with_match.scores)
        knots, curves = _curves(scores, has_match, classes, 0.975)  # two intervals of 97.5% hold together in 95%
        ratio = _log_odds(curves) - _log_odds(has_match.mean())
        matched = with_match.scores, with_match.same, with_match.classes
        other_knots, shares = _curves(*matched, 0.975)
        both = np.union1d(knots, other_knots)
        ratio = np.stack([np.interp(both, knots, curve) for curve in ratio])
        shares = np.stack([np.interp(both, other_knots, curve) for curve in shares])
        return cls._made(both, ratio, shares, classes, prior=prior, metric=metric, model=model)

    @classmethod
    def _made(cls, scores, ratio, rank_1, classes, *, model, **facts):
        ratio, rank_1 = (tuple(tuple(curve.tolist()) for curve in curves) for curves in (ratio, rank_1))
        facts |= {"model": as_fingerprint(model), "pairs": len(classes), "classes": len(np.unique(classes))}
        return cls(scores=tuple(scores.tolist()), ratio=ratio, rank_1=rank_1, **facts)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The calibration that `as_dict` described; a ValueError for anything else."""
        names = {field.name for field in dataclasses.fields(cls)}
        expected = "the file that tfdml train wrote. Calibrate again"
        require(set(values) == names, f"a calibration with {', '.join(sorted(values)) or 'nothing'}", expected)
        try:
            floats = [
                [[math.nan if x is None else float(x) for x in curve] for curve in values[name]] for name in _CURVES
            ]
            read = {name: tuple(map(tuple, curves)) for name, curves in zip(_CURVES, floats, strict=True)}
            return cls(**{**values, "scores": tuple(map(float, values["scores"])), **read})
        except (TypeError, ValueError) as error:
            raise ValueError(f"Received a damaged calibration ({error}), expected {expected}.") from error

    def as_dict(self) -> dict[str, Any]:
        """The calibration as JSON values, None for a bound that is NaN."""
        curves = {
            name: [[None if math.isnan(x) else x for x in curve] for curve in getattr(self, name)] for name in _CURVES
        }
        return {**dataclasses.asdict(self), "prior": float(self.prior), "scores": list(self.scores), **curves}

    def at(self, prior: float) -> Self:
        """The calibration for another share of matches."""
        return dataclasses.replace(self, prior=prior)

    def require(self, *, metric: str, model: Any = None, other_model: bool = False) -> Self:
        """Itself; a ValueError if scores of another metric or model are asked for."""
        received = f"a calibration of the metric {self.metric!r} for scores of {metric!r}"
        require(self.metric == metric, received, "one of the same metric. Calibrate again")
        require_same_model("scores", model, "the calibration", self.model, other_model=other_model)
        return self

    def __call__(self, scores: npt.ArrayLike) -> np.ndarray:
        """The probabilities of scores, float64 of the same shape."""
        return self._probability(scores, 0)

    def of_neighbors(self, scores: npt.ArrayLike) -> np.ndarray:
        """The probabilities of the scores that a search returns: for "euclidean", these are distances."""
        return self(np.negative(scores) if self.metric == "euclidean" else scores)

    def interval(self, scores: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of 95% intervals of the probabilities, by Student's t over classes; NaN with fewer than 6 classes.

        They are of this prior, and say how much other classes would change the curve.
        """
        return self._probability(scores, 1), self._probability(scores, 2)

    def threshold(self, probability: float) -> float:
        """The lowest score from which a match has at least this probability; a ValueError if none has."""
        require_fraction(probability=probability)
        grid = np.linspace(self.scores[0], self.scores[-1], _PLACES)
        reached = np.flatnonzero(self(grid) >= probability)
        received = f"probability={probability}, which no score reaches: the largest is {self(grid[-1]):.4f}"
        require(len(reached) > 0, received, "a lower one, a larger prior, or more pairs")
        return float(grid[reached[0]])

    def _probability(self, scores, curve):
        knots, ratio, rank_1 = self._table[0], self._table[1 + curve], self._table[4 + curve]
        odds = math.log(self.prior / (1 - self.prior)) if self.prior < 1 else math.inf
        scores = np.asarray(scores, np.float64)
        return np.interp(scores, knots, rank_1) / (1 + np.exp(-odds - np.interp(scores, knots, ratio)))

    @functools.cached_property
    def _table(self):
        """All curves as one array: searches ask for them often."""
        return np.array([self.scores, *self.ratio, *self.rank_1])


def search_outcomes(
    embeddings: npt.ArrayLike,
    labels: Labels,
    *,
    queries: npt.ArrayLike | None = None,
    prior: float = 0.5,
) -> Outcomes:
    """The nearest item of each query by cosine, where a share `prior` of the queries has a match.

    A query with a match is searched among all other examples, and one without among those of other classes.

    Example: the nearest item of the first query is of its class; the second one is searched among the other class.

        >>> outcomes = tfdml.metrics.search_outcomes([[0, 1], [0, 1], [3, 4], [3, 4]], [0, 0, 1, 1])
        >>> outcomes.scores.round(1).tolist(), outcomes.same.tolist()
        ([0.8, 1.0, 0.8, 1.0], [False, True, False, True])

    Args:
        embeddings, labels, queries, prior: as in `ScoreCalibration.fit_search`.

    Returns:
        A record of arrays, one entry per query with a second example of its class: `scores` of the nearest item;
        `same`, whether it has the class of the query; `classes`, of the queries.
    """
    require_fraction(prior=prior)
    with_match, without = _searches(embeddings, labels, queries, "cosine")
    number = np.argsort(np.argsort(with_match.classes, kind="stable"))  # by class
    has_match = np.floor((number + 1) * prior + 1e-9) > np.floor(number * prior + 1e-9)
    return Outcomes(*(np.where(has_match, *both) for both in zip(with_match, without, strict=True)))


def reliability(probabilities: npt.ArrayLike, same: npt.ArrayLike, *, classes: Labels | None = None) -> Reliability:
    """How far probabilities are off: they are sorted into ten bins of as many pairs, and compared with the shares.

    * brier: (1 / n) sum_i (p_i - same_i)^2;
    * ece: expected calibration error, sum_b (n_b / n) |mean of p - share of matches| over bins b.

    The ece of few pairs is above 0 by chance, also of true probabilities.

    See also: `tfdml.visualize.reliability_diagram`, its picture.

    Example: ten pairs, one in each bin: half of those of 0.2 match, and all of those of 0.9.

        >>> numbers = tfdml.metrics.reliability([0.2] * 4 + [0.9] * 6, [0, 1, 0, 1] + [1] * 6)
        >>> round(numbers.brier, 3), round(numbers.ece, 3)  # (2 * 0.04 + 2 * 0.64 + 6 * 0.01) / 10
        (0.142, 0.26)

    Args:
        probabilities: `(pairs,)` floats in [0, 1].
        same: `(pairs,)` booleans, whether they match.
        classes: `(pairs,)` integer class ids, the units of the intervals; None: each pair is a class.

    Returns:
        A record: the numbers `brier` and `ece`, and arrays `(bins,)` by rising probability: the mean `probability`, the
        `share` that match with the bounds `low` and `high` of its 95% interval, and the `counts`.

    Source: Naeini, Cooper, Hauskrecht, Obtaining Well Calibrated Probabilities Using Bayesian Binning, AAAI 2015.
    """
    p, hits = np.asarray(as_readable(probabilities), np.float64), as_same(same)
    require(p.ndim == 1 and len(p) > 0 and p.shape == hits.shape, f"probabilities of shape {p.shape}", "(pairs,)")
    require(bool(((p >= 0) & (p <= 1)).all()), "probabilities below 0, above 1 or NaN", "values in [0, 1]")
    labels = np.arange(len(p)) if classes is None else as_ids(classes, "classes", len(p))
    bins = np.array_split(np.argsort(p, kind="stable"), min(_BINS, len(p)))
    means, shares = (np.array([values[rows].mean() for rows in bins]) for values in (p, hits))
    counts = np.array([len(rows) for rows in bins])
    low, high = np.array([class_interval(hits[rows], labels[rows]) for rows in bins]).T
    ece = float((counts * np.abs(means - shares)).sum() / len(p))
    return Reliability(float(((p - hits) ** 2).mean()), ece, means, shares, low, high, counts)


def _searches(embeddings, labels, queries, metric):
    """Outcomes of the queries that have a second example: among all others, and among those of other classes."""
    vectors = as_vectors(embeddings, "embeddings")
    labels = as_ids(labels, "labels", len(vectors))
    is_query = np.ones(len(labels), bool) if queries is None else np.asarray(queries)
    require(is_query.dtype == bool and is_query.shape == labels.shape, "queries of another form", "(n,) booleans")
    ids, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    rows = np.flatnonzero(is_query & (sizes[codes] > 1))
    received = f"{len(rows)} queries of {len(ids)} classes"
    require(len(rows) > 0 and len(ids) > 1, received, "pairs of two classes or more")
    index, k = Exact(vectors, metric=metric), int(sizes.max()) + 1  # of k items, one is of another class
    blocks = np.array_split(rows, -(-len(rows) * k // _NEIGHBORS))
    answers = [_nearest(index, vectors, labels, block, min(k, len(labels))) for block in blocks]
    scores, same, others = map(np.concatenate, zip(*answers, strict=True))
    sign = -1.0 if metric == "euclidean" else 1.0
    both = (scores, same), (others, np.zeros_like(same))
    return [Outcomes(sign * values.astype(np.float64), is_same, labels[rows]) for values, is_same in both]


def _nearest(index, vectors, labels, rows, k):
    """Score of the nearest other item of each row, whether it has its class, and the score of one of another class."""
    nearest, scores = index.search(vectors[rows], k)
    each, column = np.arange(len(rows)), (nearest[:, 0] == rows).astype(int)  # the query itself is no item
    is_other = labels[nearest] != labels[rows][:, None]
    return scores[each, column], ~is_other[each, column], scores[each, is_other.argmax(axis=1)]


def _curves(values, hits, labels, confidence):
    """Knots `(m,)`, and the share of hits with the bounds of its interval over classes there, `(3, m)`."""
    order = np.argsort(values, kind="stable")
    values, hits, labels = values[order], hits[order], labels[order]
    is_few = min(hits.sum(), (~hits).sum()) < _FEW
    fitted = logistic_curve(values, hits)(values) if is_few else _isotonic(values, hits)
    needed = min(least_classes(confidence), len(np.unique(labels)))
    blocks, begin = [], 0
    for end in [*(np.flatnonzero(np.diff(fitted) > 0) + 1).tolist(), len(values)]:
        if end - begin >= _LEAST and len(np.unique(labels[begin:end])) >= needed:
            blocks.append(slice(begin, end))
            begin = end
    if begin < len(values):
        blocks = [*blocks[:-1], slice(blocks[-1].start if blocks else 0, len(values))]
    knots, shares = (np.array([each[block].mean() for block in blocks]) for each in (values, fitted))
    low, high = np.array([class_interval(hits[block], labels[block], confidence=confidence) for block in blocks]).T
    low, high = np.fmin(low, shares), np.fmax(high, shares)
    is_known = len(np.unique(labels)) >= least_classes(confidence)
    low, high = (bound if is_known else np.full(len(shares), np.nan) for bound in (low, high))
    return knots, np.stack([shares, np.minimum.accumulate(low[::-1])[::-1], np.maximum.accumulate(high)])


def _isotonic(values, hits):
    """The rising curve of least squares; a hit and a miss more at both ends keep it between 0 and 1.

    Source: Brümmer and de Villiers, The BOSARIS Toolkit, 2013, for the ends.
    """
    isotonic = optional_import("sklearn.isotonic", feature="ScoreCalibration", extra="evaluation")
    ends = values[[0, 0, -1, -1]]
    curve = isotonic.IsotonicRegression().fit(np.append(values, ends), np.append(hits, [1, 0, 1, 0]))
    return curve.predict(values)


def logistic_curve(
    values: np.ndarray, hits: np.ndarray, *, strength: float = np.inf
) -> Callable[[np.ndarray], np.ndarray]:
    """The logistic curve of most likelihood; rates of 1 / (n + 2) in place of 0 keep it between 0 and 1.

    A finite `strength` makes it less steep: it is the C of the regression of scikit-learn on values of variance 1. The
    curve is constant where it would fall.

    Source: Platt, Probabilistic Outputs for Support Vector Machines, 1999.
    """
    linear = optional_import("sklearn.linear_model", feature="calibrated probabilities", extra="evaluation")
    center, spread = values.mean(), values.std() or 1.0
    target = np.where(hits, (hits.sum() + 1) / (hits.sum() + 2), 1 / ((~hits).sum() + 2))
    x, weights = np.tile(values - center, 2)[:, None] / spread, np.concatenate([target, 1 - target])
    fitted = linear.LogisticRegression(C=strength).fit(x, np.repeat([1, 0], len(values)), weights)
    if fitted.coef_[0, 0] <= 0:
        return lambda new: np.full(len(new), target.mean())
    return lambda new: fitted.predict_proba((new - center)[:, None] / spread)[:, 1]


def _log_odds(shares):
    shares = np.clip(shares, _ODDS, 1 - _ODDS)
    return np.log(shares / (1 - shares))


def _require_alike(matched, mismatched):
    received = f"{len(matched)} matched and {len(mismatched)} mismatched pairs"
    require(min(len(matched), len(mismatched)) >= _MIN_PAIRS, received, f"at least {_MIN_PAIRS} of each kind")
    require_similarities(matched, mismatched)
