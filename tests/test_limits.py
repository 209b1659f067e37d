"""The limits of all numbers that losses, miners, samplers, layers and callbacks take, tried by a ladder of values."""

import inspect
import math

import numpy as np
import pytest

from tests.callbacks.small import LABELS, PART, X
from tests.losses.rows import DEFAULTS, OVER_PROXIES
from tests.samplers.test_contract import CENTERS
from tfdml import callbacks, layers, losses, miners, samplers

LADDER = [-2, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.0, 3, 5, 90, 180, math.nan, math.inf, "x", None, True]
LIMITS = {
    "from 0 to a right angle": "ArcFaceLoss.margin SubCenterArcFaceLoss.margin",
    "above 0": """
        ArcFaceLoss.scale BalancedContrastiveLoss.margin BalancedContrastiveLoss.negatives_per_positive
        BinomialDevianceLoss.alpha BinomialDevianceLoss.beta BoostedLoss.alpha BoostedLoss.beta CircleLoss.scale
        ContrastiveLoss.negative_margin CosFaceLoss.scale DistanceLogisticLoss.margin GroupedKL.gamma HAP2SLoss.alpha
        HAP2SLoss.temperature InstanceLoss.scale KL.gamma LargeMarginSoftmaxLoss.scale LiftedStructureLoss.margin
        MagFaceLoss.scale MultiSimilarityLoss.alpha MultiSimilarityLoss.beta NTXentLoss.temperature
        NormalizedSoftmaxLoss.scale PNPLoss.alpha PNPLoss.b PNPLoss.temperature PairMargin.negative_margin
        ProxyAnchorLoss.alpha ProxyNCALoss.scale QuadrupletLoss.margin RAWLoss.alpha RAWLoss.beta
        SmoothAPLoss.temperature SoftTripleLoss.scale SoftTripleLoss.temperature SphereFaceLoss.scale
        SubCenterArcFaceLoss.scale SupConLoss.temperature TupletMarginLoss.scale Variance.rho
    """,
    "whole, 1 or more": """
        ClassCenters.dim ClassTree.levels EasyPositives.k
        EpisodeSampler.queries EpisodeSampler.shots GroupSampler.classes_per_batch GroupSampler.examples_per_class
        HardClassSampler.classes_per_batch HardClassSampler.examples_per_class
        HierarchicalSampler.classes_per_super_class HierarchicalSampler.examples_per_class
        HierarchicalSampler.super_classes_per_batch MagnetLoss.clusters_per_class MinedPairs.negatives
        MinedPairs.positives MinedSampler.anchors_per_batch PKSampler.classes_per_batch PKSampler.examples_per_class
        PairDiagnostics.batch_size PairDiagnostics.every PairSampler.pairs_per_batch RefreshCenters.batch_size
        RefreshCenters.every RefreshCenters.examples_per_class RefreshMinedPairs.batch_size RefreshMinedPairs.every
        Regressors.units RetrievalEvaluation.batch_size RetrievalEvaluation.every TwoSetSampler.classes_per_batch
        TwoSetSampler.examples_per_class UniformHistogram.bins UniformHistogram.negatives_per_bin
        UniformHistogram.positives_per_bin UniformSampler.batch_size
    """,
    "0 or more": """
        AdversarialLoss.weight BatchHardTripletLoss.margin CentroidTripletLoss.margin ClusteringLoss.margin
        ContrastiveLoss.positive_margin CosFaceLoss.margin CoupledClustersLoss.margin DivergenceLoss.weight
        GeneralizedLiftedLoss.margin GlobalLoss.weight HAP2SLoss.margin HierarchicalTripletLoss.margin
        IntraPairVarianceLoss.negative_epsilon IntraPairVarianceLoss.positive_epsilon LMNNLoss.margin
        MagFaceLoss.regularization MagnetLoss.margin ManifoldLoss.context_weight ManifoldLoss.margin MarginLoss.margin
        MarginLoss.nu MinedPairs.margin NPairsLoss.l2 PDDMLoss.distance_margin PDDMLoss.margin PDDMLoss.weight
        PairMargin.positive_margin ProxyAnchorLoss.margin RankedListLoss.positive_scale RankedListLoss.scale
        SemiHard.min_distance SoftTripleLoss.margin SoftTripleLoss.nu ThresholdConsistencyLoss.negative_weight
        ThresholdConsistencyLoss.positive_weight TripletLoss.margin WeightedContrastiveLoss.eta
    """,
    "whole, 1.0 or more": """
        ArcFaceLoss.per_class CenterLoss.per_class CosFaceLoss.per_class DynamicSoftMarginLoss.bins FastAPLoss.bins
        HistogramLoss.bins LargeMarginSoftmaxLoss.margin LargeMarginSoftmaxLoss.per_class MagFaceLoss.per_class
        ManifoldLoss.classes ManifoldLoss.per_class Memory.size NormalizedSoftmaxLoss.per_class P2SGradLoss.per_class
        PrototypicalLoss.shots Proxies.per_class ProxyAnchorLoss.per_class ProxyNCALoss.per_class
        SoftTripleLoss.per_class SphereFaceLoss.margin SphereFaceLoss.per_class SubCenterArcFaceLoss.per_class TopK.k
    """,
    "whole": """
        EpisodeSampler.seed GroupSampler.seed HardClassSampler.seed HierarchicalSampler.seed MinedPairs.seed
        MinedSampler.seed MixedSampler.seed PKSampler.seed PairSampler.seed TwoSetSampler.seed UniformSampler.seed
    """,
    "whole, or None": """
        BalancedPairs.seed DistanceWeighted.seed DistanceWeightedNegatives.seed KL.seed Mahalanobis.seed
        PositionDependentMetric.seed Proxies.seed RandomNegatives.seed Regressors.seed UniformHistogram.seed
    """,
    "from 0 to 1": """
        CircleLoss.margin GlobalLoss.margin LMNNLoss.mu QuadrupletLoss.second_margin RankedListLoss.balance
        RankedListLoss.margin
    """,
    "from -1 to 1": """
        BinomialDevianceLoss.threshold BoostedLoss.threshold CosineContrastiveLoss.threshold
        MultiSimilarityLoss.threshold RAWLoss.threshold ThresholdConsistencyLoss.negative_threshold
        ThresholdConsistencyLoss.positive_threshold
    """,
    "above 0, or None": """
        CLIPLoss.temperature DistanceWeighted.clip DistanceWeightedNegatives.clip GroupedKL.negative_gamma
        SemiHard.margin SemiHardNegatives.margin SemiHardNegatives.max_distance SigmoidLoss.scale
    """,
    "whole, 0.0 or more": "Boundaries.examples ClusteringLoss.refinements Memory.warm_up",
    "any number": "LearnedScalar.initial TripletViolations.margin ValidTriplets.margin",
    "above 0 and below 1": "ManifoldLoss.alpha PairSampler.positive_fraction",
    "above 0 and below 90": "Angular.angle_degrees AngularLoss.angle_degrees",
    "whole, 1.0 or more, or None": "KL.num_samples PositionDependentMetric.units Proxies.num_sampled_classes",
    "any number, or None": "ExportBest.best GroupedKL.pseudo_loss LearnedScalar.minimum SigmoidLoss.bias",
    "above 0 and at most 1, or None": "HardestNegativesOfBatch.fraction MinedPairs.target",
    "whole, 1 or more, or None": "HardClassSampler.candidates Mahalanobis.rank RetrievalEvaluation.sample",
    "above 0 and below 1, or None": "RetrievalEvaluation.max_time_fraction",
    "above 0 and at most 2": """
        DistanceWeighted.max_distance DistanceWeightedNegatives.max_distance RankedListLoss.boundary
    """,
    "0 or more and below 180": "TupletMarginLoss.margin_degrees",
    "above 0 and at most 1": "DynamicSoftMarginLoss.momentum",
    "above 0 and at most 4": "DivergenceLoss.margin",
    "whole, 2 or more": "EpisodeSampler.ways",
    "from 0 to 2": "Boundaries.initial MarginLoss.boundary",
    "whole, 0 or more": "RefreshCenters.seed",
    "0 or more and below 2": "DistanceWeighted.cutoff DistanceWeightedNegatives.cutoff",
    "whole, even, 2.0 or more": "TopKBalanced.k",
}
RULES = {
    "from 0 to a right angle": lambda v: 0 <= v <= math.pi / 2,
    "above 0": lambda v: v > 0,
    "0 or more": lambda v: v >= 0,
    "any number": lambda v: True,
    "from 0 to 1": lambda v: 0 <= v <= 1,
    "from 0 to 2": lambda v: 0 <= v <= 2,
    "from -1 to 1": lambda v: -1 <= v <= 1,
    "above 0 and below 1": lambda v: 0 < v < 1,
    "above 0 and at most 1": lambda v: 0 < v <= 1,
    "above 0 and at most 2": lambda v: 0 < v <= 2,
    "above 0 and at most 4": lambda v: 0 < v <= 4,
    "above 0 and below 90": lambda v: 0 < v < 90,
    "0 or more and below 2": lambda v: 0 <= v < 2,
    "0 or more and below 180": lambda v: 0 <= v < 180,
    "whole": lambda v: type(v) is int,
    "whole, 0 or more": lambda v: type(v) is int and v >= 0,
    "whole, 1 or more": lambda v: type(v) is int and v >= 1,
    "whole, 2 or more": lambda v: type(v) is int and v >= 2,
    "whole, 0.0 or more": lambda v: type(v) is not bool and v == int(v) >= 0,
    "whole, 1.0 or more": lambda v: type(v) is not bool and v == int(v) >= 1,
    "whole, even, 2.0 or more": lambda v: type(v) is not bool and v == int(v) >= 2 and v % 2 == 0,
}
PAIRS = samplers.MinedPairs(LABELS)
GIVEN = {  # arguments that a class needs, or that leave the whole range of its numbers open
    "ContrastiveLoss": {"negative_margin": 1e3},
    "MarginLoss": {"boundary": layers.Boundaries()},
    "DistanceWeighted": {"cutoff": 0.0, "max_distance": 2.0},
    "DistanceWeightedNegatives": {"cutoff": 0.0, "max_distance": 2.0},
    "TopK": {"k": 2},
    "TopKBalanced": {"k": 2},
    "Variance": {"rho": 1.0},
    "TargetNeighbors": {"neighbors": [[1], [0]]},
    "ClassCenters": {"labels": LABELS, "dim": 2},
    "EpisodeSampler": {"ways": 3, "shots": 1, "queries": 2},
    "GroupSampler": {"classes_per_batch": 4, "examples_per_class": 3},
    "HardClassSampler": {"classes_per_batch": 1, "examples_per_class": 3, "centers": CENTERS},
    "HierarchicalSampler": {
        "super_classes": np.zeros(9, int),
        "super_classes_per_batch": 2,
        "classes_per_super_class": 2,
        "examples_per_class": 2,
    },
    "MinedPairs": {"labels": LABELS},
    "MinedSampler": {"anchors_per_batch": 2, "pairs": PAIRS},
    "MixedSampler": {"samplers": [samplers.UniformSampler(batch_size=4)], "weights": [1]},
    "PKSampler": {"classes_per_batch": 4, "examples_per_class": 3},
    "PairSampler": {"pairs_per_batch": 2, "positive_fraction": 0.5},
    "TwoSetSampler": {"classes_per_batch": 2},
    "UniformSampler": {"batch_size": 4},
    "ClassTree": {"class_ids": [0, 1]},
    "LearnedScalar": {"initial": 1e3},
    "Memory": {"size": 4},
    "Proxies": {"classes": 1000},
    "Regressors": {"dims": (2, 2)},
    "ExportBest": {"path": "build/best"},
    "PairDiagnostics": {"data": X, "labels": LABELS, "path": "build/logs"},
    "RefreshCenters": {"data": X, "labels": LABELS, "centers": samplers.ClassCenters(LABELS, dim=6)},
    "RefreshMinedPairs": {"data": X, "labels": LABELS, "pairs": PAIRS},
    "RetrievalEvaluation": {"data": PART},
}
WORDS = {"distance", "metric", "mode", "normalize", "short_classes", "variant", "weighting"}
WITHOUT_NUMBERS = {"FixedReferences", "ListSampler", "PairLoss", "Sampler", "ScheduledOption", "TrainingCheckpoint"}


