"""Losses: pure functions of `Pairs` that return one value per anchor, and the Keras losses over them."""

from tfdml.layers.boundaries import Boundaries
from tfdml.losses import uncertainty
from tfdml.losses.angular import AngularLoss, angular
from tfdml.losses.base import PairLoss
from tfdml.losses.clustering import CoupledClustersLoss, PrototypicalLoss, coupled_clusters, prototypical
from tfdml.losses.contrastive import (
    BalancedContrastiveLoss,
    ContrastiveLoss,
    CosineContrastiveLoss,
    CosineRegressionLoss,
    HingeSquared,
    WeightedContrastiveLoss,
    balanced_contrastive,
    contrastive,
    cosine_contrastive,
    cosine_regression,
    weighted_contrastive,
)
from tfdml.losses.ensembles import BoostedLoss, CascadeLoss, DivergenceLoss, boosted, cascade, divergence
from tfdml.losses.hap2s import HAP2SLoss, hap2s
from tfdml.losses.hierarchical import HierarchicalTripletLoss, hierarchical_triplet
from tfdml.losses.histogram import FastAPLoss, HistogramLoss, fast_ap, histogram
from tfdml.losses.lifted import (
    CircleLoss,
    GeneralizedLiftedLoss,
    LiftedStructureLoss,
    circle,
    generalized_lifted,
    lifted_structure,
)
from tfdml.losses.logistic import BinomialDevianceLoss, DistanceLogisticLoss, binomial_deviance, distance_logistic
from tfdml.losses.margin import MarginLoss, margin_loss
from tfdml.losses.multi_similarity import MultiSimilarityLoss, RAWLoss, multi_similarity
from tfdml.losses.nested import MatryoshkaLoss, matryoshka
from tfdml.losses.pddm import PDDMLoss, pddm
from tfdml.losses.proxies import (
    ArcFaceLoss,
    CosFaceLoss,
    NormalizedSoftmaxLoss,
    ProxyAnchorLoss,
    ProxyNCALoss,
    SoftTripleLoss,
    SphereFaceLoss,
    arcface,
    cosface,
    normalized_softmax,
    proxy_anchor,
    proxy_nca,
    soft_triple,
    sphereface,
)
from tfdml.losses.quadruplet import QuadrupletLoss, quadruplet
from tfdml.losses.ranking import RankedListLoss, SmoothAPLoss, ranked_list, smooth_ap
from tfdml.losses.robust import RobustLoss, robust
from tfdml.losses.softmax import (
    NCALoss,
    NPairsLoss,
    NTXentLoss,
    SupConLoss,
    TupletMarginLoss,
    n_pairs,
    nca,
    nt_xent,
    sup_con,
    tuplet_margin,
)
from tfdml.losses.triplet import BatchHardTripletLoss, TripletLoss, batch_hard_triplet, triplet
from tfdml.losses.uncertainty import KL, GroupedKL, Maximal, TopK, TopKBalanced, Variance

__all__ = [
    "KL",
    "AngularLoss",
    "ArcFaceLoss",
    "BalancedContrastiveLoss",
    "BatchHardTripletLoss",
    "BinomialDevianceLoss",
    "BoostedLoss",
    "Boundaries",
    "CascadeLoss",
    "CircleLoss",
    "ContrastiveLoss",
    "CosFaceLoss",
    "CosineContrastiveLoss",
    "CosineRegressionLoss",
    "CoupledClustersLoss",
    "DistanceLogisticLoss",
    "DivergenceLoss",
    "FastAPLoss",
    "GeneralizedLiftedLoss",
    "GroupedKL",
    "HAP2SLoss",
    "HierarchicalTripletLoss",
    "HingeSquared",
    "HistogramLoss",
    "LiftedStructureLoss",
    "MarginLoss",
    "MatryoshkaLoss",
    "Maximal",
    "MultiSimilarityLoss",
    "NCALoss",
    "NPairsLoss",
    "NTXentLoss",
    "NormalizedSoftmaxLoss",
    "PDDMLoss",
    "PairLoss",
    "PrototypicalLoss",
    "ProxyAnchorLoss",
    "ProxyNCALoss",
    "QuadrupletLoss",
    "RAWLoss",
    "RankedListLoss",
    "RobustLoss",
    "SmoothAPLoss",
    "SoftTripleLoss",
    "SphereFaceLoss",
    "SupConLoss",
    "TopK",
    "TopKBalanced",
    "TripletLoss",
    "TupletMarginLoss",
    "Variance",
    "WeightedContrastiveLoss",
    "angular",
    "arcface",
    "balanced_contrastive",
    "batch_hard_triplet",
    "binomial_deviance",
    "boosted",
    "cascade",
    "circle",
    "contrastive",
    "cosface",
    "cosine_contrastive",
    "cosine_regression",
    "coupled_clusters",
    "distance_logistic",
    "divergence",
    "fast_ap",
    "generalized_lifted",
    "hap2s",
    "hierarchical_triplet",
    "histogram",
    "lifted_structure",
    "margin_loss",
    "matryoshka",
    "multi_similarity",
    "n_pairs",
    "nca",
    "normalized_softmax",
    "nt_xent",
    "pddm",
    "prototypical",
    "proxy_anchor",
    "proxy_nca",
    "quadruplet",
    "ranked_list",
    "robust",
    "smooth_ap",
    "soft_triple",
    "sphereface",
    "sup_con",
    "triplet",
    "tuplet_margin",
    "uncertainty",
    "weighted_contrastive",
]


def __dir__():
    return __all__
