"""Probabilities of scores against scikit-learn, true densities and laws; thresholds with a guarantee by theory."""

import dataclasses
import json
import math

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss

from tfdml.metrics import (
    ScoreCalibration,
    calibrated_threshold,
    class_interval,
    reliability,
    search_outcomes,
    threshold_rates,
)


def pairs(n=4000, seed=0, share=0.5, gap=2.0):
    """Scores of N(0, 1), and N(gap, 1) of matched pairs: the log odds are gap s - gap^2 / 2 + those of the share."""
    rng = np.random.default_rng(seed)
    same = rng.random(n) < share
    return rng.normal(size=n) + gap * same, same


def truth(scores, prior, gap=2.0):
    return 1 / (1 + np.exp(-(gap * scores - gap**2 / 2)) * (1 - prior) / prior)


# The curve.


def test_the_knots_lie_on_the_isotonic_curve_of_scikit_learn():
    scores, same = pairs()
    found = ScoreCalibration.fit(scores, same)
    ends = [scores.min()] * 2 + [scores.max()] * 2
    expected = IsotonicRegression().fit(np.append(scores, ends), np.append(same, [1, 0, 1, 0])).predict(scores)
    # A knot is the mean of the scores and of the curve over some of its levels: all pairs are in one of them.
    order = np.argsort(scores)
    levels = np.split(order, np.flatnonzero(np.diff(expected[order]) > 0) + 1)
    blocks, held = [], []
    for level in levels:
        held = [*held, *level]
        if len(held) >= 30:
            blocks, held = [*blocks, held], []
    blocks[-1] = [*blocks[-1], *held]
    np.testing.assert_allclose(found.scores, [scores[block].mean() for block in blocks], rtol=1e-12)
    np.testing.assert_allclose(found(found.scores), [expected[block].mean() for block in blocks], rtol=1e-9)


def test_few_pairs_have_the_logistic_curve_of_platt():
    scores, same = pairs(n=150)
    found = ScoreCalibration.fit(scores, same)
    target = np.where(same, (same.sum() + 1) / (same.sum() + 2), 1 / ((~same).sum() + 2))
    x, y = np.concatenate([scores, scores])[:, None], np.repeat([1, 0], len(scores))
    fitted = LogisticRegression(C=np.inf, tol=1e-10).fit(x, y, np.concatenate([target, 1 - target]))
    order = np.argsort(scores)
    expected = fitted.predict_proba(scores[order, None])[:, 1]
    blocks = np.split(np.arange(150), range(30, 150, 30))
    np.testing.assert_allclose(found(found.scores), [expected[block].mean() for block in blocks], atol=1e-4)


@pytest.mark.parametrize("prior", [0.5, 0.05, 0.95])
def test_it_finds_the_true_probability_at_other_priors(prior):
    scores, same = pairs(n=40_000)
    found = ScoreCalibration.fit(scores, same, prior=prior)
    at = np.linspace(-1, 3, 9)
    np.testing.assert_allclose(found(at), truth(at, prior), atol=0.05)
    new, match = pairs(n=40_000, seed=1, share=prior)
    assert reliability(found(new), match).ece < 0.01


def test_another_prior_shifts_the_log_odds():
    calibration = ScoreCalibration.fit(*pairs())
    at = np.linspace(-2, 4, 7)
    log_odds = [np.log(p / (1 - p)) for p in (calibration.at(0.2)(at), calibration.at(0.6)(at))]
    np.testing.assert_allclose(log_odds[1] - log_odds[0], math.log(0.6 / 0.4) - math.log(0.2 / 0.8), atol=1e-9)
    np.testing.assert_allclose(calibration.at(1)(at), 1)
    assert calibration.prior == pytest.approx(np.mean(pairs()[1]))


