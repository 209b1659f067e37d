"""The methods that are compared: a loss with the settings that its trials vary, its miner, and its batches."""

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import tfdml
from studies.leaderboard import outputs
from tfdml import layers, losses, miners, pairs

IN_BATCH = 128  # images
PER_CLASS = 4
DISTANCE_WEIGHTED = functools.partial(miners.DistanceWeighted, expectation=True)
RANDOM_PAIRS = functools.partial(miners.BalancedPairs, seed=0)
SEMI_HARD = functools.partial(miners.SemiHard, min_distance=0.5)
VALID_TRIPLETS = functools.partial(miners.ValidTriplets, margin=0.1)

MARGINS = {"negative_margin": (0.5, 1.0)}
TRIPLET_MARGINS = {"margin": (0.2, 0.5)}
SCALES = {"scale": (16.0, 32.0)}
TEMPERATURES = {"temperature": (0.07, 0.2)}
SIMILARITIES = {"threshold": (0.5, 0.7)}
PAIRS = {"k": (4 * IN_BATCH, 16 * IN_BATCH)}  # ordered pairs


class Method(NamedTuple):
    """A loss, and the settings that its trials vary.

    Attributes:
        make: function of the training labels, then of the settings by name, that returns the loss.
        settings: one or two settings of the loss, each with its two values.
        outputs: function of the feature maps of the network that returns the embedding.
        per_class: examples of each class in a batch; None for examples that are drawn uniformly.
    """

    make: Callable[..., Any]
    settings: dict[str, tuple[float, float]]
    outputs: Callable[..., Any] = outputs.unit_vectors
    per_class: int | None = PER_CLASS

    def trials(self, rates):
        """Four trials: pairs of one of the two learning rates and a dict of settings.

        With one setting, these are all combinations with the rates. With two, they are half of the combinations: those
        in which every two values stand together once.
        """
        places = [(i, (j, (i + j) % 2)) for i in range(2) for j in range(2)]
        return [
            (rates[i], {name: pair[k] for (name, pair), k in zip(self.settings.items(), at, strict=False)})
            for i, at in places
        ]

    def sampler(self, run):
        """The sampler of a run: its images in classes of `per_class` examples."""
        images = run.classes_per_batch * PER_CLASS
        if self.per_class is None:
            return tfdml.samplers.UniformSampler(batch_size=images, seed=run.seed)
        return tfdml.samplers.GroupSampler(
            classes_per_batch=images // self.per_class, examples_per_class=self.per_class, seed=run.seed
        )

    def starts(self):
        """The starts of the method: learners over a map of positions have no trained one."""
        return ("random",) if self.outputs is outputs.attention else ("random", "trained")


class Grid(Method):
    """A method whose trials are all combinations of its values with the two rates and a higher one."""

    def trials(self, rates):
        """Pairs of a learning rate and a dict of settings."""
        values = list(itertools.product(*self.settings.values()))
        return [
            (rate, dict(zip(self.settings, some, strict=True))) for rate in (*rates, 3 * rates[-1]) for some in values
        ]


def over_batch(make, settings, *, outputs=outputs.unit_vectors, per_class=PER_CLASS, **fixed):
    """A loss whose references are the batch."""
    return Method(lambda labels, **chosen: make(**fixed, **chosen), settings, outputs, per_class)


def with_miner(make, make_miner, settings):
    """A loss over the pairs that a miner keeps; each loss has a miner of its own, which may have a random state."""
    return over_batch(lambda **chosen: make(miner=make_miner(), **chosen), settings)


def with_negatives(make_selector):
    """The triplet loss with one negative for each positive pair."""
    return over_batch(lambda **chosen: losses.TripletLoss(negatives=make_selector(), **chosen), TRIPLET_MARGINS)


def with_boundaries(make_miner):
    """The margin loss with a learned boundary per class."""
    return Method(functools.partial(learned_margin, make_miner), {"boundary": (0.8, 1.2)})


def over_classes(make, settings, *, outputs=outputs.unit_vectors, **fixed):
    """A loss that is constructed with the number of classes."""
    return Method(functools.partial(_with_classes, make, fixed), settings, outputs)


def _with_classes(make, fixed, labels, **chosen):
    return make(classes=int(labels.max()) + 1, **fixed, **chosen)


