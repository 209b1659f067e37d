"""Verification numbers against loops over thresholds, scikit-learn, and examples done by hand."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tfdml.metrics import calibrated_threshold, fold_accuracy, pair_scores, roc, verification
from tfdml.metrics.verification import auc_per_pair

SAME = np.array([1, 1, 1, 0, 0, 0, 0])
SCORES = np.array([0.9, 0.8, 0.4, 0.7, 0.3, 0.2, 0.1])
KEYS = ["accuracy", "accuracy_se", "auc", "eer", "tar@far=0.01", "fpr95"]

pytestmark = pytest.mark.filterwarnings("ignore:.*so tar@far=:UserWarning")  # pairs that are few enough to see


def in_folds(folds=10, of_each=40, seed=0, step=None):
    """Scores of matched and then mismatched pairs, fold by fold, as LFW lists them; with `step` there are ties."""
    rng = np.random.default_rng(seed)
    same = np.tile(np.repeat([True, False], of_each), folds)
    scores = rng.normal(size=len(same)) + 1.5 * same
    return (np.round(scores / step) * step if step else scores), same, np.repeat(np.arange(folds), 2 * of_each)


def thresholds_of(scores):
    """None accepted, then halfway between neighboring scores, then all accepted."""
    ordered = sorted(set(scores.tolist()), reverse=True)
    return [np.inf, *[(high + low) / 2 for high, low in itertools.pairwise(ordered)], ordered[-1]]


def rates_by_loops(scores, same):
    """`(far, tar)` at every threshold."""
    rates = []
    for t in thresholds_of(scores):
        accepted = [bool(s >= t) for s in scores]
        tar = sum(a and m for a, m in zip(accepted, same, strict=True)) / sum(same)
        far = sum(a and not m for a, m in zip(accepted, same, strict=True)) / sum(1 - same.astype(int))
        rates.append((far, tar))
    return rates


def accuracy_by_loops(scores, same, folds):
    found = []
    for fold in sorted(set(folds.tolist())):
        rest = folds != fold
        right = [np.sum((scores[rest] >= t) == same[rest]) for t in thresholds_of(scores[rest])]
        best = [t for t, n in zip(thresholds_of(scores[rest]), right, strict=True) if n == max(right)]
        t = best[len(best) // 2]
        found.append(np.mean((scores[~rest] >= t) == same[~rest]))
    return np.mean(found), np.sqrt(sum((f - np.mean(found)) ** 2 for f in found) / (len(found) - 1) / len(found))


# Examples by hand.


def test_seven_pairs_by_hand():
    got = verification(SCORES, SAME)
    # Matched above mismatched: 4 + 4 + 3 of 12. At 0.7 far is 1/4 and frr 1/3, at 0.4 far is 1/4 and frr 0.
    assert got["auc"] == pytest.approx(11 / 12)
    assert got["eer"] == pytest.approx(1 / 4)
    # All three matched pairs are accepted from 0.4 on, with 0.7 of the four mismatched ones: FP / (FP + TN) = 1/4, not
    # FP / (TN + FN) = 1/3.
    assert got["fpr95"] == 1 / 4
    assert list(got) == KEYS


def test_the_threshold_of_a_fold_is_chosen_on_the_others():
    scores, same = [0.9, 0.4, 0.25, 0.1, 0.8, 0.35, 0.45, 0.3], [1, 1, 0, 0, 1, 1, 0, 0]
    got = verification(scores, same, folds=[0, 0, 0, 0, 1, 1, 1, 1])
    # The second fold decides 3 of its 4 pairs at 0.625 and at 0.325; the middle one of two is the lower. There the
    # first fold has 4 of 4. The first decides all at 0.325, where the second has 3 of 4.
    assert got["accuracy"] == pytest.approx((1 + 3 / 4) / 2)
    assert got["accuracy_se"] == pytest.approx(np.sqrt((0.125**2 + 0.125**2) / 1) / np.sqrt(2))


@pytest.mark.parametrize("step", [None, 0.5])
def test_thresholds_and_decisions_of_folds_agree_with_loops(step):
    scores, same, folds = in_folds(of_each=20, step=step)
    found = fold_accuracy(scores, same, 10 * folds)
    assert found.folds.tolist() == [10 * fold for fold in range(10)]
    for fold in range(10):
        rest = folds != fold
        correct = [np.sum((scores[rest] >= t) == same[rest]) for t in thresholds_of(scores[rest])]
        assert np.sum((scores[rest] >= found.thresholds[fold]) == same[rest]) == max(correct)
        decided = scores[~rest] >= found.thresholds[fold]
        assert found.accepted[~rest].tolist() == decided.tolist()
        assert found.accuracies[fold] == np.mean(decided == same[~rest])
    assert verification(scores, same, folds, far=())["accuracy"] == found.accuracies.mean()


def test_the_curve_has_a_threshold_between_neighboring_scores():
    far, tar, thresholds = roc(SCORES, SAME)
    np.testing.assert_allclose(far, [0, 0, 0, 1 / 4, 1 / 4, 2 / 4, 3 / 4, 1])
    np.testing.assert_allclose(tar, [0, 1 / 3, 2 / 3, 2 / 3, 1, 1, 1, 1])
    np.testing.assert_allclose(thresholds, [np.inf, 0.85, 0.75, 0.55, 0.35, 0.25, 0.15, 0.1])


def test_between_two_neighboring_numbers_the_threshold_is_the_higher_one():
    low = 0.5
    high = np.nextafter(low, 1)
    assert roc([high, high, low, low], [1, 1, 0, 0]).thresholds.tolist() == [np.inf, high, low]


# Loops, and other libraries.


@pytest.mark.parametrize("step", [None, 0.5])
def test_all_numbers_agree_with_loops(step):
    scores, same, folds = in_folds(of_each=20, step=step)
    got = verification(scores, same, folds, far=(0.05, 0.1, 0.33))
    rates = rates_by_loops(scores, same)
    accuracy, error = accuracy_by_loops(scores, same, folds)
    assert got["accuracy"] == pytest.approx(accuracy)
    assert got["accuracy_se"] == pytest.approx(error)
    assert got["auc"] == pytest.approx(roc_auc_score(same, scores))
    assert got["fpr95"] == min(far for far, tar in rates if tar >= 0.95)
    for rate in (0.05, 0.1, 0.33):
        assert got[f"tar@far={rate}"] == max(tar for far, tar in rates if far <= rate)


@pytest.mark.parametrize("step", [None, 0.5])
def test_at_the_equal_error_rate_both_errors_are_equal_on_the_curve(step):
    scores, same, _ = in_folds(step=step)
    eer = verification(scores, same)["eer"]
    rates = rates_by_loops(scores, same)
    for (far, tar), (next_far, next_tar) in itertools.pairwise(rates):
        if far <= 1 - tar and next_far >= 1 - next_tar:
            part = (1 - tar - far) / ((next_far - far) + (next_tar - tar))
            assert eer == pytest.approx(far + part * (next_far - far))


# Folds.


@pytest.mark.parametrize("step", [None, 0.5])
def test_values_of_pairs_have_the_area_as_mean_and_the_variance_of_delong(step):
    scores, same, _ = in_folds(folds=3, of_each=20, step=step)
    keep = np.arange(len(scores)) % 5 > 0
    scores, same = np.r_[scores[keep], scores[:7]], np.r_[same[keep], same[:7]]
    values = auc_per_pair(scores, same)
    assert values.mean() == pytest.approx(roc_auc_score(same, scores))
    wins = np.heaviside(scores[same][:, None] - scores[~same], 0.5)
    variance = wins.mean(axis=1).var() / same.sum() + wins.mean(axis=0).var() / (~same).sum()
    assert values.var() / len(values) == pytest.approx(variance)


def test_ten_folds_in_the_order_of_the_list_are_the_default():
    scores, same, folds = in_folds()
    assert verification(scores, same, far=0.1) == verification(scores, same, folds, far=0.1)


def test_the_order_of_pairs_matters_only_where_it_makes_the_folds():
    scores, same, folds = in_folds()
    order = np.random.default_rng(1).permutation(len(same))
    expected = verification(scores, same, folds, far=0.1)
    shuffled = verification(scores[order], same[order], folds[order] * 7 - 3, far=0.1)
    assert shuffled == pytest.approx(expected)
    assert verification(scores[order], same[order], far=0.1)["accuracy"] != expected["accuracy"]


# Few pairs.


def test_a_rate_that_fewer_than_ten_impostors_decide_is_refused():
    scores, same, _ = in_folds(of_each=99)
    with pytest.warns(UserWarning, match=r"far=0\.01 and 990 mismatched pairs, of which 9\.9 would decide"):
        assert np.isnan(verification(scores, same)["tar@far=0.01"])
    scores, same, _ = in_folds(of_each=100)
    assert not np.isnan(verification(scores, same)["tar@far=0.01"])


@pytest.mark.filterwarnings("error")
def test_pairs_as_in_lfw_decide_a_hundredth():
    scores, same, _ = in_folds(of_each=300)
    assert np.isfinite(list(verification(scores, same).values())).all()


# Embeddings.


def test_pairs_of_embeddings_are_scored_by_cosine_product_or_distance():
    a, b = np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[4.0, 3.0], [1.0, 0.0]])
    np.testing.assert_allclose(pair_scores(a, b), [24 / 25, 0])
    np.testing.assert_allclose(pair_scores(a, b, metric="dot"), [24, 0])
    np.testing.assert_allclose(pair_scores(a, b, metric="euclidean"), [-np.sqrt(2), -1], rtol=1e-6)
    assert pair_scores(a[:0], b[:0]).shape == (0,)


# Thresholds.


@pytest.mark.parametrize("step", [None, 0.25])
@pytest.mark.parametrize("wanted", [{"far": 0.05}, {"frr": 0.05}, {"precision": 0.9}], ids=str)
def test_a_calibrated_threshold_is_the_best_one_within_the_wanted_rate(wanted, step):
    scores, same, _ = in_folds(of_each=30, step=step)
    t = calibrated_threshold(scores, same, **wanted)
    ((name, rate),) = wanted.items()

    def reaches(t):
        far, frr = np.mean(scores[~same] >= t), np.mean(scores[same] < t)
        precision = np.mean(same[scores >= t]) if (scores >= t).sum() >= 10 else 0
        return {"far": far <= rate, "frr": frr <= rate + 1e-12, "precision": precision >= rate}[name]

    passed = [t for t in thresholds_of(scores)[1:] if reaches(t)]
    assert t == pytest.approx(max(passed) if name == "frr" else min(passed))


def test_a_threshold_that_too_few_pairs_decide_is_an_error():
    scores, same, _ = in_folds(of_each=99)
    for name, kind in (("far", "mismatched"), ("frr", "matched")):
        with pytest.raises(ValueError, match=rf"{name}=0\.01 and 990 {kind} pairs, of which 9\.9 .* at least 10"):
            calibrated_threshold(scores, same, **{name: 0.01})
    # The nine highest pairs are matched, all others are half and half.
    few = np.concatenate([np.full(9, 9.0), np.tile([1.0, 2.0], 50)])
    with pytest.raises(ValueError, match=r"precision=0\.99, which no threshold reaches"):
        calibrated_threshold(few, np.concatenate([np.ones(9, int), np.tile([1, 0, 0, 1], 25)]), precision=0.99)


@pytest.mark.parametrize("wanted", [{}, {"far": 0.1, "frr": 0.1}, {"far": 0.0}, {"precision": 1.0}, {"frr": 5}])
def test_a_threshold_needs_one_rate_between_0_and_1(wanted):
    scores, same, _ = in_folds()
    with pytest.raises(ValueError, match=r"exactly one of precision, far and frr|above 0 and below 1"):
        calibrated_threshold(scores, same, **wanted)


# Errors.


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": np.where(SAME, np.nan, 1)}, r"not finite \(first for pair \[0\]\)"),
        ({"scores": np.ones(7)}, "scores that are all the same"),
        ({"scores": SCORES[:6]}, r"scores of shape \(6,\) and same of shape \(7,\)"),
        ({"same": np.ones(7, bool)}, "7 matched and 0 mismatched pairs"),
        ({"same": np.arange(7) == 3}, "1 matched and 6 mismatched pairs"),
        ({"same": 2 * SAME}, r"same of shape \(7,\), int64, expected \(pairs,\) booleans"),
        ({"same": SAME.astype(float)}, "expected .* booleans"),
        ({"folds": np.zeros(7, int)}, "folds that are all 0, expected at least two"),
        ({"folds": np.arange(6)}, r"folds of shape \(6,\), expected \(7,\)"),
        ({"folds": SAME}, "all pairs of a kind in one fold"),
        ({"far": 1.0}, "expected rates above 0 and below 1"),
        ({"far": "0.1"}, "expected rates above 0 and below 1"),
    ],
)
def test_wrong_pairs_are_errors(change, message):
    with pytest.raises(ValueError, match=message):
        verification(**{"scores": SCORES, "same": SAME, **change})


@pytest.mark.parametrize(
    ("a", "message"),
    [
        (np.full((7, 2), np.nan), "a with a value that is NaN"),
        (np.ones((7, 2)), "scores that are all the same"),
        (np.ones((6, 2)), r"a of shape \(6, 2\) and b of shape \(7, 2\)"),
    ],
)
def test_wrong_embeddings_are_errors(a, message):
    with pytest.raises(ValueError, match=message):
        verification(pair_scores(a, np.ones((7, 2))), SAME)