@pytest.mark.parametrize(("n", "scale", "shift"), [(60, 0.01, 0.0), (250, 100, -5), (600, 3, 5), (1000, 1, 0)])
@pytest.mark.parametrize("seed", range(4))
def test_it_rises_and_does_not_depend_on_units_or_order(seed, scale, shift, n):
    scores, same = pairs(n=n, seed=seed)
    found, at = ScoreCalibration.fit(scores, same), np.linspace(-3, 5, 50)
    assert (np.diff(found(at)) >= 0).all()
    assert ((found(at) > 0) & (found(at) < 1)).all()
    other = np.random.default_rng(seed).permutation(n)
    moved = ScoreCalibration.fit(scale * scores[other] + shift, same[other])
    np.testing.assert_allclose(moved(scale * at + shift), found(at), atol=1e-3)


def test_the_interval_is_that_of_classes_and_covers_the_truth():
    rng, covered = np.random.default_rng(0), []
    for _ in range(60):
        classes = np.repeat(np.arange(40), 50)
        same = rng.random(2000) < 0.5
        scores = rng.normal(size=2000) + 2 * same + rng.normal(size=40)[classes] * 0.3
        found = ScoreCalibration.fit(scores, same, classes=classes, prior=0.5)
        low, high = found.interval(1.0)
        covered.append(low <= 0.5 <= high)
        assert low <= found(1.0) <= high
    assert np.mean(covered) >= 0.9
    few = ScoreCalibration.fit(scores, same, classes=classes % 5)
    assert np.isnan(few.interval(1.0)).all()


def test_a_block_has_the_interval_of_the_one_judge():
    scores = np.repeat([0.0, 1.0], 300)
    classes, same = np.tile(np.arange(30), 20), np.random.default_rng(0).random(600) < np.repeat([0.2, 0.7], 300)
    found = ScoreCalibration.fit(scores, same, classes=classes)
    low, high = found.interval([0.0, 1.0])
    expected = [class_interval(same[block], classes[block]) for block in (slice(300), slice(300, 600))]
    np.testing.assert_allclose(np.transpose([low, high]), expected, rtol=1e-9)


def test_a_threshold_is_the_lowest_score_of_a_probability():
    found = ScoreCalibration.fit(*pairs(n=40_000))
    score = found.threshold(0.9)
    assert found(score) >= 0.9 > found(score - 0.01)
    assert found.at(0.01).threshold(0.5) > score  # rare matches need more
    with pytest.raises(ValueError, match="which no score reaches: the largest is"):
        found.threshold(1.0)


# A search.


def blobs(seed, classes=120, each=6, noise=0.6):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), each)
    x = rng.normal(size=(classes, 8))[labels] + noise * rng.normal(size=(classes * each, 8))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32), labels


def outcomes_by_loops(x, labels, query, without):
    best = (-np.inf, False)
    for item in range(len(x)):
        if item != query and not (without and labels[item] == labels[query]):
            best = max(best, (float(x[query] @ x[item]), bool(labels[item] == labels[query])))
    return best


def test_outcomes_are_those_of_loops_and_have_their_prior():
    x, labels = blobs(0, classes=12)
    for prior, share in ((1.0, 1.0), (0.5, 0.5), (0.25, 0.25)):
        found = search_outcomes(x, labels, prior=prior)
        assert len(found.scores) == 72
        without = [not np.isclose(s, outcomes_by_loops(x, labels, q, False)[0]) for q, s in enumerate(found.scores)]
        expected = [outcomes_by_loops(x, labels, q, w) for q, w in enumerate(without)]
        np.testing.assert_allclose(found.scores, [score for score, _ in expected], rtol=1e-5)
        assert found.same[~np.array(without)].tolist() == [
            s for (_, s), w in zip(expected, without, strict=True) if not w
        ]
        assert np.mean(found.same) <= share
    queries = np.arange(72) < 30
    some = search_outcomes(x, labels, queries=queries, prior=1)
    np.testing.assert_array_equal(some.classes, labels[:30])
    np.testing.assert_allclose(some.scores, search_outcomes(x, labels, prior=1).scores[:30])


@pytest.mark.parametrize("prior", [0.2, 0.5, 1.0])
def test_a_search_is_calibrated_on_classes_that_are_new(prior):
    calibration = ScoreCalibration.fit_search(*blobs(0, classes=300), prior=prior)
    ece = []
    for seed in range(1, 4):
        scores, same, classes = search_outcomes(*blobs(seed, classes=300), prior=prior)
        ece.append(reliability(calibration(scores), same, classes=classes).ece)
    assert np.mean(ece) < 0.03
    assert reliability(calibration.at(0.9 if prior < 0.9 else 0.1)(scores), same).ece > 0.06  # a wrong prior shows


