"""Verification: whether the two examples of a pair have the same class, decided by a threshold on their score.

The decision accepts a pair if its score is at least the threshold. tar and far are the accepted shares of the matched
and of the mismatched pairs; frr = 1 - tar.
"""

import math
import warnings
from collections.abc import Sequence
from numbers import Real
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, as_readable, as_unmasked, as_vectors, require, require_metric
from tfdml._core.optional import optional_import
from tfdml.metrics.statistics.intervals import class_interval, class_sums
from tfdml.search.scores import Gallery
from tfdml.typing import Labels

_FOLDS = 10
_MIN_PAIRS = 10  # Fewer pairs do not decide a rate.
_ROUNDING = 1e-12  # Of a rate, which is a quotient of two counts.


class Roc(NamedTuple):
    """The receiver operating characteristic, see `roc`."""

    far: np.ndarray
    tar: np.ndarray
    thresholds: np.ndarray


class FoldDecisions(NamedTuple):
    """Decisions on the pairs of each fold, see `fold_accuracy`."""

    folds: np.ndarray
    thresholds: np.ndarray
    accuracies: np.ndarray
    accepted: np.ndarray


def verification(
    scores: npt.ArrayLike,
    same: npt.ArrayLike,
    folds: npt.ArrayLike | None = None,
    *,
    far: float | Sequence[float] = 0.01,
) -> dict[str, float]:
    """Verification metrics from the scores of pairs: `pair_scores` of embeddings, or the scores of any model.

    * accuracy: share of correct decisions on the pairs of a fold, with the threshold that decides most pairs of all
      other folds correctly; the mean over folds. Of several such thresholds it is the middle one.
    * accuracy_se: standard error of that mean, the sample standard deviation over folds / sqrt(folds).
    * auc: area under the curve of tar over far.
    * eer: equal error rate, where far = frr on that curve.
    * tar@far=x: the largest tar of a threshold with far <= x.
    * fpr95: far at the highest threshold with tar >= 0.95.

    See also: `fold_accuracy` for the thresholds and accuracies; `calibrated_threshold` for one to use.

    Example: of two matched pairs with scores 4 and 2, and two mismatched ones with 3 and 1, three of four comparisons
    are won.

        >>> numbers = tfdml.metrics.verification([4, 2, 3, 1], [1, 1, 0, 0], far=())
        >>> numbers["auc"], numbers["eer"]
        (0.75, 0.5)

    Args:
        scores: `(pairs,)` floats, larger for pairs that are more alike. Pass minus the distance for distances.
        same: `(pairs,)` booleans, or integers 0 and 1: whether both examples have the same class.
        folds: `(pairs,)` integers, the fold of each pair. None: ten folds, each with a tenth of the matched and a tenth
            of the mismatched pairs, in their order. For the pairs of LFW in the order of its list, these are its folds.
        far: false accept rates, one, several or none, between 0 and 1.

    Returns:
        dict of floats: `accuracy`, `accuracy_se`, `auc`, `eer`, `tar@far=x` for each rate x, `fpr95`. `tar@far=x` is
        NaN, with a UserWarning, where fewer than ten mismatched pairs would decide it: x * mismatched pairs < 10.

    Raises:
        ValueError: scores that are all the same; fewer than two pairs of a kind; one fold, or a fold whose complement
            has pairs of one kind only.

    Source: Huang, Ramesh, Berg, Learned-Miller, Labeled Faces in the Wild, technical report 07-49, University of
    Massachusetts, 2007 (folds, accuracy and its standard error); Brown, Hua, Winder, Discriminative Learning of Local
    Image Descriptors, PAMI 2011 (error at 95% recall).
    """
    values, is_same = as_pairs(scores, same)
    accuracies = fold_accuracy(values, is_same, folds).accuracies
    rates = as_rates(far)
    curve = _roc(values, is_same)
    return {
        "accuracy": float(np.mean(accuracies)),
        "accuracy_se": float(np.std(accuracies, ddof=1) / np.sqrt(len(accuracies))),
        "auc": float(np.trapezoid(curve.tar, curve.far)),
        "eer": float(np.interp(0, curve.far + curve.tar - 1, curve.far)),
        **{f"tar@far={rate:g}": _tar_at(curve, rate, (~is_same).sum()) for rate in rates},
        "fpr95": float(curve.far[np.argmax(curve.tar >= 0.95)]),
    }