def makers():
    """All classes by name, with arguments of which each may take the place of one number."""
    given = {type(row.loss): dict(row.loss.settings) for row in DEFAULTS.values()}
    given |= {type(row.loss): {"classes": 3} for row in DEFAULTS.values() if OVER_PROXIES in row.traits}
    for room in (losses.uncertainty, miners, samplers, layers, callbacks):
        given |= {make: {} for make in vars(room).values() if inspect.isclass(make) and is_public(make, room)}
    return {
        make.__name__: (make, given[make] | GIVEN.get(make.__name__, {}))
        for make in given
        if make.__name__ not in WITHOUT_NUMBERS
    }


def is_public(make, room):
    return make.__module__.startswith(room.__name__) and make.__name__ in getattr(room, "__all__", vars(room))


MAKERS = makers()


def numbers_of(make):
    """The options of a class that are declared as one number, or as something else, too."""
    parameters = inspect.signature(make).parameters.values()
    forms = {each.name: str(getattr(each.annotation, "__name__", each.annotation)) for each in parameters}
    return [name for name, form in forms.items() if form.partition(" |")[0] in ("int", "float")]


RULE_OF = {option: rule for rule, options in LIMITS.items() for option in options.split()}
OPTIONS = [f"{name}.{option}" for name, (make, _) in MAKERS.items() for option in numbers_of(make)]