def over_proxies(make, settings):
    """A loss of pairs whose references are one proxy per class."""
    return Method(
        lambda labels, **chosen: make(pairing=layers.Proxies(int(labels.max()) + 1), **chosen),
        settings,
    )


def over_memory(make, settings):
    """A loss of pairs whose references are the batch and a memory of earlier batches."""
    sizes = {"size": (1024, 4096)}
    return Method(functools.partial(_with_memory, make), {**settings, **sizes})


def _with_memory(make, labels, *, size, **chosen):
    return make(pairing=layers.Memory(size, warm_up=100), **chosen)


def learned_margin(make_miner, labels, *, boundary):
    """The margin loss with a learned boundary per class."""
    boundaries = layers.Boundaries(boundary, class_ids=range(int(labels.max()) + 1))
    return losses.MarginLoss(boundary=boundaries, miner=make_miner())


def weighted(make, labels, **chosen):
    """A loss with importance weights, for the batches of four examples of each class."""
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=IN_BATCH // PER_CLASS, examples_per_class=PER_CLASS)
    return make(labels, importance=sampler.importance(labels), **chosen)


def balanced(labels, **chosen):
    """The balanced contrastive loss of classes of these sizes."""
    return losses.BalancedContrastiveLoss(class_counts=np.bincount(labels), **chosen)


def contrastive(labels, **chosen):
    """The contrastive loss."""
    return losses.ContrastiveLoss(**chosen)


def magface(*, classes, margin, scale):
    """MagFace with norms and regularization of a tenth of its defaults, which are meant for larger embeddings."""
    margins = (margin, margin + 0.35)
    return losses.MagFaceLoss(classes=classes, norms=(1, 11), margins=margins, regularization=3.5, scale=scale)


def with_centers(*, classes, weight, **chosen):
    """The normalized softmax and the center loss."""
    parts = [losses.NormalizedSoftmaxLoss(classes=classes, **chosen), losses.CenterLoss(classes=classes)]
    return losses.WeightedSumLoss(parts, weights=[1.0, weight])


def with_instances(*, scale, weight):
    """The triplet loss and the instance loss."""
    parts = [losses.TripletLoss(normalize="active"), losses.InstanceLoss(scale=scale)]
    return losses.WeightedSumLoss(parts, weights=[1.0, weight])


def with_variance(*, scale, weight):
    """The tuplet margin loss and the intra-pair variance loss."""
    parts = [losses.TupletMarginLoss(scale=scale), losses.IntraPairVarianceLoss()]
    return losses.WeightedSumLoss(parts, weights=[1.0, weight])


def with_thresholds(*, threshold, weight):
    """The multi-similarity loss and the threshold-consistent margin loss."""
    parts = [losses.MultiSimilarityLoss(threshold=threshold), losses.ThresholdConsistencyLoss()]
    return losses.WeightedSumLoss(parts, weights=[1.0, weight])


def over_tree(labels, **chosen):
    """The hierarchical triplet loss, whose tree is rebuilt during training."""
    return losses.HierarchicalTripletLoss(layers.ClassTree(range(int(labels.max()) + 1)), **chosen)


def nested(**chosen):
    """The multi-similarity loss of the first 8, 16, 32 and of all 64 columns."""
    return losses.MatryoshkaLoss(losses.MultiSimilarityLoss(**chosen), dims=(8, 16, 32, 64))


def cascade(*, share, **chosen):
    """The contrastive loss of two learners, the second on the hardest pairs of the first."""
    return losses.CascadeLoss(losses.ContrastiveLoss(**chosen), dims=outputs.TWO, shares=(share,))


def diverse(*, weight, **chosen):
    """The contrastive loss of four learners, which are pushed apart."""
    return losses.DivergenceLoss(losses.ContrastiveLoss(**chosen), dims=outputs.FOUR, weight=weight)


def raw(*, miner_margin=0.1, **chosen):
    """RAW with a margin of its miner."""
    return losses.RAWLoss(miner=miners.ValidTriplets(margin=miner_margin), **chosen)


def robust(make, *, threshold, **chosen):
    """The margin loss on similarities under an uncertainty set."""
    base = losses.MarginLoss(margin=0.2, boundary=threshold, distance="cosine")
    return losses.RobustLoss(base, uncertainty=make(**chosen))


