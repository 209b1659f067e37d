"""What every loss promises of its options: configs, help, errors, labels, miners. None depends on a backend."""

import inspect
import json

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
    UNEVEN,
    batch,
    each,
    evaluated,
    having,
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


@law(DEFAULTS)
@pytest.mark.parametrize("weights", ["positive", "negative"])
def test_a_weight_that_is_nan_makes_the_loss_nan(row, weights):
    def with_nan(pairs):
        factors = np.ones(pairs.positive.shape, "float32")
        factors[1] = np.nan
        return pairs.scale(**{weights: factors})

    for option in ("miner", "importance"):
        assert np.isnan(numbers(row.with_options(**{option: with_nan})(LABELS, X)))


KERAS_OPTIONS = {"name", "reduction", "dtype"}
PAIR_OPTIONS = {"pairing", "miner", "importance", "match", "anchors_per_block"}


def require_options(loss, expected, **given):
    """The constructor of a loss names its options beside one that it does not know."""
    with pytest.raises(TypeError, match=r"Received marign=0.3 for .*, expected options among ") as error:
        type(loss)(**loss.settings, **given, marign=0.3)
    message, _, options = str(error.value).rstrip(".").partition(" among ")
    assert type(loss).__name__ in message
    assert set(options.split(", ")) == expected


@each(lacking(DEFAULTS, OVER_A_BASE, OVER_PROXIES))
def test_an_unknown_option_is_named_beside_those_that_there_are(row):
    require_options(row.loss, set(row.loss.settings) | PAIR_OPTIONS | KERAS_OPTIONS)


@each(having(DEFAULTS, OVER_PROXIES))
def test_an_unknown_option_of_a_loss_over_proxies_is_named_beside_those_that_there_are(row):
    expected = set(row.loss.settings) | {"classes", "per_class"} | PAIR_OPTIONS | KERAS_OPTIONS
    require_options(row.loss, expected, pairing=row.loss.pairing)


@each(having(DEFAULTS, OVER_A_BASE))
def test_an_unknown_option_of_a_loss_over_a_base_is_named_beside_those_that_there_are(row):
    require_options(row.loss, set(row.loss.settings) | KERAS_OPTIONS)


def test_options_of_uncertainty_sets_go_by_name_but_the_first():
    assert losses.uncertainty.KL is losses.uncertainty.KL
    for make in (lambda: losses.uncertainty.KL(0.1, 12), lambda: losses.uncertainty.GroupedKL(0.1, 0.2)):
        with pytest.raises(TypeError, match="positional argument"):
            make()