def test_distances_of_a_search_are_negated():
    x, labels = blobs(0)
    found = ScoreCalibration.fit_search(x, labels, metric="euclidean")
    np.testing.assert_array_equal(found.of_neighbors([0.1, 0.9]), found([-0.1, -0.9]))
    assert found.of_neighbors(0.1) > found.of_neighbors(1.2)
    cosine = ScoreCalibration.fit_search(x, labels)
    np.testing.assert_array_equal(cosine.of_neighbors([0.3]), cosine([0.3]))
    np.testing.assert_allclose(found(-np.sqrt(2 - 2 * 0.9)), cosine(0.9), atol=0.05)


# The record.


def test_json_keeps_all_of_it():
    for calibration in (
        ScoreCalibration.fit_search(*blobs(0), model="a model"),
        ScoreCalibration.fit(*pairs(n=100), classes=np.arange(100) % 4),
    ):
        text = json.dumps(calibration.as_dict(), allow_nan=False)
        again = ScoreCalibration.from_dict(json.loads(text))
        assert again.as_dict() == calibration.as_dict()
        np.testing.assert_array_equal(again([0.1, 0.7]), calibration([0.1, 0.7]))
        np.testing.assert_array_equal(again.interval(0.5), calibration.interval(0.5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": [1.0]}, "damaged"),
        ({"scores": "none"}, "damaged"),
        ({"prior": 0}, "damaged"),
        ({"prior": 2.0}, "damaged"),
        ({"metric": "manhattan"}, "damaged"),
        ({"ratio": [[1.0], [2.0]]}, "damaged"),
        ({"ratio": None}, "damaged"),
        ({"more": 1}, "a calibration with"),
    ],
)
def test_a_damaged_record_is_refused(change, message):
    values = ScoreCalibration.fit(*pairs()).as_dict()
    with pytest.raises(ValueError, match=message):
        ScoreCalibration.from_dict({**values, **change})
    falling = [list(reversed(curve)) for curve in values["ratio"]]
    with pytest.raises(ValueError, match="damaged"):
        ScoreCalibration.from_dict({**values, "ratio": falling})


def test_scores_of_another_metric_or_model_are_refused():
    calibration = ScoreCalibration.fit(*pairs(), model="one")
    assert calibration.require(metric="cosine", model="one") is calibration
    assert calibration.require(metric="cosine") is calibration
    with pytest.raises(ValueError, match="calibration of the metric 'cosine' for scores of 'dot'"):
        calibration.require(metric="dot")
    with pytest.raises(ValueError, match="Received scores of model other"):
        calibration.require(metric="cosine", model="other")
    calibration.require(metric="cosine", model="other", other_model=True)


