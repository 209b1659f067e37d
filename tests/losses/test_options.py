"""What every loss promises of its options: configs, help, errors, labels, miners. None depends on a backend."""

import json
import re

import keras
import numpy as np
import pytest

from tests.backend import numbers
from tests.losses.rows import (
    BRANCHES,
    BY_CLASS_ID,
    DEFAULTS,
    LISTED,
    OVER_A_BASE,
    OVER_PROXIES,
    ROWS,
    SYMMETRIC,
    UNEVEN,
    WHOLE,
    WITHIN,
    batch,
    each,
    evaluated,
    lacking,
    law,
    values_of,
)
from tfdml import layers, losses

LABELS, X = batch(UNEVEN["three classes"])


def saved_and_loaded(loss):
    """The loss after a way through JSON."""
    return keras.saving.deserialize_keras_object(json.loads(json.dumps(keras.saving.serialize_keras_object(loss))))


@each(ROWS, test=DEFAULTS, ci=BRANCHES)
def test_a_loss_comes_back_from_its_config(row):
    again = saved_and_loaded(row.loss)
    assert type(again) is type(row.loss)
    assert again.get_config() == row.loss.get_config()
    np.testing.assert_array_equal(numbers(again.call(LABELS, X)), numbers(row.loss.call(LABELS, X)))


@law(DEFAULTS)
def test_keras_reduces_one_value_per_anchor(row):
    values = numbers(row.loss.call(LABELS, X))
    weights = np.arange(row.anchors, dtype="float32")
    total = type(row.loss).from_config({**row.loss.get_config(), "reduction": "sum"})
    assert values.shape == (row.anchors,)
    np.testing.assert_allclose(numbers(row.loss(LABELS, X)), values.mean(), rtol=1e-6)
    np.testing.assert_allclose(numbers(row.loss(LABELS, X, weights)), (values * weights).mean(), rtol=1e-6)
    np.testing.assert_allclose(numbers(total(LABELS, X)), values.sum(), rtol=1e-6)


@each(lacking(DEFAULTS, LISTED))
def test_a_batch_without_pairs_has_zero_loss_and_gradient(row):
    value, slope, _ = evaluated(row, *batch([5]), np.ones(1, "float32"))
    assert value == 0
    np.testing.assert_array_equal(slope, np.zeros((1, 5)))


@law(DEFAULTS)
def test_labels_may_stand_in_a_column(row):
    np.testing.assert_array_equal(numbers(row.loss.call(LABELS[:, None], X)), numbers(row.loss.call(LABELS, X)))


@law(DEFAULTS)
def test_float_labels_and_other_lengths_are_refused(row):
    with pytest.raises(ValueError, match="labels of dtype float32, expected integer class ids"):
        row.loss(LABELS.astype("float32"), X)
    with pytest.raises(ValueError, match="6 labels and 8 embeddings"):
        row.loss(LABELS[:6], X)
    with pytest.raises(ValueError, match=r"embeddings of shape \(8, 5, 1\)"):
        row.loss(LABELS, X[:, :, None])
    with pytest.raises(ValueError, match=r"labels of shape \(8, 2\)"):
        row.loss(np.stack([LABELS, LABELS], axis=1), X)


@keras.saving.register_keras_serializable("tests")
def share_a_tag(a, b):
    """Multi-label relevance: two rows of 0 and 1 with a 1 in the same place."""
    a, b = (keras.ops.cast(labels, "float32") for labels in (a, b))
    return keras.ops.matmul(a, keras.ops.transpose(b)) > 0


@keras.saving.register_keras_serializable("tests")
def same_family(a, b):
    """Hierarchical relevance: ids that share their tens."""
    return a[:, None] // 10 == b // 10


@law(lacking(DEFAULTS, BY_CLASS_ID))
def test_match_says_which_labels_belong_together(row):
    expected, ids = values_of(row, LABELS, X), 10 * LABELS + np.arange(8)
    by_tags, by_family = row.with_options(match=share_a_tag), row.with_options(match=same_family)
    np.testing.assert_allclose(numbers(by_tags.call(np.eye(8, dtype="int32")[LABELS], X)), expected, rtol=1e-6)
    np.testing.assert_allclose(numbers(by_family.call(ids, X)), expected, rtol=1e-5, atol=1e-6)
    again = saved_and_loaded(by_family)
    np.testing.assert_array_equal(numbers(again.call(ids, X)), numbers(by_family.call(ids, X)))
    with pytest.raises(ValueError, match=r"matrix of shape \(8,\) from match, expected \(anchors, references\)"):
        row.with_options(match=lambda a, b: a == b).call(ids, X)


