"""The table of losses, each with its equation as a loop, and small batches to try them on."""

import functools
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import keras
import numpy as np
import pytest

from tests.backend import BACKEND, fast, gradient_and_values, numbers
from tests.losses import loops
from tfdml import layers, losses, miners, pairs

# Traits of rows.
BRANCH = "takes another branch of the code than the defaults of its class"
COARSE = "amplifies the rounding of distances, as narrow bins and a large rho do"
BY_CLASS_ID = "has settings by class id"
COLUMNS = "is no function of inner products, and may need a number of columns: embeddings have 5 dimensions"
LISTED = "has half as many anchors as rows: neighboring rows are a pair"
OVER_A_BASE = "has no options of pairs: they are those of its base"
OVER_PROXIES = "takes the number of classes, or, as in its row, another pairing"
SUPPORT_FIRST = "takes the first rows of a class as its support"
SYMMETRIC = "takes as many references as anchors"
WHOLE = "needs the whole batch: it is not computed in blocks of anchors"
WITHIN = "compares references with each other: the batch is its own references"

COUNTS = {0: 3, 1: 4, 2: 5, 3: 6, 4: 2, 5: 3, 6: 4, 7: 9, 8: 12, 9: 2}
CONSECUTIVE = {"pairing": pairs.consecutive_pairs}


class Row(NamedTuple):
    """A loss, its oracle `(labels, embeddings) -> values`, and the traits that tests ask for."""

    loss: losses.PairLoss
    by_loops: Callable
    traits: frozenset | set = frozenset()

    @property
    def anchors(self):
        """Number of anchors in a batch of 8 rows."""
        return 4 if LISTED in self.traits else 8

    def with_options(self, **options):
        """The same loss with other options of pairs."""
        if OVER_A_BASE in self.traits:
            base = type(self.loss.base)(**{**self.loss.base.settings, **options})
            own = {name: setting for name, setting in self.loss.settings.items() if name != "base"}
            return type(self.loss)(base, **own)
        return type(self.loss)(**{**self.loss.settings, "pairing": self.loss.pairing, **options})

    def with_ids(self, rename):
        """The same loss for classes of other ids."""
        if BY_CLASS_ID not in self.traits:
            return self.loss
        if "tree" in self.loss.settings:
            return self.with_options(
                tree=layers.ClassTree([rename(int(label)) for label in self.loss.settings["tree"].ids])
            )
        counts = self.loss.settings["class_counts"]
        return self.with_options(class_counts={rename(int(label)): count for label, count in counts.items()})


@keras.saving.register_keras_serializable("tests")
def softplus(d):
    return keras.ops.softplus(d)


def row(make, by_loops, *traits, **settings):
    """A loss and its oracle, with the same settings."""
    return Row(make(**settings), partial(by_loops, **settings), frozenset(traits))


def consecutive(make, cost, *traits, **settings):
    """A loss over a batch that is a list of pairs, and its oracle."""
    by_loops = partial(loops.consecutive, cost=cost, **settings)
    return Row(make(**settings, **CONSECUTIVE), by_loops, frozenset({LISTED, *traits}))


def chosen(negatives, rule, *traits, band=None, **settings):
    """The triplet loss with one negative for each positive, and its oracle."""
    by_loops = partial(loops.triplet, negatives=rule, band=band, **settings)
    return Row(losses.TripletLoss(negatives=negatives, **settings), by_loops, frozenset(traits))


def robust(uncertainty, weights, *traits, base=None, cost=loops.margin_on_similarities, **settings):
    """A robust loss, over the margin loss on similarities by default, and its oracle."""
    base = base or losses.MarginLoss(margin=0.2, boundary=0.5, distance="cosine")
    by_loops = partial(loops.robust, cost=cost, weights=partial(weights, **settings))
    return Row(losses.RobustLoss(base, uncertainty=uncertainty), by_loops, frozenset({OVER_A_BASE, *traits}))