def test_the_table_has_every_number_that_a_class_takes():
    assert sorted(OPTIONS) == sorted(RULE_OF)


def refused(make, given, option, values):
    """The values that a class refuses by a ValueError of the form of all."""
    found = []
    for value in values:
        try:
            make(**{**given, option: value})
        except ValueError as error:
            assert str(error).startswith("Received "), error  # noqa: PT017
            assert " expected " in str(error), error  # noqa: PT017
            found.append(value)
    return found


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_takes_the_numbers_of_its_range_and_names_all_others(option, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, _, option_name = option.partition(".")
    rule = RULES[RULE_OF[option].removesuffix(", or None")]

    def is_taken(value):
        if value is None:
            return RULE_OF[option].endswith("or None")
        return not isinstance(value, str) and math.isfinite(value) and rule(value)

    found = refused(*MAKERS[name], option_name, LADDER)
    assert list(map(str, found)) == [str(value) for value in LADDER if not is_taken(value)]


def words_of(make):
    """The options of a class that are one of a few words; a distance may also be a function."""
    parameters = inspect.signature(make).parameters.values()
    return [each.name for each in parameters if each.name in WORDS and isinstance(each.default, str)]


@pytest.mark.parametrize("name", [name for name, (make, _) in MAKERS.items() if words_of(make)])
def test_an_option_of_words_names_those_that_there_are(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make, given = MAKERS[name]
    for option in words_of(make):
        wrong = ["manhattan", 3, None, layers.Mahalanobis()] if option == "distance" else ["manhattan", 3, None]
        assert refused(make, given, option, wrong) == wrong, option


def test_a_layer_of_embeddings_in_place_of_a_distance_is_told_where_it_belongs():
    for make in (losses.ContrastiveLoss, losses.TripletLoss, miners.PairMargin):
        with pytest.raises(ValueError, match="maps embeddings: add it to the network, as its last layer"):
            make(distance=layers.Mahalanobis())