@law(DEFAULTS)
def test_a_miner_that_returns_another_shape_is_refused(row):
    wrong = {
        r"positive weights of shape \(4, 8\)": lambda pairs: pairs._replace(positive=pairs.positive[:4]),
        "positive weights of shape None": lambda pairs: pairs.positive,
    }
    for message, miner in wrong.items():
        with pytest.raises(ValueError, match=f"Received {message} from miner=.*, expected \\(8, 8\\)"):
            row.with_options(miner=miner)(LABELS, X)


@keras.saving.register_keras_serializable("tests")
def lightly(pairs):
    """Weights that no loss has by itself."""
    return pairs._replace(positive=0.25 * pairs.positive, negative=0.5 * pairs.negative)


@law(DEFAULTS)
def test_importance_weights_come_after_the_miner_and_stay_with_the_loss(row):
    loss, weighted = row.loss, saved_and_loaded(row.with_options(importance=lightly))
    expected = loss.values(lightly(loss.reweight(loss.pair(LABELS, X))))
    np.testing.assert_array_equal(numbers(weighted.call(LABELS, X)), numbers(expected))


ROUTES = {  # how one weight of a pair comes to be NaN: functions of a row and of a function of Pairs
    "a miner": lambda row, nan: row.with_options(miner=nan),
    "importance": lambda row, nan: row.with_options(importance=nan),
    "importance in a sum": lambda row, nan: losses.WeightedSumLoss([NCA, row.with_options(importance=nan)]),
    "a miner in blocks": lambda row, nan: row.with_options(miner=nan, anchors_per_block=4),
    "a pairing": lambda row, nan: row.with_options(pairing=lambda labels, x: nan(row.loss.pair(labels, x))),
    "a miner of a memory": lambda row, nan: row.with_options(miner=nan, pairing=layers.Memory(8, warm_up=0)),
}
NCA = losses.NCALoss()


@law(DEFAULTS)
@pytest.mark.parametrize("weights", ["positive", "negative"])
def test_a_weight_that_is_nan_makes_the_loss_nan_whatever_brings_it(row, weights):
    def with_nan(pairs):
        factors = np.ones(pairs.positive.shape, "float32")
        factors[1] = np.nan
        return pairs.scale(**{weights: factors})

    without = {"in blocks": {WHOLE, LISTED}, "of a memory": {LISTED, SYMMETRIC, WITHIN}, "in a sum": {LISTED}}
    for name, with_route in ROUTES.items():
        if not any(name.endswith(end) and traits & row.traits for end, traits in without.items()):
            assert np.isnan(numbers(with_route(row, with_nan)(LABELS, X))), name
    assert np.isnan(numbers(row.loss.on_pairs(with_nan(row.loss.pair(LABELS, X))))).any(), "its own pairs"


KERAS_OPTIONS = {"name", "reduction", "dtype"}
PAIR_OPTIONS = {"pairing", "miner", "importance", "match", "anchors_per_block"}


@each(DEFAULTS)
def test_an_unknown_option_is_named_beside_those_that_there_are(row):
    is_over_base = OVER_A_BASE in row.traits
    given = {"pairing": row.loss.pairing} if OVER_PROXIES in row.traits else {}
    expected = set(row.loss.settings) | KERAS_OPTIONS | (set() if is_over_base else PAIR_OPTIONS)
    expected |= {"classes", "per_class"} if given else set()
    with pytest.raises(TypeError, match=r"Received marign=0.3 for .*, expected options among ") as error:
        type(row.loss)(**row.loss.settings, **given, marign=0.3)
    message, _, options = str(error.value).rstrip(".").partition(" among ")
    assert type(row.loss).__name__ in message
    assert set(options.split(", ")) == expected


def test_options_of_uncertainty_sets_go_by_name_but_the_first():
    assert losses.uncertainty.KL is losses.uncertainty.KL
    for make in (lambda: losses.uncertainty.KL(0.1, 12), lambda: losses.uncertainty.GroupedKL(0.1, 0.2)):
        with pytest.raises(TypeError, match="positional argument"):
            make()