SCORES, SAME = pairs(n=60)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((-SCORES, SAME), {}, "Pass minus the distance for distances"),
        ((SCORES[:19], SAME[:19]), {}, "at least 10 of each kind"),
        ((SCORES, SAME), {"classes": [1, 2]}, "classes"),
        ((SCORES, SAME), {"prior": 0.0}, "a number above 0"),
        ((SCORES, SAME), {"prior": 1.5}, "a number above 0"),
        ((SCORES, SAME), {"prior": "often"}, "a number above 0"),
        ((SCORES, SAME), {"metric": "manhattan"}, "metric"),
    ],
)
def test_wrong_pairs_are_errors(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        ScoreCalibration.fit(*arguments, **options)


@pytest.mark.slow
def test_numbers_and_pairs_of_other_libraries_are_read():
    torch = pytest.importorskip("torch")
    calibration = ScoreCalibration.fit(SCORES, SAME, prior=np.float32(0.25))
    assert json.loads(json.dumps(calibration.as_dict()))["prior"] == 0.25
    tensors = torch.tensor(SCORES, requires_grad=True), torch.tensor(SAME)
    assert ScoreCalibration.fit(*tensors, prior=0.25) == calibration
    assert calibrated_threshold(*tensors, frr=0.4) == calibrated_threshold(SCORES, SAME, frr=0.4)


def test_wrong_searches_are_errors():
    x, labels = blobs(0, classes=4)
    with pytest.raises(ValueError, match="pairs of two classes or more"):
        ScoreCalibration.fit_search(x, np.zeros(len(x), int))
    with pytest.raises(ValueError, match="pairs of two classes or more"):
        ScoreCalibration.fit_search(x, np.arange(len(x)))
    with pytest.raises(ValueError, match=r"\(n,\) booleans"):
        ScoreCalibration.fit_search(x, labels, queries=[0, 1])


# Reliability.


def test_reliability_is_that_of_loops_and_of_scikit_learn():
    rng = np.random.default_rng(0)
    p = rng.random(500)
    same, classes = rng.random(500) < p**1.5, rng.integers(0, 20, 500)
    found = reliability(p, same, classes=classes)
    order = np.argsort(p)
    parts = [order[50 * b : 50 * (b + 1)] for b in range(10)]
    assert found.ece == pytest.approx(sum(0.1 * abs(p[part].mean() - same[part].mean()) for part in parts))
    assert found.brier == pytest.approx(brier_score_loss(same, p))
    shares, means = calibration_curve(same, p, n_bins=10, strategy="quantile")
    np.testing.assert_allclose((found.share, found.probability), (shares, means))
    np.testing.assert_allclose(
        np.transpose([found.low, found.high]), [class_interval(same[part], classes[part]) for part in parts]
    )
    assert reliability([0.3], [1]).counts.tolist() == [1]


@pytest.mark.parametrize("p", [[1.2, 0.1], [np.nan, 0.1], [0.5], []])
def test_probabilities_outside_of_0_to_1_are_errors(p):
    with pytest.raises(ValueError, match="probabilities"):
        reliability(p, [1, 0])


@pytest.mark.parametrize("same", [["a", "b"], [2, 0], [0.5, 1.0]])
def test_whether_pairs_match_is_yes_or_no(same):
    with pytest.raises(ValueError, match=r"booleans, or integers 0 and 1"):
        reliability([0.3, 0.6], same)


# Thresholds with a guarantee.


def hierarchical(rng, classes, spread=1.0):
    """Scores of pairs of some classes, which differ in level, size and noise."""
    sizes = rng.integers(5, 60, classes)
    labels = np.repeat(np.arange(classes), sizes)
    level, noise = spread * rng.normal(size=classes), rng.gamma(4, 0.25, classes)
    same = np.arange(len(labels)) % 3 == 0
    return level[labels] + noise[labels] * rng.standard_t(3, len(labels)) + 3 * same, same, labels


def guaranteed_by_loops(scores, same, labels, name, rate, guarantee):
    """The most lenient of all thresholds with (exceeding classes + 1) / (classes + 1) <= 1 - guarantee."""
    counts = same == (name == "frr")
    ids = np.unique(labels[counts])

    def risk(t):
        exceeding = 0
        for label in ids:
            of_class = scores[counts & (labels == label)]
            wrong = np.mean(of_class >= t) if name == "far" else np.mean(of_class < t)
            exceeding += wrong > rate + 1e-12
        return (exceeding + 1) / (len(ids) + 1)

    places = np.unique(np.concatenate([scores[counts], np.nextafter(scores[counts], np.inf)]))
    kept = [t for t in places if risk(t) <= 1 - guarantee + 1e-12]
    return min(kept) if name == "far" else max(kept)


@pytest.mark.parametrize("name", ["far", "frr"])
@pytest.mark.parametrize(("classes", "guarantee"), [(19, 0.95), (20, 0.95), (30, 0.9), (9, 0.5)])
def test_a_guaranteed_threshold_is_that_of_conformal_risk_control(name, classes, guarantee):
    for seed in range(2):
        scores, same, labels = hierarchical(np.random.default_rng(seed), classes)
        found = calibrated_threshold(scores, same, **{name: 0.2}, classes=labels, guarantee=guarantee)
        assert found == guaranteed_by_loops(scores, same, labels, name, 0.2, guarantee)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["far", "frr"])