WRONG = [
    (lambda: losses.ContrastiveLoss(positive_margin=-1), "positive_margin=-1"),
    (lambda: losses.ContrastiveLoss(positive_margin=1.0, negative_margin=0.5), "negative_margin=0.5"),
    (lambda: losses.ContrastiveLoss(distance="manhattan"), "distance='manhattan'"),
    (lambda: losses.WeightedContrastiveLoss(positive_cost=2), "positive_cost=2"),
    (lambda: losses.WeightedContrastiveLoss(eta=-1), "eta=-1"),
    (lambda: losses.HingeSquared(margin=0), "margin=0"),
    (lambda: losses.BalancedContrastiveLoss(class_counts=[0, 0]), r"class_counts=\[0, 0\]"),
    (lambda: losses.BalancedContrastiveLoss(class_counts=[2], negatives_per_positive=0), "negatives_per_positive=0"),
    (lambda: losses.BalancedContrastiveLoss(class_counts=[2], margin=-1), "margin=-1"),
    (lambda: losses.CosineContrastiveLoss(threshold=1.5), "threshold=1.5"),
    (lambda: losses.DistanceLogisticLoss(margin=0), "margin=0"),
    (lambda: losses.BinomialDevianceLoss(alpha=0), "alpha=0"),
    (lambda: losses.MarginLoss(boundary=2.5), "boundary=2.5"),
    (lambda: losses.MarginLoss(margin=-1), "margin=-1"),
    (lambda: losses.MarginLoss(normalize="mean"), "normalize='mean'"),
    (lambda: losses.MultiSimilarityLoss(alpha=0), "alpha=0"),
    (lambda: losses.MultiSimilarityLoss(beta=0), "beta=0"),
    (lambda: losses.RAWLoss(threshold=1.5), "threshold=1.5"),
    (lambda: losses.BatchHardTripletLoss(margin=-1), "margin=-1"),
    (lambda: losses.TripletLoss(margin=-1), "margin=-1"),
    (lambda: losses.TripletLoss(margin=0, ratio=True), "margin=0 with ratio=True"),
    (lambda: losses.TripletLoss(soft=True, ratio=True), "soft=True and ratio=True"),
    (lambda: losses.TripletLoss(negatives="hardest"), "negatives='hardest'"),
    (lambda: losses.TripletLoss(normalize=None), "normalize=None"),
    (lambda: losses.LiftedStructureLoss(margin=-1), "margin=-1"),
    (lambda: losses.GeneralizedLiftedLoss(margin=-1), "margin=-1"),
    (lambda: losses.CircleLoss(margin=2), "margin=2"),
    (lambda: losses.CircleLoss(scale=0), "scale=0"),
    (lambda: losses.NPairsLoss(l2=-1), "l2=-1"),
    (lambda: losses.NTXentLoss(temperature=0), "temperature=0"),
    (lambda: losses.SupConLoss(temperature=0), "temperature=0"),
    (lambda: losses.TupletMarginLoss(margin_degrees=180), "margin_degrees=180"),
    (lambda: losses.TupletMarginLoss(scale=-1), "scale=-1"),
    (lambda: losses.HAP2SLoss(temperature=0), "temperature=0"),
    (lambda: losses.HAP2SLoss(margin=-1), "margin=-1"),
    (lambda: losses.HAP2SLoss(weighting="linear"), "weighting='linear'"),
    (lambda: losses.HAP2SLoss(weighting="polynomial", alpha=0), "alpha=0"),
    (lambda: losses.AngularLoss(angle_degrees=90), "angle_degrees=90"),
    (lambda: losses.QuadrupletLoss(margin=-1), "margin=-1"),
    (lambda: losses.QuadrupletLoss(second_margin=2), "second_margin=2"),
    (lambda: losses.HistogramLoss(bins=0), "bins=0"),
    (lambda: losses.FastAPLoss(bins=0), "bins=0"),
    (lambda: losses.SmoothAPLoss(temperature=0), "temperature=0"),
    (lambda: losses.RankedListLoss(margin=1.5), "margin=1.5"),
    (lambda: losses.RankedListLoss(balance=2), "balance=2"),
    (lambda: losses.RankedListLoss(positive_scale=-1), "positive_scale=-1"),
    (lambda: losses.PNPLoss(variant="A"), "variant='A'"),
    (lambda: losses.PNPLoss(temperature=0), "temperature=0"),
    (lambda: losses.PNPLoss(variant="decreasing_power", alpha=0), "alpha=0"),
    (lambda: losses.PNPLoss(variant="increasing_bounded", b=-1), "b=-1"),
    (lambda: losses.DynamicSoftMarginLoss(bins=0), "bins=0"),
    (lambda: losses.DynamicSoftMarginLoss(momentum=0), "momentum=0"),
    (lambda: losses.DynamicSoftMarginLoss(negatives="hardest"), "negatives='hardest'"),
    (lambda: losses.IntraPairVarianceLoss(positive_epsilon=-1), "positive_epsilon=-1"),
    (lambda: losses.IntraPairVarianceLoss(negative_epsilon=-1), "negative_epsilon=-1"),
    (lambda: losses.ThresholdConsistencyLoss(positive_threshold=2), "positive_threshold=2"),
    (lambda: losses.ThresholdConsistencyLoss(negative_weight=-1), "negative_weight=-1"),
    (lambda: losses.ClusteringLoss(margin=-1), "margin=-1"),
    (lambda: losses.ClusteringLoss(refinements=0.5), "refinements=0.5"),
    (lambda: losses.WeightedSumLoss([]), r"losses=\[\]"),
    (lambda: losses.WeightedSumLoss([None]), r"losses=\[None\]"),
    (lambda: losses.WeightedSumLoss([losses.NCALoss()], weights=[1, 2]), r"weights=\[1, 2\] for 1 losses"),
    (lambda: losses.WeightedSumLoss([losses.NCALoss()], weights=[-1]), r"weights=\[-1\] for 1 losses"),
    (lambda: losses.CoupledClustersLoss(margin=-1), "margin=-1"),
    (lambda: losses.PrototypicalLoss(shots=0), "shots=0"),
    (lambda: losses.CentroidTripletLoss(margin=-1), "margin=-1"),
    (lambda: losses.MagnetLoss(margin=-1), "margin=-1"),
    (lambda: losses.MagnetLoss(clusters_per_class=0), "clusters_per_class=0"),
    (lambda: losses.GlobalLoss(margin=2), "margin=2"),
    (lambda: losses.GlobalLoss(weight=-1), "weight=-1"),
    (lambda: losses.LMNNLoss(margin=-1), "margin=-1"),
    (lambda: losses.LMNNLoss(mu=1.5), "mu=1.5"),
    (lambda: losses.MarginLoss(nu=0.1), "nu=0.1 with boundary=1.2"),
    (lambda: losses.MarginLoss(boundary=layers.Boundaries(), nu=-1), "nu=-1"),
    (lambda: layers.Boundaries(initial=3), "initial=3"),
    (lambda: layers.Boundaries(examples=-1), "examples=-1"),
    (lambda: losses.RobustLoss(None, uncertainty=losses.uncertainty.TopK(2)), "base=None"),
    (lambda: losses.RobustLoss(losses.MarginLoss(), uncertainty="top k"), "uncertainty='top k'"),
    (
        lambda: losses.RobustLoss(
            losses.MarginLoss(boundary=layers.Boundaries(), nu=0.5), uncertainty=losses.uncertainty.TopK(2)
        ),
        "a base loss with nu=0.5",
    ),
    (lambda: losses.MatryoshkaLoss(None), "base=None"),
    (lambda: losses.MatryoshkaLoss(losses.NCALoss(), dims=(8, 4)), r"dims=\(8, 4\)"),
    (lambda: losses.MatryoshkaLoss(losses.NCALoss(), dims=()), r"dims=\(\)"),
    (lambda: losses.MatryoshkaLoss(losses.NCALoss(), dims=(0, 4)), "dims=0"),
    (lambda: losses.MatryoshkaLoss(losses.NCALoss(), dims=(2, 4), weights=(1.0,)), r"1 weights for dims=\(2, 4\)"),
    (lambda: losses.MatryoshkaLoss(losses.NCALoss(), dims=(2,), weights=(0.0,)), r"weights=\(0.0,\)"),
    (lambda: losses.CascadeLoss(losses.NCALoss()), "base=.*NCALoss"),
    (lambda: losses.CascadeLoss(losses.MarginLoss(), dims=(4, 4)), r"shares=\(0.5, 0.2\) for dims=\(4, 4\)"),
    (lambda: losses.CascadeLoss(losses.MarginLoss(), shares=(0.2, 0.5)), r"shares=\(0.2, 0.5\)"),
    (lambda: losses.BoostedLoss(dims=(4, 0)), "dims=0"),
    (lambda: losses.BoostedLoss(beta=0), "beta=0"),
    (lambda: losses.AdversarialLoss(None), "base=None"),
    (lambda: losses.AdversarialLoss(losses.NCALoss(), dims=(4, 0)), "dims=0"),
    (lambda: losses.AdversarialLoss(losses.NCALoss(), dims=(4,)), r"dims=\(4,\)"),
    (lambda: losses.AdversarialLoss(losses.NCALoss(), weight=-1), "weight=-1"),
    (
        lambda: losses.AdversarialLoss(losses.NCALoss(), dims=(4, 4), regressors=layers.Regressors((4, 2))),
        r"regressors=.* for dims=\(4, 4\)",
    ),
    (lambda: layers.Regressors((4, 4), units=0), "units=0"),
    (lambda: losses.DivergenceLoss(losses.NCALoss(), dims=(4, 8)), r"dims=\(4, 8\)"),
    (lambda: losses.DivergenceLoss(losses.NCALoss(), margin=5), "margin=5"),
    (lambda: losses.DivergenceLoss(losses.NCALoss(), weight=-1), "weight=-1"),
    (lambda: losses.NormalizedSoftmaxLoss(classes=3, scale=0), "scale=0"),
    (lambda: losses.CosFaceLoss(classes=3, margin=-1), "margin=-1"),
    (lambda: losses.ArcFaceLoss(classes=3, margin=2), "margin=2"),
    (lambda: losses.SphereFaceLoss(classes=3, margin=1.5), "margin=1.5"),
    (lambda: losses.SphereFaceLoss(classes=3, scale="size"), "scale='size'"),
    (lambda: losses.SubCenterArcFaceLoss(classes=3, per_class=0), "per_class=0"),
    (lambda: losses.SubCenterArcFaceLoss(classes=3, margin=2), "margin=2"),
    (lambda: losses.MagFaceLoss(classes=3, norms=(0, 5)), r"norms=\(0, 5\)"),
    (lambda: losses.MagFaceLoss(classes=3, margins=(0.5, 0.4)), r"margins=\(0.5, 0.4\)"),
    (lambda: losses.MagFaceLoss(classes=3, regularization=-1), "regularization=-1"),
    (lambda: losses.LargeMarginSoftmaxLoss(classes=3, margin=1.5), "margin=1.5"),
    (lambda: losses.InstanceLoss(scale=0), "scale=0"),
    (lambda: losses.ProxyNCALoss(classes=3, scale=0), "scale=0"),
    (lambda: losses.ProxyAnchorLoss(classes=3, alpha=0), "alpha=0"),
    (lambda: losses.SoftTripleLoss(classes=3, per_class=0), "per_class=0"),
    (lambda: losses.SoftTripleLoss(classes=3, temperature=0), "temperature=0"),
    (lambda: losses.SoftTripleLoss(classes=3, nu=-1), "nu=-1"),
    (lambda: losses.ManifoldLoss(classes=3, alpha=1), "alpha=1"),
    (lambda: losses.ManifoldLoss(classes=3, margin=-1), "margin=-1"),
    (lambda: losses.ManifoldLoss(classes=3, context_weight=-1), "context_weight=-1"),
    (lambda: losses.ArcFaceLoss(), "classes=None and pairing=None"),
    (lambda: losses.ArcFaceLoss(classes=0), "classes=0"),
    (lambda: losses.ArcFaceLoss(classes=3, per_class=0), "per_class=0"),
    (lambda: losses.uncertainty.TopK(0), "k=0"),
    (lambda: losses.uncertainty.TopK(2.5), "k=2.5"),
    (lambda: losses.uncertainty.TopKBalanced(3), "k=3"),
    (lambda: losses.uncertainty.KL(0), "gamma=0"),
    (lambda: losses.uncertainty.KL(0.1, num_samples=0), "num_samples=0"),
    (lambda: losses.PDDMLoss(metric="cosine"), "metric='cosine'"),
    (lambda: losses.uncertainty.GroupedKL(0), "gamma=0"),
    (lambda: losses.uncertainty.GroupedKL(negative_gamma=0), "negative_gamma=0"),
    (lambda: losses.uncertainty.Variance(0), "rho=0"),
    (lambda: losses.MultiSimilarityLoss(miner="hard"), "miner='hard'"),
    (lambda: losses.MultiSimilarityLoss(pairing=None), "pairing=None"),
    (lambda: losses.MultiSimilarityLoss(match="equal"), "match='equal'"),
]