def over_proxies(make, by_loops, *traits, **settings):
    """A loss over proxies, here over the batch itself, and its oracle; `tests/layers/test_proxies.py` has proxies."""
    loss = make(pairing=pairs.all_pairs, **settings)
    return Row(loss, partial(by_loops, **settings), frozenset({OVER_PROXIES, *traits}))


def over_base(make, by_loops, *traits, base, oracle, **settings):
    """A loss over another loss, and its oracle, which takes that of the base by the name `oracle`."""
    by_loops = partial(by_loops, **oracle, **settings)
    return Row(make(base, **settings), by_loops, frozenset({OVER_A_BASE, COLUMNS, *traits}))


def built(layer):
    """The layer with weights for the embeddings of the rows."""
    layer.build((None,), (None, 5))
    return layer


# The first row of each class has its defaults.
ROWS = {
    "contrastive": row(losses.ContrastiveLoss, loops.contrastive),
    "contrastive with both margins": row(
        losses.ContrastiveLoss, loops.contrastive, positive_margin=0.5, negative_margin=2.5
    ),
    "contrastive on squared distances": row(
        losses.ContrastiveLoss, loops.contrastive, distance="squared", negative_margin=4.0
    ),
    "contrastive over all pairs of the batch": row(
        losses.ContrastiveLoss, loops.contrastive_of_batch, BRANCH, normalize="all", negative_margin=2.0
    ),
    "contrastive over the active pairs of the batch": row(
        losses.ContrastiveLoss, loops.contrastive_of_batch, BRANCH, normalize="active", negative_margin=2.0
    ),
    "contrastive on cosine distances": row(losses.ContrastiveLoss, loops.contrastive, distance="cosine"),
    "contrastive on signal-to-noise ratios": row(
        losses.ContrastiveLoss, loops.contrastive, COLUMNS, distance="snr", positive_margin=0.1, negative_margin=3.0
    ),
    "contrastive on consecutive pairs": Row(
        losses.ContrastiveLoss(negative_margin=3.0, **CONSECUTIVE),
        partial(loops.contrastive_of_consecutive, negative_margin=3.0),
        {BRANCH, LISTED},
    ),
    "weighted contrastive": row(losses.WeightedContrastiveLoss, loops.weighted_contrastive),
    "weighted contrastive with functions": Row(
        losses.WeightedContrastiveLoss(
            positive_cost=softplus, negative_cost=losses.HingeSquared(2.0), eta=0.3, distance="squared"
        ),
        partial(
            loops.weighted_contrastive,
            positive_cost=lambda d: np.log1p(np.exp(d)),
            negative_cost=lambda d: max(0, 2 - d) ** 2,
            eta=0.3,
            distance="squared",
        ),
        {BRANCH},
    ),
    "weighted contrastive on consecutive pairs": consecutive(
        losses.WeightedContrastiveLoss, loops.weighted_contrastive_cost, eta=0.5
    ),
    "balanced contrastive": row(
        losses.BalancedContrastiveLoss, loops.balanced_contrastive, BY_CLASS_ID, class_counts=COUNTS
    ),
    "balanced contrastive with other settings": row(
        losses.BalancedContrastiveLoss,
        loops.balanced_contrastive,
        BY_CLASS_ID,
        class_counts=COUNTS,
        negatives_per_positive=8.0,
        margin=3.0,
        distance="squared",
    ),
    "balanced contrastive on consecutive pairs": consecutive(
        losses.BalancedContrastiveLoss, loops.balanced_contrastive_cost, BY_CLASS_ID, class_counts=COUNTS, margin=3.0
    ),
    "cosine contrastive": row(losses.CosineContrastiveLoss, loops.cosine_contrastive),
    "cosine contrastive on consecutive pairs": consecutive(
        losses.CosineContrastiveLoss, loops.cosine_contrastive_cost, threshold=-0.3
    ),
    "cosine regression": row(losses.CosineRegressionLoss, loops.cosine_regression),
    "cosine regression on consecutive pairs": consecutive(losses.CosineRegressionLoss, loops.cosine_regression_cost),
    "distance logistic": row(losses.DistanceLogisticLoss, loops.distance_logistic),
    "distance logistic on squared distances": row(
        losses.DistanceLogisticLoss, loops.distance_logistic, margin=3.0, distance="squared"
    ),
    "distance logistic on consecutive pairs": consecutive(
        losses.DistanceLogisticLoss, loops.distance_logistic_cost, margin=2.0
    ),
    "binomial deviance": row(losses.BinomialDevianceLoss, loops.binomial_deviance),
    "binomial deviance on consecutive pairs": consecutive(
        losses.BinomialDevianceLoss, loops.binomial_deviance_cost, alpha=3.0, beta=10.0, threshold=0.1
    ),
    "margin": row(losses.MarginLoss, loops.margin_loss),
    "margin over all pairs": row(
        losses.MarginLoss, loops.margin_loss, BRANCH, normalize="all", margin=0.4, boundary=1.0
    ),
    "margin on consecutive pairs": Row(
        losses.MarginLoss(boundary=1.4, **CONSECUTIVE),
        partial(loops.margin_loss_of_consecutive, boundary=1.4),
        {BRANCH, LISTED},
    ),
    "margin on similarities": row(losses.MarginLoss, loops.margin_loss, distance="cosine", boundary=0.5),
    "robust, KL": robust(losses.uncertainty.KL(0.1), loops.kl),
    "robust, KL over binomial deviance": robust(
        losses.uncertainty.KL(0.5),
        loops.kl,
        base=losses.BinomialDevianceLoss(beta=5.0),
        cost=partial(loops.binomial_deviance_cost, beta=5.0),
        gamma=0.5,
    ),
    "robust, top k": robust(losses.uncertainty.TopK(2), loops.top_k, BRANCH, k=2),
    "robust, top k over the contrastive loss": robust(
        losses.uncertainty.TopK(2), loops.top_k, base=losses.ContrastiveLoss(), cost=loops.contrastive_pair, k=2
    ),
    "robust, top k balanced": robust(losses.uncertainty.TopKBalanced(2), loops.top_k_balanced, BRANCH, k=2),
    "robust, grouped KL": robust(losses.uncertainty.GroupedKL(), loops.grouped_kl, BRANCH),
    "robust, grouped KL with pseudo pairs": robust(
        losses.uncertainty.GroupedKL(0.2, negative_gamma=0.05, pseudo_loss=0.1),
        loops.grouped_kl,
        BRANCH,
        gamma=0.2,
        negative_gamma=0.05,
        pseudo_loss=0.1,
    ),
    "robust, variance": robust(losses.uncertainty.Variance(1.0), loops.variance, WHOLE, BRANCH),
    "robust, more variance": robust(losses.uncertainty.Variance(20.0), loops.variance, WHOLE, BRANCH, COARSE, rho=20.0),
    "robust, maximal": robust(losses.uncertainty.Maximal(), loops.maximal, BRANCH),
    "matryoshka": over_base(
        losses.MatryoshkaLoss,
        loops.matryoshka,
        base=losses.MultiSimilarityLoss(),
        oracle={"base": loops.multi_similarity},
        dims=(2, 5),
    ),
    "matryoshka with weights, not normalized": over_base(
        losses.MatryoshkaLoss,
        loops.matryoshka,
        base=losses.TripletLoss(margin=1.0),
        oracle={"base": partial(loops.triplet, margin=1.0)},
        dims=(1, 3, 5),
        weights=(2.0, 1.0, 0.5),
    ),
    "cascade": over_base(
        losses.CascadeLoss,
        loops.cascade,
        WHOLE,
        base=losses.ContrastiveLoss(negative_margin=2.0),
        oracle={"cost": partial(loops.contrastive_pair, negative_margin=2.0)},
        dims=(2, 3),
        shares=(0.4,),
    ),
    "boosted": row(losses.BoostedLoss, loops.boosted, COLUMNS, dims=(2, 3)),
    "boosted, softer": row(
        losses.BoostedLoss, loops.boosted, COLUMNS, dims=(2, 2, 1), alpha=1.0, beta=5.0, threshold=0.1
    ),
    "divergence": over_base(
        losses.DivergenceLoss,
        loops.divergence,
        base=losses.ContrastiveLoss(),
        oracle={"base": loops.contrastive},
        dims=(1, 1, 1, 1, 1),
        margin=0.5,
        weight=0.3,
    ),
    "adversarial": over_base(
        losses.AdversarialLoss,
        loops.adversarial,
        base=losses.ContrastiveLoss(),
        oracle={"base": loops.contrastive},
        dims=(2, 3),
        regressors=layers.Regressors((2, 3), units=4, seed=0),
        weight=3.0,
    ),
    "triplet": row(losses.TripletLoss, loops.triplet),
    "triplet on plain distances": row(losses.TripletLoss, loops.triplet, distance="euclidean", margin=1.0),
    "triplet, mean of active": row(losses.TripletLoss, loops.triplet, BRANCH, distance="cosine", normalize="active"),
    "triplet, soft": row(losses.TripletLoss, loops.triplet, BRANCH, soft=True, distance="euclidean"),
    "triplet, ratio": row(losses.TripletLoss, loops.triplet, BRANCH, ratio=True, margin=1.0),
    "triplet, swapped": row(losses.TripletLoss, loops.triplet, WITHIN, WHOLE, BRANCH, swap=True, margin=1.0),
    "triplet, swapped, mean of active": row(
        losses.TripletLoss, loops.triplet, WITHIN, WHOLE, BRANCH, swap=True, normalize="active"
    ),
    "triplet, swapped, on signal-to-noise ratios": row(
        losses.TripletLoss, loops.triplet, WITHIN, WHOLE, BRANCH, COLUMNS, swap=True, margin=1.0, distance="snr"
    ),
    "triplet, hardest negatives, swapped, on signal-to-noise ratios": chosen(
        miners.hardest_negatives, "hardest", WITHIN, WHOLE, BRANCH, COLUMNS, swap=True, margin=1.0, distance="snr"
    ),
    "triplet, hardest negatives": chosen(miners.hardest_negatives, "hardest", BRANCH, distance="euclidean"),
    "triplet, hardest negatives, swapped": chosen(
        miners.hardest_negatives, "hardest", WITHIN, WHOLE, BRANCH, swap=True, margin=1.0
    ),
    "triplet, semi-hard negatives": chosen(miners.semi_hard_negatives, "semi_hard", BRANCH, margin=1.0),
    "triplet, semi-hard negatives inside a margin": chosen(
        miners.SemiHardNegatives(margin=2.0), "semi_hard", BRANCH, band=2.0, margin=2.0, normalize="active"
    ),
    "dynamic soft margin": row(losses.DynamicSoftMarginLoss, loops.dynamic_soft_margin, COARSE),
    "dynamic soft margin of all triplets": row(
        losses.DynamicSoftMarginLoss, loops.dynamic_soft_margin, BRANCH, bins=10, negatives=None
    ),
    "hierarchical triplet": Row(
        losses.HierarchicalTripletLoss(layers.ClassTree(np.arange(10))), loops.hierarchical_triplet, {BY_CLASS_ID}
    ),
    "batch hard": row(losses.BatchHardTripletLoss, loops.batch_hard_triplet),
    "batch hard on squared distances": row(
        losses.BatchHardTripletLoss, loops.batch_hard_triplet, distance="squared", margin=1.0
    ),
    "batch hard, soft": row(
        losses.BatchHardTripletLoss, loops.batch_hard_triplet, BRANCH, soft=True, distance="cosine"
    ),
    "batch hard, swapped, mean of active": row(
        losses.BatchHardTripletLoss, loops.batch_hard_triplet, WITHIN, WHOLE, BRANCH, swap=True, normalize="active"
    ),
    "LMNN": row(losses.LMNNLoss, loops.lmnn),
    "LMNN of one neighbor": Row(
        losses.LMNNLoss(margin=2.0, mu=0.8, miner=miners.EasyPositives(distance="squared")),
        partial(loops.lmnn, margin=2.0, mu=0.8, neighbors=1),
    ),
    "lifted structure": row(losses.LiftedStructureLoss, loops.lifted_structure),
    "lifted structure with the nested maximum": row(
        losses.LiftedStructureLoss, loops.lifted_structure, BRANCH, hard=True, margin=3.0
    ),
    "lifted structure, not squared": row(
        losses.LiftedStructureLoss, loops.lifted_structure, BRANCH, squared=False, distance="cosine"
    ),
    "generalized lifted": row(losses.GeneralizedLiftedLoss, loops.generalized_lifted),
    "generalized lifted on similarities": row(
        losses.GeneralizedLiftedLoss, loops.generalized_lifted, distance="cosine", margin=0.1
    ),
    "n-pairs": row(losses.NPairsLoss, loops.n_pairs),
    "n-pairs with a regularizer": row(losses.NPairsLoss, loops.n_pairs, BRANCH, l2=0.02),
    "n-pairs, two a class": Row(
        losses.NPairsLoss(l2=0.1, pairing=pairs.even_against_odd),
        partial(loops.n_pairs_even_against_odd, l2=0.1),
        {BRANCH, LISTED},
    ),
    "NCA": row(losses.NCALoss, loops.nca),
    "NCA, logarithm": row(losses.NCALoss, loops.nca, BRANCH, log=True),
    "NT-Xent": row(losses.NTXentLoss, loops.nt_xent),
    "NT-Xent, warmer": row(losses.NTXentLoss, loops.nt_xent, temperature=0.5),
    "SupCon": row(losses.SupConLoss, loops.sup_con),
    "instance": row(losses.InstanceLoss, loops.instance),
    "instance, softer": row(losses.InstanceLoss, loops.instance, scale=5.0),
    "CLIP": Row(losses.CLIPLoss(pairing=pairs.all_pairs), partial(loops.clip, temperature=0.07), {SYMMETRIC}),
    "CLIP, warmer": Row(
        losses.CLIPLoss(temperature=0.5, pairing=pairs.all_pairs), partial(loops.clip, temperature=0.5), {SYMMETRIC}
    ),
    "sigmoid": Row(losses.SigmoidLoss(pairing=pairs.all_pairs), partial(loops.sigmoid, scale=10.0, bias=-10.0)),
    "sigmoid, softer": Row(
        losses.SigmoidLoss(scale=2.0, bias=0.5, pairing=pairs.all_pairs), partial(loops.sigmoid, scale=2.0, bias=0.5)
    ),
    "circle": row(losses.CircleLoss, loops.circle),
    "circle for re-identification": row(losses.CircleLoss, loops.circle, margin=0.25, scale=128.0),
    "tuplet margin": row(losses.TupletMarginLoss, loops.tuplet_margin),
    "tuplet margin, softer": row(losses.TupletMarginLoss, loops.tuplet_margin, margin_degrees=20.0, scale=5.0),
    "multi-similarity": row(losses.MultiSimilarityLoss, loops.multi_similarity),
    "multi-similarity with other settings": row(
        losses.MultiSimilarityLoss, loops.multi_similarity, alpha=5.0, beta=20.0, threshold=-0.2
    ),
    "multi-similarity of valid triplets": Row(
        losses.MultiSimilarityLoss(miner=miners.ValidTriplets(margin=0.1)), loops.mined_multi_similarity, {BRANCH}
    ),
    "RAW": row(losses.RAWLoss, loops.raw),
    "HAP2S": row(losses.HAP2SLoss, loops.hap2s),
    "HAP2S, harder": row(losses.HAP2SLoss, loops.hap2s, margin=0.5, temperature=0.1),
    "HAP2S, polynomial": row(
        losses.HAP2SLoss, loops.hap2s, BRANCH, margin=0.5, weighting="polynomial", alpha=3.0, distance="euclidean"
    ),
    "angular": row(losses.AngularLoss, loops.angular, WITHIN),
    "angular, narrower": row(losses.AngularLoss, loops.angular, WITHIN, angle_degrees=30.0),
    "quadruplet": row(losses.QuadrupletLoss, loops.quadruplet, WITHIN, WHOLE),
    "quadruplet on plain distances": row(
        losses.QuadrupletLoss, loops.quadruplet, WITHIN, WHOLE, margin=0.5, second_margin=0.2, distance="euclidean"
    ),
    "PDDM": row(
        losses.PDDMLoss, loops.pddm, COLUMNS, WITHIN, metric=built(layers.PositionDependentMetric(units=6, seed=0))
    ),
    "global": row(losses.GlobalLoss, loops.global_distances),
    "global, wider": row(losses.GlobalLoss, loops.global_distances, margin=0.9, weight=2.0),
    "Xing": row(losses.XingLoss, loops.xing),
    "histogram": row(losses.HistogramLoss, loops.histogram),
    "histogram of few bins": row(losses.HistogramLoss, loops.histogram, bins=7),
    "FastAP": row(losses.FastAPLoss, loops.fast_ap),
    "FastAP of many bins": row(losses.FastAPLoss, loops.fast_ap, bins=50),
    "SmoothAP": row(losses.SmoothAPLoss, loops.smooth_ap),
    "SmoothAP, smoother": row(losses.SmoothAPLoss, loops.smooth_ap, temperature=0.2),
    "PNP": row(losses.PNPLoss, loops.pnp),
    "PNP, slower by a logarithm": row(losses.PNPLoss, loops.pnp, BRANCH, variant="decreasing_log", temperature=0.1),
    "PNP, slower by a power": row(
        losses.PNPLoss, loops.pnp, BRANCH, variant="decreasing_power", temperature=0.1, alpha=2.0
    ),
    "PNP, faster by a logarithm": row(
        losses.PNPLoss, loops.pnp, BRANCH, variant="increasing_unbounded", temperature=0.1
    ),
    "PNP, faster from a square": row(
        losses.PNPLoss, loops.pnp, BRANCH, variant="increasing_bounded", temperature=0.1, b=3.0
    ),
    "ranked list": row(losses.RankedListLoss, loops.ranked_list),
    "ranked list with hard positives": row(
        losses.RankedListLoss, loops.ranked_list, margin=0.2, boundary=1.4, positive_scale=5.0, balance=0.3
    ),
    "normalized softmax": over_proxies(losses.NormalizedSoftmaxLoss, loops.normalized_softmax),
    "CosFace": over_proxies(losses.CosFaceLoss, loops.cosface),
    "CosFace, softer": over_proxies(losses.CosFaceLoss, loops.cosface, margin=0.2, scale=5.0),
    "ArcFace": over_proxies(losses.ArcFaceLoss, loops.arcface),
    "ArcFace, softer": over_proxies(losses.ArcFaceLoss, loops.arcface, margin=1.2, scale=5.0),
    "SphereFace": over_proxies(losses.SphereFaceLoss, loops.sphereface),
    "SphereFace, softer": over_proxies(losses.SphereFaceLoss, loops.sphereface, BRANCH, margin=3, scale=5.0),
    "SphereFace with the norm": over_proxies(losses.SphereFaceLoss, loops.sphereface, BRANCH, margin=2, scale="norm"),
    "sub-center ArcFace of one center": Row(
        losses.SubCenterArcFaceLoss(pairing=pairs.all_pairs, per_class=1), loops.arcface, frozenset({OVER_PROXIES})
    ),
    "MagFace": over_proxies(losses.MagFaceLoss, loops.magface),
    "MagFace of small norms": over_proxies(
        losses.MagFaceLoss, loops.magface, norms=(0.6, 1.6), margins=(0.1, 0.9), regularization=2.0, scale=5.0
    ),
    "large-margin softmax": over_proxies(losses.LargeMarginSoftmaxLoss, loops.large_margin_softmax),
    "large-margin softmax, sharper": over_proxies(
        losses.LargeMarginSoftmaxLoss, loops.large_margin_softmax, BRANCH, margin=3, scale=5.0
    ),
    "P2SGrad": over_proxies(losses.P2SGradLoss, loops.p2s_grad),
    "center": over_proxies(losses.CenterLoss, loops.center_loss),
    "ProxyNCA": over_proxies(losses.ProxyNCALoss, loops.proxy_nca),
    "ProxyNCA, positive in the denominator": over_proxies(
        losses.ProxyNCALoss, loops.proxy_nca, BRANCH, scale=9.0, positive_in_denominator=True
    ),
    "SoftTriple of one center": Row(
        losses.SoftTripleLoss(pairing=pairs.all_pairs, per_class=1),
        partial(loops.cosface, margin=0.01, scale=20.0),
        frozenset({OVER_PROXIES}),
    ),
    "proxy anchor": over_proxies(losses.ProxyAnchorLoss, loops.proxy_anchor),
    "proxy anchor, softer": over_proxies(losses.ProxyAnchorLoss, loops.proxy_anchor, margin=0.3, alpha=4.0),
    "manifold": over_proxies(losses.ManifoldLoss, loops.manifold, WHOLE),
    "manifold with other settings": over_proxies(
        losses.ManifoldLoss, loops.manifold, WHOLE, alpha=0.5, margin=0.01, context_weight=0.2
    ),
    "intra-pair variance": row(losses.IntraPairVarianceLoss, loops.intra_pair_variance),
    "intra-pair variance, wider": row(
        losses.IntraPairVarianceLoss, loops.intra_pair_variance, positive_epsilon=0.2, negative_epsilon=0.1
    ),
    "threshold consistency": row(losses.ThresholdConsistencyLoss, loops.threshold_consistency),
    "threshold consistency with other settings": row(
        losses.ThresholdConsistencyLoss,
        loops.threshold_consistency,
        positive_threshold=0.5,
        negative_threshold=-0.2,
        positive_weight=2.0,
        negative_weight=0.5,
    ),
    "clustering": row(losses.ClusteringLoss, loops.clustering, WITHIN, WHOLE),
    "clustering, greedy": row(
        losses.ClusteringLoss, loops.clustering, WITHIN, WHOLE, BRANCH, margin=4.0, refinements=0
    ),
    "coupled clusters": row(losses.CoupledClustersLoss, loops.coupled_clusters),
    "centroid triplet": row(losses.CentroidTripletLoss, loops.centroid_triplet, WITHIN),
    "centroid triplet, hard": row(
        losses.CentroidTripletLoss, loops.centroid_triplet, WITHIN, BRANCH, margin=1.0, hard=True
    ),
    "magnet": row(losses.MagnetLoss, loops.magnet, WITHIN),
    "magnet of two clusters a class": row(
        losses.MagnetLoss, loops.magnet, WITHIN, BRANCH, clusters_per_class=2, margin=3.0
    ),
    "prototypical": row(losses.PrototypicalLoss, loops.prototypical, SUPPORT_FIRST, WITHIN),
    "prototypical of two shots": row(losses.PrototypicalLoss, loops.prototypical, SUPPORT_FIRST, WITHIN, shots=2),
}
CLASSES = {type(row.loss): name for name, row in reversed(ROWS.items())}
DEFAULTS = {name: ROWS[name] for name in CLASSES.values()}
BRANCHES = {name: row for name, row in ROWS.items() if BRANCH in row.traits or row in DEFAULTS.values()}
# One row for each reduction and family: what a base class promises does not depend on the equation.
FAMILIES = {
    name: ROWS[name]
    for name in (
        "contrastive",
        "contrastive on consecutive pairs",
        "margin",
        "robust, KL",
        "matryoshka",
        "adversarial",
        "triplet, semi-hard negatives",
        "batch hard",
        "lifted structure",
        "NT-Xent",
        "CLIP",
        "quadruplet",
        "histogram",
        "SmoothAP",
        "ArcFace",
        "proxy anchor",
        "clustering",
        "prototypical",
    )
}
# JAX compiles each row: there, rows that only change a number are left out.
CHECKED = ROWS if BACKEND == "tensorflow" else BRANCHES