@pytest.mark.parametrize("classes", [20, 50])
def test_the_promise_holds_in_its_share_of_1000_sets(name, classes):
    rng, kept = np.random.default_rng(classes), []
    for _ in range(1000):
        scores, same, labels = hierarchical(rng, classes + 40)
        known = labels < classes
        threshold = calibrated_threshold(
            scores[known], same[known], **{name: 0.1}, classes=labels[known], guarantee=0.95
        )
        kept.append(
            threshold_rates(threshold, scores[~known], same[~known], classes=labels[~known], **{name: 0.1})["kept"]
        )
    # Of C classes and a new one, the new one has each rank with the same probability: ceil(0.95 (C + 1)) / (C + 1).
    theory = math.ceil(0.95 * (classes + 1)) / (classes + 1)
    error = np.std(kept) / math.sqrt(1000)
    assert np.mean(kept) >= 0.95 - 2 * error
    assert abs(np.mean(kept) - theory) < 3 * error + 0.005  # ties of rates keep a little more


def test_too_few_classes_cannot_promise():
    scores, same, labels = hierarchical(np.random.default_rng(0), 18)
    with pytest.raises(ValueError, match=r"guarantee=0\.95 and 18 classes, expected 19 classes at least"):
        calibrated_threshold(scores, same, far=0.1, classes=labels, guarantee=0.95)
    calibrated_threshold(scores, same, far=0.1, classes=labels, guarantee=0.9)
    for options in ({"precision": 0.9, "classes": labels}, {"far": 0.1}):
        with pytest.raises(ValueError, match="with both classes and guarantee"):
            calibrated_threshold(scores, same, guarantee=0.9, **options)
    with pytest.raises(ValueError, match="with both classes and guarantee"):
        calibrated_threshold(scores, same, far=0.1, classes=labels)
    with pytest.raises(ValueError, match="guarantee=2"):
        calibrated_threshold(scores, same, far=0.1, classes=labels, guarantee=2)


def test_rates_of_a_threshold_are_those_of_loops_with_the_interval_of_the_one_judge():
    scores, same, labels = hierarchical(np.random.default_rng(0), 30)
    found = threshold_rates(2.0, scores, same, classes=labels, far=0.2)
    accepted = scores >= 2
    assert found["far"] == pytest.approx(np.mean([a for a, m in zip(accepted, same, strict=True) if not m]))
    assert found["frr"] == pytest.approx(np.mean([not a for a, m in zip(accepted, same, strict=True) if m]))
    assert found["precision"] == pytest.approx(np.mean([m for a, m in zip(accepted, same, strict=True) if a]))
    kept = [accepted[~same & (labels == label)].mean() <= 0.2 for label in range(30)]
    assert found["kept"] == pytest.approx(np.mean(kept))
    assert (found["far low"], found["far high"]) == class_interval(accepted[~same], labels[~same])
    nothing = threshold_rates(1e9, scores, same)
    assert (nothing["far"], nothing["frr"]) == (0, 1)
    assert math.isnan(nothing["precision"])
    with pytest.raises(ValueError, match="one of far and frr"):
        threshold_rates(2.0, scores, same, far=0.1, frr=0.1)
    for threshold in (math.nan, None, "2", np.array([1.0, 2.0])):
        with pytest.raises(ValueError, match=r"Received threshold=.*, expected a number"):
            threshold_rates(threshold, scores, same)
    for rate in (math.nan, 5):
        with pytest.raises(ValueError, match=r"Received far=.* above 0 and below 1"):
            threshold_rates(2.0, scores, same, far=rate)


def test_a_threshold_of_distances_is_refused():
    scores, same, labels = hierarchical(np.random.default_rng(0), 30)
    for options in ({"far": 0.1}, {"frr": 0.1}, {"precision": 0.5}, {"far": 0.1, "classes": labels, "guarantee": 0.9}):
        with pytest.raises(ValueError, match="Pass minus the distance for distances"):
            calibrated_threshold(-scores, same, **options)


def test_a_calibration_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ScoreCalibration.fit(*pairs()).prior = 0.1