def robust_binomial(make, *, threshold, **chosen):
    """The binomial deviance under an uncertainty set."""
    return losses.RobustLoss(losses.BinomialDevianceLoss(threshold=threshold), uncertainty=make(**chosen))


FAMILIES = {
    "batch": {
        "contrastive": over_batch(losses.ContrastiveLoss, MARGINS),
        "triplet": over_batch(losses.TripletLoss, TRIPLET_MARGINS, normalize="active"),
        "semi-hard triplet": over_batch(losses.TripletLoss, TRIPLET_MARGINS, negatives=miners.semi_hard_negatives),
        "margin": with_boundaries(DISTANCE_WEIGHTED),
        "multi-similarity": over_batch(losses.MultiSimilarityLoss, SIMILARITIES),
        "NT-Xent": over_batch(losses.NTXentLoss, TEMPERATURES),
        "SupCon": over_batch(losses.SupConLoss, TEMPERATURES),
    },
    "pairs": {
        "n-pairs": over_batch(losses.NPairsLoss, {"l2": (0.002, 0.02)}, outputs=outputs.vectors, per_class=2),
        "lifted structure": over_batch(losses.LiftedStructureLoss, {"margin": (0.5, 1.0)}),
        "generalized lifted": over_batch(losses.GeneralizedLiftedLoss, {"margin": (0.5, 1.0)}),
        "binomial deviance": over_batch(losses.BinomialDevianceLoss, SIMILARITIES),
        "angular": over_batch(losses.AngularLoss, {"angle_degrees": (36.0, 45.0)}, per_class=2),
        "NCA": over_batch(losses.NCALoss, {"log": (False, True)}, outputs=outputs.vectors),
        "balanced contrastive": Method(
            functools.partial(weighted, balanced), {"negatives_per_positive": (16.0, 256.0), "margin": (0.5, 1.0)}
        ),
        "weighted contrastive": Method(functools.partial(weighted, contrastive), MARGINS),
        "cosine contrastive": over_batch(losses.CosineContrastiveLoss, {"threshold": (0.3, 0.5)}),
        "distance logistic": over_batch(losses.DistanceLogisticLoss, {"margin": (0.5, 1.0)}),
        "circle": over_batch(losses.CircleLoss, {"margin": (0.25, 0.4), "scale": (32.0, 80.0)}),
        "tuplet margin": over_batch(losses.TupletMarginLoss, {"scale": (16.0, 64.0)}),
    },
    "triplets": {
        "triplet ratio": over_batch(losses.TripletLoss, {"swap": (False, True)}, ratio=True),
        "soft triplet": over_batch(losses.TripletLoss, {"swap": (False, True)}, soft=True),
        "batch hard": over_batch(losses.BatchHardTripletLoss, TRIPLET_MARGINS),
        "quadruplet": over_batch(losses.QuadrupletLoss, {"margin": (0.5, 1.0), "second_margin": (0.25, 0.5)}),
        "HAP2S, exponential": over_batch(losses.HAP2SLoss, {**TRIPLET_MARGINS, "temperature": (0.1, 0.5)}),
        "HAP2S, polynomial": over_batch(
            losses.HAP2SLoss, {**TRIPLET_MARGINS, "alpha": (5.0, 10.0)}, weighting="polynomial"
        ),
        "LMNN": over_batch(losses.LMNNLoss, {"margin": (0.5, 1.0), "mu": (0.3, 0.5)}),
    },
    "rankings": {
        "histogram": over_batch(losses.HistogramLoss, {"bins": (50, 100)}),
        "ranked list": over_batch(losses.RankedListLoss, {"boundary": (1.0, 1.2), "scale": (5.0, 10.0)}),
        "FastAP": over_batch(losses.FastAPLoss, {"bins": (10, 20)}),
        "smooth AP": over_batch(losses.SmoothAPLoss, {"temperature": (0.01, 0.05)}),
        "global": over_batch(losses.GlobalLoss, {"margin": (0.4, 0.8), "weight": (0.4, 0.8)}),
    },
    "clusters": {
        "prototypical": over_batch(losses.PrototypicalLoss, {"shots": (1, 2)}, outputs=outputs.vectors),
        "coupled clusters": over_batch(losses.CoupledClustersLoss, TRIPLET_MARGINS),
        "centroid triplet": over_batch(losses.CentroidTripletLoss, {"margin": (0.3, 0.6)}),
    },
    "robust": {
        "TopK": over_batch(functools.partial(robust, losses.uncertainty.TopK), {**SIMILARITIES, **PAIRS}),
        "TopK-PN": over_batch(functools.partial(robust, losses.uncertainty.TopKBalanced), {**SIMILARITIES, **PAIRS}),
        "KL": over_batch(functools.partial(robust, losses.uncertainty.KL), {**SIMILARITIES, "gamma": (0.1, 1.0)}),
        "grouped KL": over_batch(
            functools.partial(robust, losses.uncertainty.GroupedKL), {**SIMILARITIES, "gamma": (0.01, 0.1)}
        ),
        "TopK of binomial": over_batch(
            functools.partial(robust_binomial, losses.uncertainty.TopK), {**SIMILARITIES, **PAIRS}
        ),
        "TopK-PN of binomial": over_batch(
            functools.partial(robust_binomial, losses.uncertainty.TopKBalanced), {**SIMILARITIES, **PAIRS}
        ),
    },
    "mining": {
        "RAW": over_batch(raw, SIMILARITIES),
        "RAW, semi-hard": with_miner(losses.MultiSimilarityLoss, SEMI_HARD, SIMILARITIES),
        "RAW, distance weighted": with_miner(losses.MultiSimilarityLoss, DISTANCE_WEIGHTED, SIMILARITIES),
        "RAW, angular": with_miner(losses.MultiSimilarityLoss, miners.Angular, SIMILARITIES),
        "binomial, valid triplets": with_miner(losses.BinomialDevianceLoss, VALID_TRIPLETS, SIMILARITIES),
        "contrastive, valid triplets": with_miner(losses.ContrastiveLoss, VALID_TRIPLETS, MARGINS),
        "contrastive, random": with_miner(losses.ContrastiveLoss, RANDOM_PAIRS, MARGINS),
        "contrastive, semi-hard": with_miner(losses.ContrastiveLoss, SEMI_HARD, MARGINS),
        "contrastive, distance weighted": with_miner(losses.ContrastiveLoss, DISTANCE_WEIGHTED, MARGINS),
        "margin, random": with_boundaries(RANDOM_PAIRS),
        "margin, semi-hard": with_boundaries(SEMI_HARD),
        "margin, all pairs": with_boundaries(lambda: None),
        "triplet, random": with_negatives(functools.partial(miners.RandomNegatives, seed=0)),
        "triplet, hardest": with_negatives(lambda: miners.hardest_negatives),
        "triplet, distance weighted": with_negatives(functools.partial(miners.DistanceWeightedNegatives, seed=0)),
        "NT-Xent, easy positives": with_miner(losses.NTXentLoss, miners.EasyPositives, TEMPERATURES),
    },
    "batches": {
        "contrastive, 2 per class": over_batch(losses.ContrastiveLoss, MARGINS, per_class=2),
        "NT-Xent, 2 per class": over_batch(losses.NTXentLoss, TEMPERATURES, per_class=2),
        "multi-similarity, 2 per class": over_batch(losses.MultiSimilarityLoss, SIMILARITIES, per_class=2),
        "multi-similarity, 8 per class": over_batch(losses.MultiSimilarityLoss, SIMILARITIES, per_class=8),
        "multi-similarity, uniform": over_batch(losses.MultiSimilarityLoss, SIMILARITIES, per_class=None),
        "softmax, uniform": over_classes(losses.NormalizedSoftmaxLoss, SCALES)._replace(per_class=None),
    },
    "softmax": {
        "normalized softmax": over_classes(losses.NormalizedSoftmaxLoss, SCALES),
        "CosFace": over_classes(losses.CosFaceLoss, {**SCALES, "margin": (0.1, 0.35)}),
        "ArcFace": over_classes(losses.ArcFaceLoss, {**SCALES, "margin": (0.2, 0.5)}),
        "SphereFace": over_classes(losses.SphereFaceLoss, {**SCALES, "margin": (2, 4)}),
        "sub-center ArcFace": over_classes(losses.SubCenterArcFaceLoss, {**SCALES, "margin": (0.2, 0.5)}),
        "MagFace": over_classes(magface, {**SCALES, "margin": (0.2, 0.45)}, outputs=outputs.vectors),
        "large-margin softmax": over_classes(
            losses.LargeMarginSoftmaxLoss, {"scale": (1.0, 4.0), "margin": (2, 4)}, outputs=outputs.vectors
        ),
        "P2SGrad": over_classes(losses.P2SGradLoss, {"per_class": (1, 2)}),
        "softmax and centers": over_classes(with_centers, {**SCALES, "weight": (0.1, 1.0)}),
        "SoftTriple": over_classes(losses.SoftTripleLoss, {"scale": (10.0, 20.0), "per_class": (2, 10)}),
    },
    "proxies": {
        "ProxyNCA": over_classes(losses.ProxyNCALoss, {"scale": (3.0, 9.0)}),
        "ProxyNCA++": over_classes(losses.ProxyNCALoss, {"scale": (3.0, 9.0)}, positive_in_denominator=True),
        "proxy anchor": over_classes(losses.ProxyAnchorLoss, {"alpha": (16.0, 32.0)}),
        "NT-Xent over proxies": over_proxies(losses.NTXentLoss, TEMPERATURES),
        "multi-similarity over proxies": over_proxies(losses.MultiSimilarityLoss, SIMILARITIES),
    },
    "memory": {
        "contrastive with memory": over_memory(losses.ContrastiveLoss, MARGINS),
        "multi-similarity with memory": over_memory(losses.MultiSimilarityLoss, SIMILARITIES),
    },
    "further": {
        "SNR contrastive": over_batch(
            losses.ContrastiveLoss, {"positive_margin": (0.0, 0.1), **MARGINS}, distance=pairs.snr
        ),
        "PNP": over_batch(
            losses.PNPLoss, {"temperature": (0.01, 0.05), "alpha": (1.0, 4.0)}, variant="decreasing_power"
        ),
        "dynamic soft margin": over_batch(losses.DynamicSoftMarginLoss, {"momentum": (0.01, 0.1)}),
        "intra-pair variance": over_batch(with_variance, {"scale": (16.0, 64.0), "weight": (0.1, 0.5)}),
        "threshold consistency": over_batch(with_thresholds, {**SIMILARITIES, "weight": (0.1, 1.0)}),
        "instance": over_batch(with_instances, {"scale": (16.0, 64.0), "weight": (0.1, 1.0)}),
        "hierarchical triplet": Method(over_tree, {"margin": (0.1, 0.3)}),
        "PDDM": over_batch(losses.PDDMLoss, {"margin": (0.5, 1.0), "weight": (0.5, 1.0)}),
        "clustering": over_batch(losses.ClusteringLoss, {"margin": (1.0, 4.0)}, refinements=0),
    },
    "learners": {
        "Matryoshka": over_batch(nested, SIMILARITIES),
        "cascade (HDC)": over_batch(cascade, {**MARGINS, "share": (0.2, 0.5)}, outputs=outputs.cascade),
        "boosted (BIER)": over_batch(
            losses.BoostedLoss, {"threshold": (0.3, 0.5)}, outputs=outputs.boosted, dims=outputs.THREE
        ),
        "attention (ABE)": over_batch(diverse, {**MARGINS, "weight": (0.1, 1.0)}, outputs=outputs.attention),
    },
}
METHODS = {name: method for family in FAMILIES.values() for name, method in family.items()}

# Methods that whole networks alone are trained with.
OF_WHOLE_NETWORKS = {
    "balanced contrastive, no weights": Method(
        balanced, METHODS["balanced contrastive"].settings, METHODS["balanced contrastive"].outputs
    )
}

# Robust losses with the values of their paper and beyond, and other methods with as many trials.
GRIDS = {
    f"{name}, 24 trials": Grid(METHODS[name].make, {**SIMILARITIES, **values})
    for name, values in {
        **{name: {"k": (512, 1024, 2048, 4096)} for name in ("TopK", "TopK-PN")},
        "KL": {"gamma": (0.1, 0.3, 1.0, 3.0)},
        "RAW": {"miner_margin": (0.05, 0.1, 0.2, 0.4)},
        "multi-similarity": {"beta": (20.0, 35.0, 50.0, 80.0)},
    }.items()
}