@pytest.mark.parametrize(("make", "received"), WRONG)
def test_a_wrong_option_is_named_where_it_is_given(make, received):
    with pytest.raises(ValueError, match=f"Received {received}.* expected "):
        make()


LADDER = [-1, 0, 0.5, 1, 1.5, 2, 2.0, 90, 180, float("nan"), float("inf"), "x", None]


def numeric_settings(loss):
    """The options of a loss with one number, each with whether it is a whole one."""
    parameters = inspect.signature(type(loss).__init__).parameters
    kinds = {"int": True, int: True, "float": False, float: False}
    return {name: kinds[each.annotation] for name, each in parameters.items() if each.annotation in kinds}


@each(lacking(DEFAULTS, OVER_A_BASE))
def test_an_option_takes_a_number_of_its_range_or_is_named(row):
    given = {"classes": 3} if OVER_PROXIES in row.traits else {}
    for name, is_whole in numeric_settings(row.loss).items():
        for value in LADDER:
            try:
                loss = type(row.loss)(**{**row.loss.settings, **given, name: value})
            except ValueError as error:
                assert str(error).startswith("Received ") and " expected " in str(error), error  # noqa: PT018, PT017
                continue
            assert np.isfinite(value)
            assert not is_whole or value == int(value), (name, value)
            kept = loss.settings.get(name, value)
            assert kept == value
            assert not is_whole or name not in loss.settings or isinstance(kept, int), (name, value)


