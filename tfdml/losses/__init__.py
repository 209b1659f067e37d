"""Losses: pure functions of `Pairs` that return one value per anchor, and the Keras losses over them."""

from tfdml.layers.boundaries import Boundaries
from tfdml.losses import uncertainty
from tfdml.losses.base import PairLoss
from tfdml.losses.classification.angular_margins import (
    ArcFaceLoss,
    CosFaceLoss,
    LargeMarginSoftmaxLoss,
    MagFaceLoss,
    NormalizedSoftmaxLoss,
    SphereFaceLoss,
    SubCenterArcFaceLoss,
    arcface,
    cosface,
    large_margin_softmax,
    magface,
    normalized_softmax,
    sphereface,
    sub_center_arcface,
)
from tfdml.losses.classification.manifold import ManifoldLoss, manifold
from tfdml.losses.classification.proxies import (
    CenterLoss,
    P2SGradLoss,
    ProxyAnchorLoss,
    ProxyNCALoss,
    SoftTripleLoss,
    center,
    p2s_grad,
    proxy_anchor,
    proxy_nca,
    soft_triple,
)
from tfdml.losses.clusters.facility_location import ClusteringLoss, clustering
from tfdml.losses.clusters.prototypical import CoupledClustersLoss, PrototypicalLoss, coupled_clusters, prototypical
from tfdml.losses.pairwise.contrastive import (
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
from tfdml.losses.pairwise.lifted import (
    CircleLoss,
    GeneralizedLiftedLoss,
    LiftedStructureLoss,
    circle,
    generalized_lifted,
    lifted_structure,
)
from tfdml.losses.pairwise.logistic import (
    BinomialDevianceLoss,
    DistanceLogisticLoss,
    binomial_deviance,
    distance_logistic,
)
from tfdml.losses.pairwise.margin import MarginLoss, margin
from tfdml.losses.pairwise.multi_similarity import MultiSimilarityLoss, RAWLoss, multi_similarity
from tfdml.losses.pairwise.similarity_regularizers import (
    IntraPairVarianceLoss,
    ThresholdConsistencyLoss,
    intra_pair_variance,
    threshold_consistency,
)
from tfdml.losses.pairwise.softmax import (
    InstanceLoss,
    NCALoss,
    NPairsLoss,
    NTXentLoss,
    SupConLoss,
    TupletMarginLoss,
    instance,
    n_pairs,
    nca,
    nt_xent,
    sup_con,
    tuplet_margin,
)
from tfdml.losses.ranking.histogram import FastAPLoss, HistogramLoss, fast_ap, histogram
from tfdml.losses.ranking.ranking import PNPLoss, RankedListLoss, SmoothAPLoss, pnp, ranked_list, smooth_ap
from tfdml.losses.triplets.angular import AngularLoss, angular
from tfdml.losses.triplets.dynamic_soft_margin import DynamicSoftMarginLoss, dynamic_soft_margin
from tfdml.losses.triplets.hap2s import HAP2SLoss, hap2s
from tfdml.losses.triplets.hierarchical import HierarchicalTripletLoss, hierarchical_triplet
from tfdml.losses.triplets.pddm import PDDMLoss, pddm
from tfdml.losses.triplets.quadruplet import QuadrupletLoss, quadruplet
from tfdml.losses.triplets.triplet import BatchHardTripletLoss, TripletLoss, batch_hard_triplet, triplet
from tfdml.losses.uncertainty import KL, GroupedKL, Maximal, TopK, TopKBalanced, Variance
from tfdml.losses.wrappers.ensembles import BoostedLoss, CascadeLoss, DivergenceLoss, boosted, cascade, divergence
from tfdml.losses.wrappers.matryoshka import MatryoshkaLoss, matryoshka
from tfdml.losses.wrappers.robust import RobustLoss, robust
from tfdml.losses.wrappers.weighted_sum import WeightedSumLoss

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
    "CenterLoss",
    "CircleLoss",
    "ClusteringLoss",
    "ContrastiveLoss",
    "CosFaceLoss",
    "CosineContrastiveLoss",
    "CosineRegressionLoss",
    "CoupledClustersLoss",
    "DistanceLogisticLoss",
    "DivergenceLoss",
    "DynamicSoftMarginLoss",
    "FastAPLoss",
    "GeneralizedLiftedLoss",
    "GroupedKL",
    "HAP2SLoss",
    "HierarchicalTripletLoss",
    "HingeSquared",
    "HistogramLoss",
    "InstanceLoss",
    "IntraPairVarianceLoss",
    "LargeMarginSoftmaxLoss",
    "LiftedStructureLoss",
    "MagFaceLoss",
    "ManifoldLoss",
    "MarginLoss",
    "MatryoshkaLoss",
    "Maximal",
    "MultiSimilarityLoss",
    "NCALoss",
    "NPairsLoss",
    "NTXentLoss",
    "NormalizedSoftmaxLoss",
    "P2SGradLoss",
    "PDDMLoss",
    "PNPLoss",
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
    "SubCenterArcFaceLoss",
    "SupConLoss",
    "ThresholdConsistencyLoss",
    "TopK",
    "TopKBalanced",
    "TripletLoss",
    "TupletMarginLoss",
    "Variance",
    "WeightedContrastiveLoss",
    "WeightedSumLoss",
    "angular",
    "arcface",
    "balanced_contrastive",
    "batch_hard_triplet",
    "binomial_deviance",
    "boosted",
    "cascade",
    "center",
    "circle",
    "clustering",
    "contrastive",
    "cosface",
    "cosine_contrastive",
    "cosine_regression",
    "coupled_clusters",
    "distance_logistic",
    "divergence",
    "dynamic_soft_margin",
    "fast_ap",
    "generalized_lifted",
    "hap2s",
    "hierarchical_triplet",
    "histogram",
    "instance",
    "intra_pair_variance",
    "large_margin_softmax",
    "lifted_structure",
    "magface",
    "manifold",
    "margin",
    "matryoshka",
    "multi_similarity",
    "n_pairs",
    "nca",
    "normalized_softmax",
    "nt_xent",
    "p2s_grad",
    "pddm",
    "pnp",
    "prototypical",
    "proxy_anchor",
    "proxy_nca",
    "quadruplet",
    "ranked_list",
    "robust",
    "smooth_ap",
    "soft_triple",
    "sphereface",
    "sub_center_arcface",
    "sup_con",
    "threshold_consistency",
    "triplet",
    "tuplet_margin",
    "uncertainty",
    "weighted_contrastive",
]


def __dir__():
    return __all__