def fold_accuracy(scores: npt.ArrayLike, same: npt.ArrayLike, folds: npt.ArrayLike | None = None) -> FoldDecisions:
    """The thresholds and accuracies behind `accuracy` of `verification`, fold by fold.

    Example: the threshold of each fold is halfway between the scores of the other one.

        >>> decisions = tfdml.metrics.fold_accuracy([5, 1, 6, 4], [1, 0, 1, 0], [0, 0, 1, 1])
        >>> decisions.thresholds, decisions.accuracies
        (array([5., 3.]), array([1. , 0.5]))

    Args:
        scores, same, folds: as in `verification`.

    Returns:
        A record of arrays: `folds`, `(f,)` int64, the ids of the folds, rising; `thresholds`, `(f,)` float64, the best
        one on all other folds; `accuracies`, `(f,)` float64, the fraction of correct decisions; and `accepted`,
        `(pairs,)` booleans, wrong where they differ from `same`.
    """
    values, is_same = as_pairs(scores, same)
    ids, fold_of_pair = np.unique(_as_folds(folds, is_same), return_inverse=True)
    thresholds = [_threshold_without(values, is_same, fold_of_pair == fold) for fold in range(len(ids))]
    accepted = values >= np.array(thresholds)[fold_of_pair]
    correct = np.bincount(fold_of_pair, accepted == is_same) / np.bincount(fold_of_pair)
    return FoldDecisions(ids, np.array(thresholds), correct, accepted)


def pair_scores(a: npt.ArrayLike, b: npt.ArrayLike, *, metric: str = "cosine") -> np.ndarray:
    """Scores of pairs of embeddings; a larger score is nearer.

    See also: `tfdml.models.score_pairs` for a model of pairs.

    Example:

        >>> scores = tfdml.metrics.pair_scores([[1, 0], [3, 4]], [[0, 1], [0, 2]])
        >>> scores.astype(float).round(4).tolist()  # 0, and 8 / (5 * 2)
        [0.0, 0.8]

    Args:
        a, b: `(pairs, dim)` floats; pair i is row i of both.
        metric: "cosine" (normalized here; a zero vector has cosine 0 with everything), "dot" or "euclidean", whose
            score is minus the distance.

    Returns:
        `(pairs,)` float32; `(0,)` without pairs. The score of a pair depends on its two vectors only.
    """
    require_metric(metric)
    first, second = as_vectors(a, "a"), as_vectors(b, "b")
    shapes = f"a of shape {first.shape} and b of shape {second.shape}"
    require(first.shape == second.shape, shapes, "the same shape, one row per pair")
    rows = np.arange(len(first))
    return Gallery(second, metric).scores(first).exact(rows, rows) if len(rows) else np.empty(0, np.float32)


def roc(scores: npt.ArrayLike, same: npt.ArrayLike) -> Roc:
    """The receiver operating characteristic of pairs, with all of its thresholds.

    Example:

        >>> curve = tfdml.metrics.roc([4.0, 3.0, 2.0, 1.0], [1, 0, 1, 0])
        >>> curve.thresholds.tolist()
        [inf, 3.5, 2.5, 1.5, 1.0]
        >>> curve.far.tolist(), curve.tar.tolist()
        ([0.0, 0.0, 0.5, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0, 1.0])

    Args:
        scores, same: as in `verification`.

    Returns:
        A record of arrays `(m,)` float64, by falling threshold: `far` and `tar`, the false and the true accept rates,
        from 0 to 1; and `thresholds`, halfway between the lowest accepted score and the next lower one. The first is
        infinite and accepts nothing, the last is the lowest score.
    """
    return _roc(*as_pairs(scores, same))