WHOLE = {
    "ArcFaceLoss": lambda n: losses.ArcFaceLoss(classes=n, per_class=n).pairing.get_config(),
    "SubCenterArcFaceLoss": lambda n: losses.SubCenterArcFaceLoss(classes=n, per_class=n).pairing.get_config(),
    "SoftTripleLoss": lambda n: losses.SoftTripleLoss(classes=n, per_class=n).pairing.get_config(),
    "SphereFaceLoss": lambda n: losses.SphereFaceLoss(classes=n, margin=n).settings,
    "LargeMarginSoftmaxLoss": lambda n: losses.LargeMarginSoftmaxLoss(classes=n, margin=n).settings,
    "HistogramLoss": lambda n: losses.HistogramLoss(bins=n).settings,
    "FastAPLoss": lambda n: losses.FastAPLoss(bins=n).settings,
    "PrototypicalLoss": lambda n: losses.PrototypicalLoss(shots=n).settings,
    "ClusteringLoss": lambda n: losses.ClusteringLoss(refinements=n).settings,
    "TopK": lambda n: losses.uncertainty.TopK(n).get_config(),
    "TopKBalanced": lambda n: losses.uncertainty.TopKBalanced(n).get_config(),
    "KL": lambda n: losses.uncertainty.KL(num_samples=n).get_config(),
    "Memory": lambda n: layers.Memory(n, warm_up=n).get_config(),
    "Proxies": lambda n: layers.Proxies(2 * n, num_sampled_classes=n).get_config(),
    "Boundaries": lambda n: layers.Boundaries(examples=n).get_config(),
    "PositionDependentMetric": lambda n: layers.PositionDependentMetric(units=n).get_config(),
}


@pytest.mark.parametrize("settings_of", WHOLE.values(), ids=WHOLE)
def test_a_whole_number_may_come_as_a_float_and_is_kept_as_an_integer(settings_of):
    def without_name(value):
        return {name: x for name, x in settings_of(value).items() if name != "name"}

    assert repr(without_name(4.0)) == repr(without_name(np.float32(4))) == repr(without_name(4))
    for wrong in (4.5, -4.0, float("nan"), float("inf"), "4"):
        with pytest.raises(ValueError, match=r"^Received .*, expected "):
            settings_of(wrong)