MARGIN, SETS = losses.MarginLoss(), losses.uncertainty
LEARNED = losses.MarginLoss(boundary=layers.Boundaries(), nu=0.5)
WRONG = {  # beside the limits of each number, in tests/test_limits.py
    "negative_margin=0.5": lambda: losses.ContrastiveLoss(positive_margin=1.0, negative_margin=0.5),
    "positive_cost=2": lambda: losses.WeightedContrastiveLoss(positive_cost=2),
    "class_counts=[0, 0]": lambda: losses.BalancedContrastiveLoss(class_counts=[0, 0]),
    "margin=0 with ratio=True": lambda: losses.TripletLoss(margin=0, ratio=True),
    "soft=True and ratio=True": lambda: losses.TripletLoss(soft=True, ratio=True),
    "negatives='hardest'": lambda: losses.TripletLoss(negatives="hardest"),
    "negatives='nearest'": lambda: losses.DynamicSoftMarginLoss(negatives="nearest"),
    "alpha=0": lambda: losses.HAP2SLoss(weighting="polynomial", alpha=0),
    "alpha=-1": lambda: losses.PNPLoss(variant="decreasing_power", alpha=-1),
    "b=-1": lambda: losses.PNPLoss(variant="increasing_bounded", b=-1),
    "nu=0.1 with boundary=1.2": lambda: losses.MarginLoss(nu=0.1),
    "nu=-1": lambda: losses.MarginLoss(boundary=layers.Boundaries(), nu=-1),
    "losses=[]": lambda: losses.WeightedSumLoss([]),
    "losses=[None]": lambda: losses.WeightedSumLoss([None]),
    "weights=[1, 2] for 1 losses": lambda: losses.WeightedSumLoss([NCA], weights=[1, 2]),
    "weights=[-1] for 1 losses": lambda: losses.WeightedSumLoss([NCA], weights=[-1]),
    "base=None": lambda: losses.RobustLoss(None, uncertainty=SETS.TopK(2)),
    "uncertainty='top k'": lambda: losses.RobustLoss(MARGIN, uncertainty="top k"),
    "a base loss with nu=0.5": lambda: losses.RobustLoss(LEARNED, uncertainty=SETS.TopK(2)),
    "base='NCA'": lambda: losses.MatryoshkaLoss("NCA"),
    "dims=(8, 4)": lambda: losses.MatryoshkaLoss(NCA, dims=(8, 4)),
    "dims=()": lambda: losses.MatryoshkaLoss(NCA, dims=()),
    "dims=0": lambda: losses.MatryoshkaLoss(NCA, dims=(0, 4)),
    "1 weights for dims=(2, 4)": lambda: losses.MatryoshkaLoss(NCA, dims=(2, 4), weights=(1.0,)),
    "weights=(0.0,)": lambda: losses.MatryoshkaLoss(NCA, dims=(2,), weights=(0.0,)),
    "NCALoss object": lambda: losses.CascadeLoss(NCA),
    "shares=(0.5, 0.2) for dims=(4, 4)": lambda: losses.CascadeLoss(MARGIN, dims=(4, 4)),
    "shares=(0.2, 0.5)": lambda: losses.CascadeLoss(MARGIN, shares=(0.2, 0.5)),
    "dims=-1": lambda: losses.BoostedLoss(dims=(4, -1)),
    "base=2": lambda: losses.AdversarialLoss(2),
    "dims=2.5": lambda: losses.AdversarialLoss(NCA, dims=(4, 2.5)),
    "dims=(4,)": lambda: losses.AdversarialLoss(NCA, dims=(4,)),
    "for dims=(4, 4)": lambda: losses.AdversarialLoss(NCA, dims=(4, 4), regressors=layers.Regressors((4, 2))),
    "dims=(4, 8)": lambda: losses.DivergenceLoss(NCA, dims=(4, 8)),
    "scale='size'": lambda: losses.SphereFaceLoss(classes=3, scale="size"),
    "norms=(0, 5)": lambda: losses.MagFaceLoss(classes=3, norms=(0, 5)),
    "margins=(0.5, 0.4)": lambda: losses.MagFaceLoss(classes=3, margins=(0.5, 0.4)),
    "classes=None and pairing=None": losses.ArcFaceLoss,
    "k=3": lambda: SETS.TopKBalanced(3),
    "metric='cosine'": lambda: losses.PDDMLoss(metric="cosine"),
    "miner='hard'": lambda: losses.MultiSimilarityLoss(miner="hard"),
    "importance=0.5": lambda: losses.MultiSimilarityLoss(importance=0.5),
    "pairing=None": lambda: losses.MultiSimilarityLoss(pairing=None),
    "match='equal'": lambda: losses.MultiSimilarityLoss(match="equal"),
}


@pytest.mark.parametrize("received", WRONG)
def test_a_wrong_option_is_named_where_it_is_given(received):
    with pytest.raises(ValueError, match=f"^Received .*{re.escape(received)}.* expected "):
        WRONG[received]()