def calibrated_threshold(
    scores: npt.ArrayLike,
    same: npt.ArrayLike,
    *,
    precision: float | None = None,
    far: float | None = None,
    frr: float | None = None,
    classes: Labels | None = None,
    guarantee: float | None = None,
) -> float:
    """The threshold that reaches a rate on validation pairs. Two examples match if their score is at least this.

    * precision: the lowest threshold that leaves at least this share of matched pairs among the accepted ones. It
      depends on the share of matched pairs: this must be the same in use.
    * far: the lowest threshold that accepts at most this share of the mismatched pairs.
    * frr: the highest threshold that rejects at most this share of the matched pairs.

    These are rates of the validation pairs. With `guarantee` g, the threshold is that of conformal risk control: each
    of C classes has a threshold that its own rate allows, and the ceil(g (C + 1))-th most lenient one is taken. A new
    class of the same kind has at most this rate with probability g or more, whatever the scores are; 95% need 19
    classes.

    See also: `threshold_rates` for what a threshold is worth on other pairs; `ScoreCalibration` for a probability.

    `tfdml.export.saved_model(..., threshold=)` writes it with the model.

    Example:

        >>> scores, same = np.arange(40), np.arange(40) >= 20  # the matched pairs have scores 20 to 39
        >>> tfdml.metrics.calibrated_threshold(scores, same, frr=0.5)  # rejects 20 to 29
        29.5

    Args:
        scores, same: as in `verification`, of validation pairs.
        precision, far, frr: exactly one of them, between 0 and 1.
        classes: `(pairs,)` integer class ids of the first example of each pair; only for a guarantee.
        guarantee: share of new classes that keep `far` or `frr`, between 0 and 1; None: no promise.

    Returns:
        a float, halfway between two scores, or a score with a guarantee. It belongs to the metric of the scores.

    Raises:
        ValueError: none or several rates; distances; fewer than ten pairs that decide it; a precision that no
            threshold reaches; a guarantee with too few classes for it.

    Source: Angelopoulos, Bates, Fisch, Lei, Schuster, Conformal Risk Control, ICLR 2024, with the loss "the class
    exceeds its rate".
    """
    rates = {"precision": precision, "far": far, "frr": frr}
    chosen = {name: rate for name, rate in rates.items() if rate is not None}
    require(len(chosen) == 1, f"{chosen or 'no rate'}", "exactly one of precision, far and frr")
    ((name, rate),) = chosen.items()
    as_rates(rate, name)
    values, is_same = as_pairs(scores, same)
    require_similarities(values[is_same], values[~is_same])
    if guarantee is not None or classes is not None:
        return _guaranteed(values, is_same, name, rate, classes, guarantee)
    curve, num_matched, num_mismatched = _roc(values, is_same), is_same.sum(), (~is_same).sum()
    if name == "precision":
        index = _index_of_precision(curve, rate, num_matched, num_mismatched)
    elif name == "far":
        _require_deciding("far", rate, num_mismatched, "mismatched")
        index = _index_of_far(curve, rate)
    else:
        _require_deciding("frr", rate, num_matched, "matched")
        index = np.searchsorted(curve.tar, 1 - rate - _ROUNDING)
    received = f"{name}={rate}, which no threshold reaches on these {len(values)} pairs"
    expected = "a rate within reach: plot tfdml.metrics.roc(scores, same)"
    require(0 < index < len(curve.thresholds), received, expected)
    return float(curve.thresholds[index])


def threshold_rates(
    threshold: float,
    scores: npt.ArrayLike,
    same: npt.ArrayLike,
    *,
    classes: Labels | None = None,
    far: float | None = None,
    frr: float | None = None,
) -> dict[str, float]:
    """Rates of a threshold on these pairs, with intervals over classes.

    Example: of four pairs from 3 on, three match.

        >>> rates = tfdml.metrics.threshold_rates(3, [1, 2, 3, 4, 5, 6], [0, 1, 0, 1, 1, 1])
        >>> rates["far"], rates["frr"], rates["precision"]
        (0.5, 0.25, 0.75)

    Args:
        threshold: such as that of `calibrated_threshold`.
        scores, same: as in `verification`, of test pairs.
        classes: `(pairs,)` integer class ids of the first example of each pair; None: each pair is a class.
        far, frr: a rate that was promised.

    Returns:
        dict of floats: `far`, `frr`, and `precision` of the accepted pairs, NaN for none. With `far` or `frr`, `kept`
        is the share of classes whose own rate is at most this. `far low` and `far high` are the bounds of the 95%
        interval of `far`, and so for all of them; NaN with too few classes, see `class_interval`.
    """
    is_number = isinstance(threshold, Real) and threshold == threshold
    require(is_number, f"threshold={threshold!r}", "a number, such as that of calibrated_threshold")
    values, is_same = as_pairs(scores, same)
    labels = np.arange(len(values)) if classes is None else as_ids(classes, "classes", len(values))
    accepted = values >= threshold
    masks = {"far": (~is_same, accepted), "frr": (is_same, ~accepted), "precision": (accepted, is_same)}
    counted = {name: (hits[mask], labels[mask]) for name, (mask, hits) in masks.items()}
    promised = {name: rate for name, rate in (("far", far), ("frr", frr)) if rate is not None}
    require(len(promised) < 2, f"{promised}", "one of far and frr")
    for name, rate in promised.items():
        as_rates(rate, name)
        sums, counts = class_sums(counted[name][0].astype(float), counted[name][1])
        counted["kept"] = sums <= rate * counts + _ROUNDING, np.arange(len(sums))
    rates: dict[str, float] = {}
    for name, (hits, units) in counted.items():
        low, high = class_interval(hits, units) if len(hits) else (np.nan, np.nan)
        rates |= {name: float(hits.mean()) if len(hits) else np.nan, f"{name} low": low, f"{name} high": high}
    return rates