def each(rows, *, test=ROWS if BACKEND == "tensorflow" else DEFAULTS, ci=ROWS, slow=()):
    """Run a test for each row. Its id names the class and the row: `pytest -k NTXentLoss` runs all of a class.

    `make test` runs the rows that are in `test` and not in `slow`, CI those in `ci` as well, `make test-all` all.
    """
    quick = set(test).difference(slow)
    return pytest.mark.parametrize("row", [parameter(name, row, quick, ci) for name, row in rows.items()])


def law(rows, test=FAMILIES):
    """Run a test of what a base class or a reduction promises: each row in `make test-all`, classes of `test` first."""
    return each(rows, test=test, ci=DEFAULTS if BACKEND == "tensorflow" else {})


def parameter(name, row, quick, ci):
    """A row as a parameter of pytest."""
    marks = [] if name in quick else [pytest.mark.slow if name in ci else pytest.mark.nightly]
    return pytest.param(row, id=f"{type(row.loss).__name__}-{name.replace(' ', '-')}", marks=marks)


def having(rows, *traits):
    """The rows with all of these traits."""
    return {name: row for name, row in rows.items() if row.traits.issuperset(traits)}


def lacking(rows, *traits):
    """The rows with none of these traits."""
    return {name: row for name, row in rows.items() if row.traits.isdisjoint(traits)}


