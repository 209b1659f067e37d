"""Losses: pure functions of `Pairs` that return one value per anchor, and the Keras losses over them."""

from tfdml.losses import uncertainty
from tfdml.losses.base import PairLoss
from tfdml.losses.classification.arcface import ArcFaceLoss, SubCenterArcFaceLoss, arcface, sub_center_arcface
from tfdml.losses.classification.cosface import CosFaceLoss, cosface
from tfdml.losses.classification.large_margin_softmax import LargeMarginSoftmaxLoss, large_margin_softmax
from tfdml.losses.classification.magface import MagFaceLoss, magface
from tfdml.losses.classification.manifold import ManifoldLoss, manifold
from tfdml.losses.classification.normalized_softmax import NormalizedSoftmaxLoss, normalized_softmax
from tfdml.losses.classification.p2s_grad import P2SGradLoss, p2s_grad
from tfdml.losses.classification.proxy_anchor import ProxyAnchorLoss, proxy_anchor
from tfdml.losses.classification.proxy_nca import ProxyNCALoss, proxy_nca
from tfdml.losses.classification.soft_triple import SoftTripleLoss, soft_triple
from tfdml.losses.classification.sphereface import SphereFaceLoss, sphereface
from tfdml.losses.clusters.center import CenterLoss, center
from tfdml.losses.clusters.centroid_triplet import CentroidTripletLoss, centroid_triplet
from tfdml.losses.clusters.clustering import ClusteringLoss, clustering
from tfdml.losses.clusters.coupled_clusters import CoupledClustersLoss, coupled_clusters
from tfdml.losses.clusters.prototypical import PrototypicalLoss, prototypical
from tfdml.losses.distillation.cosine_distillation import CosineDistillationLoss, cosine_distillation
from tfdml.losses.distillation.relational import (
    RelationalAngleLoss,
    RelationalDistanceLoss,
    relational_angle,
    relational_distance,
)
from tfdml.losses.distillation.similarity_preserving import SimilarityPreservingLoss, similarity_preserving
from tfdml.losses.pair_scores.hinge import PairHingeLoss, pair_hinge
from tfdml.losses.pair_scores.logistic import PairLogisticLoss, pair_logistic
from tfdml.losses.pairwise.circle import CircleLoss, circle
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
from tfdml.losses.pairwise.image_text import CLIPLoss, SigmoidLoss, clip, sigmoid
from tfdml.losses.pairwise.lifted import (
    GeneralizedLiftedLoss,
    LiftedStructureLoss,
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
from tfdml.losses.pairwise.n_pairs import NPairsLoss, n_pairs
from tfdml.losses.pairwise.nca import NCALoss, nca
from tfdml.losses.pairwise.nt_xent import InstanceLoss, NTXentLoss, SupConLoss, instance, nt_xent, sup_con
from tfdml.losses.pairwise.similarity_regularizers import (
    IntraPairVarianceLoss,
    ThresholdConsistencyLoss,
    intra_pair_variance,
    threshold_consistency,
)
from tfdml.losses.pairwise.tuplet_margin import TupletMarginLoss, tuplet_margin
from tfdml.losses.ranking.global_distances import GlobalLoss, global_distances
from tfdml.losses.ranking.histogram import FastAPLoss, HistogramLoss, fast_ap, histogram
from tfdml.losses.ranking.pnp import PNPLoss, pnp
from tfdml.losses.ranking.ranked_list import RankedListLoss, ranked_list
from tfdml.losses.ranking.smooth_ap import SmoothAPLoss, smooth_ap
from tfdml.losses.ranking.xing import XingLoss, xing
from tfdml.losses.triplets.angular import AngularLoss, angular
from tfdml.losses.triplets.batch_hard_triplet import BatchHardTripletLoss, batch_hard_triplet
from tfdml.losses.triplets.dynamic_soft_margin import DynamicSoftMarginLoss, dynamic_soft_margin
from tfdml.losses.triplets.hap2s import HAP2SLoss, hap2s
from tfdml.losses.triplets.hierarchical import HierarchicalTripletLoss, hierarchical_triplet
from tfdml.losses.triplets.lmnn import LMNNLoss, lmnn
from tfdml.losses.triplets.pddm import PDDMLoss, pddm
from tfdml.losses.triplets.quadruplet import QuadrupletLoss, quadruplet
from tfdml.losses.triplets.triplet import TripletLoss, triplet
from tfdml.losses.wrappers.adversarial import AdversarialLoss, adversarial
from tfdml.losses.wrappers.ensembles import BoostedLoss, CascadeLoss, DivergenceLoss, boosted, cascade, divergence
from tfdml.losses.wrappers.matryoshka import MatryoshkaLoss, matryoshka
from tfdml.losses.wrappers.robust import RobustLoss, robust
from tfdml.losses.wrappers.weighted_sum import WeightedSumLoss

__all__ = [
    "AdversarialLoss",
    "AngularLoss",
    "ArcFaceLoss",
    "BalancedContrastiveLoss",
    "BatchHardTripletLoss",
    "BinomialDevianceLoss",
    "BoostedLoss",
    "CLIPLoss",
    "CascadeLoss",
    "CenterLoss",
    "CentroidTripletLoss",
    "CircleLoss",
    "ClusteringLoss",
    "ContrastiveLoss",
    "CosFaceLoss",
    "CosineContrastiveLoss",
    "CosineDistillationLoss",
    "CosineRegressionLoss",
    "CoupledClustersLoss",
    "DistanceLogisticLoss",
    "DivergenceLoss",
    "DynamicSoftMarginLoss",
    "FastAPLoss",
    "GeneralizedLiftedLoss",
    "GlobalLoss",
    "HAP2SLoss",
    "HierarchicalTripletLoss",
    "HingeSquared",
    "HistogramLoss",
    "InstanceLoss",
    "IntraPairVarianceLoss",
    "LMNNLoss",
    "LargeMarginSoftmaxLoss",
    "LiftedStructureLoss",
    "MagFaceLoss",
    "ManifoldLoss",
    "MarginLoss",
    "MatryoshkaLoss",
    "MultiSimilarityLoss",
    "NCALoss",
    "NPairsLoss",
    "NTXentLoss",
    "NormalizedSoftmaxLoss",
    "P2SGradLoss",
    "PDDMLoss",
    "PNPLoss",
    "PairHingeLoss",
    "PairLogisticLoss",
    "PairLoss",
    "PrototypicalLoss",
    "ProxyAnchorLoss",
    "ProxyNCALoss",
    "QuadrupletLoss",
    "RAWLoss",
    "RankedListLoss",
    "RelationalAngleLoss",
    "RelationalDistanceLoss",
    "RobustLoss",
    "SigmoidLoss",
    "SimilarityPreservingLoss",
    "SmoothAPLoss",
    "SoftTripleLoss",
    "SphereFaceLoss",
    "SubCenterArcFaceLoss",
    "SupConLoss",
    "ThresholdConsistencyLoss",
    "TripletLoss",
    "TupletMarginLoss",
    "WeightedContrastiveLoss",
    "WeightedSumLoss",
    "XingLoss",
    "adversarial",
    "angular",
    "arcface",
    "balanced_contrastive",
    "batch_hard_triplet",
    "binomial_deviance",
    "boosted",
    "cascade",
    "center",
    "centroid_triplet",
    "circle",
    "clip",
    "clustering",
    "contrastive",
    "cosface",
    "cosine_contrastive",
    "cosine_distillation",
    "cosine_regression",
    "coupled_clusters",
    "distance_logistic",
    "divergence",
    "dynamic_soft_margin",
    "fast_ap",
    "generalized_lifted",
    "global_distances",
    "hap2s",
    "hierarchical_triplet",
    "histogram",
    "instance",
    "intra_pair_variance",
    "large_margin_softmax",
    "lifted_structure",
    "lmnn",
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
    "pair_hinge",
    "pair_logistic",
    "pddm",
    "pnp",
    "prototypical",
    "proxy_anchor",
    "proxy_nca",
    "quadruplet",
    "ranked_list",
    "relational_angle",
    "relational_distance",
    "robust",
    "sigmoid",
    "similarity_preserving",
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
    "xing",
]


def __dir__():
    return __all__