def _guaranteed(scores, same, name, rate, classes, guarantee):
    """The most lenient threshold that enough classes allow, so that a new one does with this probability."""
    received = f"{name} with guarantee={guarantee} and {'no classes' if classes is None else 'classes'}"
    expected = "far or frr, with both classes and guarantee, a share such as 0.95"
    require(name != "precision" and None not in (guarantee, None if classes is None else 0), received, expected)
    as_rates(guarantee, "guarantee")
    sign, counts = (1, ~same) if name == "far" else (-1, same)
    labels = as_ids(classes, "classes", len(scores))[counts]
    values = np.sort(sign * scores[counts])[::-1], labels[np.argsort(-sign * scores[counts], kind="stable")]
    bounds = [_first_refused(values[0][values[1] == label], rate) for label in np.unique(labels)]
    needed = math.ceil(guarantee * (len(bounds) + 1) - _ROUNDING)
    least = math.ceil(guarantee / (1 - guarantee) - _ROUNDING)
    received = f"guarantee={guarantee} and {len(bounds)} classes"
    require(needed <= len(bounds), received, f"{least} classes at least: fewer cannot promise it, whatever they show")
    bound = np.sort(bounds)[needed - 1]
    return float(np.nextafter(bound, np.inf) if sign > 0 else -bound)


def _first_refused(values, rate):
    """The largest value of a class that its rate does not allow to count; values fall."""
    return values[int(rate * len(values) + _ROUNDING)]


def _index_of_precision(curve, rate, num_matched, num_mismatched):
    """Index of the lowest threshold with this precision and enough accepted pairs; 0 for none."""
    matched = curve.tar * num_matched
    accepted = matched + curve.far * num_mismatched
    is_enough = (matched >= (rate - _ROUNDING) * accepted) & (accepted > _MIN_PAIRS - 0.5)
    return np.flatnonzero(is_enough).max(initial=0)


def _index_of_far(curve, rate):
    """Index of the lowest threshold with at most this false accept rate."""
    return np.searchsorted(curve.far, rate + _ROUNDING, "right") - 1


def auc_per_pair(scores: npt.ArrayLike, same: npt.ArrayLike) -> np.ndarray:
    """A value of each pair, `(pairs,)`, whose mean is the area under the ROC curve, with the variance of DeLong.

    A pair wins against each pair of the other kind on whose right side its score is, and half where they are equal. The
    distance of its share of wins from the area is multiplied by pairs / pairs of its kind.

    Source: DeLong, DeLong, Clarke-Pearson, Comparing the Areas under Two or More Correlated Receiver Operating
    Characteristic Curves, Biometrics 1988.
    """
    values, is_same = np.asarray(scores, np.float64), np.asarray(same, bool)
    wins = np.empty(len(values))
    for kind in (True, False):
        others = np.sort(values[is_same != kind])
        ranks = [np.searchsorted(others, values[is_same == kind], side) for side in ("left", "right")]
        share = np.mean(ranks, axis=0) / len(others)
        wins[is_same == kind] = share if kind else 1 - share
    area = wins[is_same].mean()
    return area + (wins - area) * len(values) / np.where(is_same, is_same.sum(), (~is_same).sum())


def _roc(scores, same):
    metrics = optional_import("sklearn.metrics", feature="verification", extra="evaluation")
    far, tar, lowest = metrics.roc_curve(same, scores, drop_intermediate=False)
    below = np.append(lowest[2:], lowest[-1])
    middle = below + (lowest[1:] - below) / 2
    return Roc(far, tar, np.append(np.inf, np.where(middle > below, middle, lowest[1:])))