# All of 8 rows: JAX compiles each loss once for each shape.
UNEVEN = {"three classes": [0, 0, 1, 1, 1, 7, 7, 7], "one of its own": [3, 3, 3, 9, 5, 5, 6, 6]}
LARGE = np.repeat(np.arange(9), [1, 2, 3, 4, 5, 6, 2, 1, 8]).tolist()


def batch(labels, dim=5, seed=0, dtype="float32"):
    rng = np.random.default_rng(seed)
    return np.array(labels), (rng.standard_normal((len(labels), dim)) / np.sqrt(dim)).astype(dtype)


@functools.cache
def of_batch(loss, way=fast):
    """The reduced loss, its gradient, and one value per anchor, of labels, embeddings and weights of anchors."""

    def reduced(labels, x, weights):
        values = loss.call(labels, x)
        return loss.reduce(values, weights), values

    return way(lambda labels, x, weights: gradient_and_values(lambda v: reduced(labels, v, weights), x))


def evaluated(row, labels, x, weights=None, way=fast):
    """The reduced loss of a batch, its gradient, and one value per anchor, as arrays."""
    weights = np.ones(row.anchors * len(x) // 8, "float32") if weights is None else weights
    found = of_batch(row.loss, way)(*(keras.ops.convert_to_tensor(part) for part in (labels, x, weights)))
    return tuple(numbers(part) for part in found)


def values_of(row, labels, x):
    """One value per anchor, as an array."""
    return evaluated(row, labels, x)[2]
