"""Losses: Keras losses over `Pairs`; their pure functions are in `functional`."""

from tfdml.losses import functional, uncertainty
from tfdml.losses.base import PairLoss
from tfdml.losses.classification.arcface import ArcFaceLoss, SubCenterArcFaceLoss
from tfdml.losses.classification.cosface import CosFaceLoss
from tfdml.losses.classification.large_margin_softmax import LargeMarginSoftmaxLoss
from tfdml.losses.classification.magface import MagFaceLoss
from tfdml.losses.classification.manifold import ManifoldLoss
from tfdml.losses.classification.normalized_softmax import NormalizedSoftmaxLoss
from tfdml.losses.classification.p2s_grad import P2SGradLoss
from tfdml.losses.classification.proxy_anchor import ProxyAnchorLoss
from tfdml.losses.classification.proxy_nca import ProxyNCALoss
from tfdml.losses.classification.soft_triple import SoftTripleLoss
from tfdml.losses.classification.sphereface import SphereFaceLoss
from tfdml.losses.clusters.center import CenterLoss
from tfdml.losses.clusters.centroid_triplet import CentroidTripletLoss
from tfdml.losses.clusters.clustering import ClusteringLoss
from tfdml.losses.clusters.coupled_clusters import CoupledClustersLoss
from tfdml.losses.clusters.magnet import MagnetLoss
from tfdml.losses.clusters.prototypical import PrototypicalLoss
from tfdml.losses.distillation.cosine_distillation import CosineDistillationLoss
from tfdml.losses.distillation.relational import RelationalAngleLoss, RelationalDistanceLoss
from tfdml.losses.distillation.similarity_preserving import SimilarityPreservingLoss
from tfdml.losses.pair_scores.hinge import PairHingeLoss
from tfdml.losses.pair_scores.logistic import PairLogisticLoss
from tfdml.losses.pairwise.circle import CircleLoss
from tfdml.losses.pairwise.contrastive import (
    BalancedContrastiveLoss,
    ContrastiveLoss,
    CosineContrastiveLoss,
    CosineRegressionLoss,
    HingeSquared,
    WeightedContrastiveLoss,
)
from tfdml.losses.pairwise.image_text import CLIPLoss, SigmoidLoss
from tfdml.losses.pairwise.lifted import GeneralizedLiftedLoss, LiftedStructureLoss
from tfdml.losses.pairwise.logistic import BinomialDevianceLoss, DistanceLogisticLoss
from tfdml.losses.pairwise.margin import MarginLoss
from tfdml.losses.pairwise.multi_similarity import MultiSimilarityLoss, RAWLoss
from tfdml.losses.pairwise.n_pairs import NPairsLoss
from tfdml.losses.pairwise.nca import NCALoss
from tfdml.losses.pairwise.nt_xent import InstanceLoss, NTXentLoss, SupConLoss
from tfdml.losses.pairwise.similarity_regularizers import IntraPairVarianceLoss, ThresholdConsistencyLoss
from tfdml.losses.pairwise.tuplet_margin import TupletMarginLoss
from tfdml.losses.ranking.global_distances import GlobalLoss
from tfdml.losses.ranking.histogram import FastAPLoss, HistogramLoss
from tfdml.losses.ranking.pnp import PNPLoss
from tfdml.losses.ranking.ranked_list import RankedListLoss
from tfdml.losses.ranking.smooth_ap import SmoothAPLoss
from tfdml.losses.ranking.xing import XingLoss
from tfdml.losses.triplets.angular import AngularLoss
from tfdml.losses.triplets.batch_hard_triplet import BatchHardTripletLoss
from tfdml.losses.triplets.dynamic_soft_margin import DynamicSoftMarginLoss
from tfdml.losses.triplets.hap2s import HAP2SLoss
from tfdml.losses.triplets.hierarchical import HierarchicalTripletLoss
from tfdml.losses.triplets.lmnn import LMNNLoss
from tfdml.losses.triplets.pddm import PDDMLoss
from tfdml.losses.triplets.quadruplet import QuadrupletLoss
from tfdml.losses.triplets.triplet import TripletLoss
from tfdml.losses.wrappers.adversarial import AdversarialLoss
from tfdml.losses.wrappers.ensembles import BoostedLoss, CascadeLoss, DivergenceLoss
from tfdml.losses.wrappers.matryoshka import MatryoshkaLoss
from tfdml.losses.wrappers.robust import RobustLoss
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
    "MagnetLoss",
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
    "functional",
    "uncertainty",
]


def __dir__():
    return __all__
