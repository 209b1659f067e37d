"""The losses that are compared, by where their references come from, and the settings that their trials vary."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from studies.references import outputs
from tfdml import layers, losses, miners, pairs


class Method(NamedTuple):
    """A loss, and the settings that its trials vary.

    Attributes:
        make: function of the number of classes, then of the settings by name, that returns the loss.
        settings: one or two settings of the loss, each with its two values.
        outputs: function of the feature maps of the network that returns the embedding.
    """

    make: Callable[..., Any]
    settings: dict[str, tuple[float, float]]
    outputs: Callable[..., Any] = outputs.unit_vectors

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


def over_batch(make, settings, *, outputs=outputs.unit_vectors, **fixed):
    """A loss whose references are the batch."""
    return Method(lambda classes, **chosen: make(**fixed, **chosen), settings, outputs)


def over_classes(make, settings, *, outputs=outputs.unit_vectors, **fixed):
    """A loss that is constructed with the number of classes."""
    return Method(functools.partial(_with_classes, make, fixed), settings, outputs)


def _with_classes(make, fixed, classes, **chosen):
    return make(classes=classes, **fixed, **chosen)


def over_proxies(make, settings):
    """A loss of pairs whose references are one proxy per class."""
    return Method(lambda classes, **chosen: make(pairing=layers.Proxies(classes), **chosen), settings)


def over_memory(make, settings):
    """A loss of pairs whose references are the batch and a memory of earlier batches."""
    sizes = {"size": (1024, 4096)}
    return Method(functools.partial(_with_memory, make), {**settings, **sizes})


def _with_memory(make, classes, *, size, **chosen):
    return make(pairing=layers.Memory(size, warm_up=100), **chosen)


def learned_margin(classes, *, boundary, **chosen):
    """The margin loss with distance-weighted negatives and a learned boundary per class."""
    boundaries = layers.Boundaries(boundary, class_ids=range(classes))
    return losses.MarginLoss(boundary=boundaries, miner=miners.DistanceWeighted(expectation=True), **chosen)


def magface(classes, *, margin, scale):
    """MagFace with norms and regularization of a tenth of its defaults, which are meant for larger embeddings."""
    margins = (margin, margin + 0.35)
    return losses.MagFaceLoss(classes=classes, norms=(1, 11), margins=margins, regularization=3.5, scale=scale)


def with_centers(classes, *, weight, **chosen):
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


def over_tree(classes, **chosen):
    """The hierarchical triplet loss, whose tree is rebuilt during training."""
    return losses.HierarchicalTripletLoss(layers.ClassTree(range(classes)), **chosen)


def nested(**chosen):
    """The multi-similarity loss of the first 8, 16, 32 and of all 64 columns."""
    return losses.MatryoshkaLoss(losses.MultiSimilarityLoss(**chosen), dims=(8, 16, 32, 64))


def cascade(*, share, **chosen):
    """The contrastive loss of two learners, the second on the hardest pairs of the first."""
    return losses.CascadeLoss(losses.ContrastiveLoss(**chosen), dims=outputs.TWO, shares=(share,))


def diverse(*, weight, **chosen):
    """The contrastive loss of four learners, which are pushed apart."""
    return losses.DivergenceLoss(losses.ContrastiveLoss(**chosen), dims=outputs.FOUR, weight=weight)


MARGINS = {"negative_margin": (0.5, 1.0)}
SCALES = {"scale": (16.0, 32.0)}
TEMPERATURES = {"temperature": (0.07, 0.2)}
SIMILARITIES = {"threshold": (0.5, 0.7)}

FAMILIES = {
    "batch": {
        "contrastive": over_batch(losses.ContrastiveLoss, MARGINS),
        "triplet": over_batch(losses.TripletLoss, {"margin": (0.2, 0.5)}, normalize="active"),
        "semi-hard triplet": over_batch(
            losses.TripletLoss, {"margin": (0.2, 0.5)}, negatives=miners.semi_hard_negatives
        ),
        "margin": Method(learned_margin, {"boundary": (0.8, 1.2)}),
        "multi-similarity": over_batch(losses.MultiSimilarityLoss, SIMILARITIES),
        "NT-Xent": over_batch(losses.NTXentLoss, TEMPERATURES),
        "SupCon": over_batch(losses.SupConLoss, TEMPERATURES),
    },
    "softmax": {
        "normalized softmax": over_classes(losses.NormalizedSoftmaxLoss, SCALES),
        "CosFace": over_classes(losses.CosFaceLoss, {**SCALES, "margin": (0.1, 0.35)}),
        "ArcFace": over_classes(losses.ArcFaceLoss, {**SCALES, "margin": (0.2, 0.5)}),
        "SphereFace": over_classes(losses.SphereFaceLoss, {**SCALES, "margin": (2, 4)}),
        "sub-center ArcFace": over_classes(losses.SubCenterArcFaceLoss, {**SCALES, "margin": (0.2, 0.5)}),
        "MagFace": Method(magface, {**SCALES, "margin": (0.2, 0.45)}, outputs.vectors),
        "large-margin softmax": over_classes(
            losses.LargeMarginSoftmaxLoss, {"scale": (1.0, 4.0), "margin": (2, 4)}, outputs=outputs.vectors
        ),
        "P2SGrad": over_classes(losses.P2SGradLoss, {"per_class": (1, 2)}),
        "softmax and centers": Method(with_centers, {**SCALES, "weight": (0.1, 1.0)}),
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
