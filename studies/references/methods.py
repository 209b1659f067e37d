"""The losses that are compared, by where their references come from, and the settings that their trials vary."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from tfdml import layers, losses, miners


class Method(NamedTuple):
    """A loss, and the settings that its trials vary.

    Attributes:
        make: function of the number of classes, then of the settings by name, that returns the loss.
        settings: one or two settings of the loss, each with its two values.
    """

    make: Callable[..., Any]
    settings: dict[str, tuple[float, float]]

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


def over_batch(make, settings, **fixed):
    """A loss whose references are the batch."""
    return Method(lambda classes, **chosen: make(**fixed, **chosen), settings)


def over_classes(make, settings, **fixed):
    """A loss that is constructed with the number of classes."""
    return Method(functools.partial(_with_classes, make, fixed), settings)


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
        "SoftTriple": over_classes(losses.SoftTripleLoss, {"scale": (10.0, 20.0), "centers": (2, 10)}),
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
}
METHODS = {name: method for family in FAMILIES.values() for name, method in family.items()}