def _threshold_without(scores, same, held_out):
    """The threshold with the most correct decisions on all pairs but those held out, the middle one of several."""
    rest = same[~held_out]
    expected = "folds whose complements hold matched and mismatched pairs"
    require(0 < rest.sum() < len(rest), "folds with all pairs of a kind in one fold", expected)
    curve = _roc(scores[~held_out], rest)
    correct = np.rint(curve.tar * rest.sum()) - np.rint(curve.far * (~rest).sum())
    best = np.flatnonzero(correct == correct.max())
    return curve.thresholds[best[len(best) // 2]]


def _tar_at(curve, rate, mismatched):
    """The largest tar with far <= rate; NaN with a warning where too few pairs decide it."""
    if _decides(rate, mismatched):
        return float(curve.tar[_index_of_far(curve, rate)])
    received = _deciding("far", rate, mismatched, "mismatched")
    warnings.warn(
        f"Received {received}, expected at least {_MIN_PAIRS}, so tar@far={rate:g} is NaN. Pass more mismatched pairs, "
        "or a larger far.",
        stacklevel=3,
    )
    return float("nan")


def _require_deciding(name, rate, pairs, kind):
    expected = f"at least {_MIN_PAIRS}. Pass more pairs, or a larger {name}"
    require(_decides(rate, pairs), _deciding(name, rate, pairs, kind), expected)


def _decides(rate, pairs):
    return rate * pairs >= _MIN_PAIRS - _ROUNDING


def _deciding(name, rate, pairs, kind):
    return f"{name}={rate:g} and {pairs:,} {kind} pairs, of which {rate * pairs:.3g} would decide"


def as_pairs(scores: npt.ArrayLike, same: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Scores `(pairs,)` float64 and `same` as booleans, checked; a ValueError for scores that are all the same."""
    scores = np.asarray(as_readable(as_unmasked(scores, "scores")), np.float64)
    same = as_same(same)
    received = f"scores of shape {scores.shape} and same of shape {same.shape}"
    require(scores.shape == same.shape, received, "(pairs,) for both")
    bad = np.flatnonzero(~np.isfinite(scores))
    require(not len(bad), f"scores that are not finite (first for pair {bad[:1]})", "numbers")
    received = f"{same.sum()} matched and {(~same).sum()} mismatched pairs"
    require(min(same.sum(), (~same).sum()) >= 2, received, "at least two of each kind")
    expected = "scores that differ. The model has collapsed: look at its loss and its inputs"
    require(np.ptp(scores) > 0, "scores that are all the same", expected)
    return scores, same


def as_same(same: npt.ArrayLike) -> np.ndarray:
    """Whether pairs have the same class, `(pairs,)` booleans, checked."""
    flags = np.asarray(as_readable(as_unmasked(same, "same")))
    is_valid = flags.ndim == 1 and (flags.dtype == bool or (flags.dtype.kind in "iu" and np.isin(flags, (0, 1)).all()))
    expected = "(pairs,) booleans, or integers 0 and 1: whether a pair has the same class"
    require(bool(is_valid), f"same of shape {flags.shape}, {flags.dtype}", expected)
    return flags.astype(bool)


def require_similarities(matched: np.ndarray, mismatched: np.ndarray) -> None:
    """Raise a ValueError for scores that are lower for pairs that match, as distances are."""
    expected = "larger scores for pairs that are more alike. Pass minus the distance for distances"
    received = f"matched pairs with a mean score of {matched.mean():.4g} and others with {mismatched.mean():.4g}"
    require(matched.mean() > mismatched.mean(), received, expected)


def _as_folds(folds, same):
    """The fold of each pair: `(pairs,)` int64 with at least two values."""
    if folds is None:
        index_of_kind = np.where(same, np.cumsum(same), np.cumsum(~same)) - 1
        return _FOLDS * index_of_kind // np.where(same, same.sum(), (~same).sum())
    folds = as_ids(folds, "folds", len(same))
    expected = "at least two folds, because the threshold of a fold is chosen on the others"
    require(folds.min() < folds.max(), f"folds that are all {folds[0]}", expected)
    return folds


def as_rates(rates, name="far"):
    """Rates as a list, checked."""
    values = np.atleast_1d(rates).tolist()
    is_valid = all(isinstance(rate, float | int) and 0 < rate < 1 for rate in values)
    require(is_valid, f"{name}={rates!r}", "rates above 0 and below 1, such as 0.01")
    return values
