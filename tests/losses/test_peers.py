"""Losses beside those of pytorch-metric-learning, where the definitions agree: values and gradients.

`python -m tools.make_peer_reference` writes the file of references, and has a table of the same names. The page
docs/from-pytorch-metric-learning.md says where definitions differ.
"""

from pathlib import Path

import keras
import numpy as np
import pytest

from tests.backend import gradient, numbers
from tfdml import losses, pairs

REFERENCE = np.load(Path(__file__).with_name("peer_reference.npz"))
RTOL = {
    "histogram": 2e-5,  # the peer computes bins in float32
    "ranked list": 2e-4,  # the peer adds 1e-5 to the weight of every row in its divisors
    "SmoothAP": 1e-5,  # the peer computes ranks in float32
}


FACTORS = {"P2SGrad": 2 / 3}  # the peer has the mean over classes of the squares, here it is the sum of their halves


def with_itself(labels, embeddings):
    """Every row against every row, in which a row is a positive of its own, as in some losses of the peer."""
    return pairs.pairs_with(labels, embeddings, labels, embeddings)


def unit(loss):
    """The values of a loss of embeddings scaled to norm 1, as the peer scales them in its distances."""
    return lambda labels, x: loss.on_pairs(pairs.normalized(loss.pair(labels, x)))


PAIRS = {
    "angular": losses.AngularLoss(angle_degrees=45).call,
    "circle": losses.CircleLoss(margin=0.4, scale=8.0).call,
    "dynamic soft margin": losses.DynamicSoftMarginLoss(bins=10, negatives=None).call,
    "FastAP": losses.FastAPLoss(bins=10).call,
    "generalized lifted": unit(losses.GeneralizedLiftedLoss(margin=1.0)),
    "histogram": losses.HistogramLoss(bins=200).call,
    "instance": lambda labels, x: losses.InstanceLoss(scale=8.0).call(np.arange(len(x)), x),
    "intra-pair variance": losses.IntraPairVarianceLoss(positive_epsilon=0.02, negative_epsilon=0.01).call,
    "lifted structure": unit(losses.LiftedStructureLoss(margin=1.0)),
    "multi-similarity": losses.MultiSimilarityLoss(alpha=2.0, beta=50.0, threshold=0.5).call,
    "n-pairs": unit(losses.NPairsLoss(pairing=pairs.even_against_odd)),
    "NCA": unit(losses.NCALoss(log=True)),
    "NT-Xent": losses.NTXentLoss(temperature=0.2).call,
    "PNP O": losses.PNPLoss(temperature=0.1, pairing=with_itself).call,
    "PNP Ds": losses.PNPLoss(temperature=0.1, variant="decreasing_log", pairing=with_itself).call,
    "PNP Dq": losses.PNPLoss(temperature=0.1, variant="decreasing_power", alpha=2.0, pairing=with_itself).call,
    "PNP Iu": losses.PNPLoss(temperature=0.1, variant="increasing_unbounded", pairing=with_itself).call,
    "PNP Ib": losses.PNPLoss(temperature=0.1, variant="increasing_bounded", b=3.0, pairing=with_itself).call,
    "ranked list": losses.RankedListLoss(margin=0.4, boundary=1.2, scale=0.0).call,
    "SmoothAP": losses.SmoothAPLoss(temperature=0.1, pairing=with_itself).call,
    "SupCon": losses.SupConLoss(temperature=0.1).call,
    "threshold consistency": losses.ThresholdConsistencyLoss().call,
    "triplet": unit(losses.TripletLoss(margin=0.2, distance="euclidean", normalize="active")),
    "triplet, all": unit(losses.TripletLoss(margin=0.2)),
    "triplet, soft": unit(losses.TripletLoss(soft=True, distance="euclidean")),
    "triplet, swapped": unit(losses.TripletLoss(margin=0.2, distance="euclidean", swap=True)),
    "triplet, signal-to-noise ratio": unit(losses.TripletLoss(margin=0.05, distance="snr")),
    "tuplet margin": losses.TupletMarginLoss(margin_degrees=5.73, scale=16.0).call,
    "two views": losses.NTXentLoss(temperature=0.2, pairing=pairs.two_views).call,
    "weighted sum": losses.WeightedSumLoss([losses.MultiSimilarityLoss(), losses.FastAPLoss()], weights=[2, 3]).call,
}
OVER_PROXIES = {
    "ArcFace": losses.ArcFaceLoss(scale=16.0, pairing=with_itself),
    "CosFace": losses.CosFaceLoss(scale=16.0, pairing=with_itself),
    "large-margin softmax": losses.LargeMarginSoftmaxLoss(margin=3, scale=2.0, pairing=with_itself),
    "manifold": losses.ManifoldLoss(margin=0.01, pairing=with_itself),
    "normalized softmax": losses.NormalizedSoftmaxLoss(scale=16.0, pairing=with_itself),
    "P2SGrad": losses.P2SGradLoss(pairing=with_itself),
    "proxy anchor": losses.ProxyAnchorLoss(alpha=8.0, pairing=with_itself),
    "ProxyNCA": losses.ProxyNCALoss(scale=3.0, positive_in_denominator=True, pairing=with_itself),
    "SoftTriple": losses.SoftTripleLoss(per_class=2, nu=0.0, pairing=with_itself),
    "SphereFace": losses.SphereFaceLoss(scale=16.0, pairing=with_itself),
    "sub-center ArcFace": losses.SubCenterArcFaceLoss(per_class=2, scale=16.0, pairing=with_itself),
}
COMPARED = {**PAIRS, **OVER_PROXIES}
RESULTS = [name for name in REFERENCE if name.partition(" of ")[0] in COMPARED]


def value_and_gradient(values, x):
    """The mean over anchors and its gradient, side by side."""
    value = numbers(values(keras.ops.convert_to_tensor(x))).mean()
    return np.r_[value, gradient(lambda v: keras.ops.mean(values(v)), x).ravel()]


def over_proxies(loss, labels, rows):
    """The values of a loss as a function of embeddings and, below them, proxies of three classes."""

    def values(x):
        ids = np.repeat(np.arange(3), (len(x) - rows) // 3)
        return loss.on_pairs(pairs.pairs_with(labels, x[:rows], ids, x[rows:]))

    return values


@pytest.mark.parametrize("result", RESULTS)
def test_values_and_gradients_are_those_of_the_peer(result):
    name, _, batch = result.partition(" of ")
    labels, x, expected = REFERENCE[f"labels of {batch}"], REFERENCE[f"embeddings of {batch}"], REFERENCE[result]
    if name in PAIRS:
        found = value_and_gradient(lambda v: PAIRS[name](labels, v), x)
    else:
        proxies = REFERENCE[f"{OVER_PROXIES[name].settings.get('per_class', 1)} proxies per class"]
        found = value_and_gradient(over_proxies(OVER_PROXIES[name], labels, len(x)), np.concatenate([x, proxies]))
    found = FACTORS.get(name, 1.0) * found
    rtol = RTOL.get(name, 1e-6)
    np.testing.assert_allclose(found[: len(expected)], expected, rtol=rtol, atol=rtol * np.abs(expected).max())


def test_every_reference_is_compared():
    inputs = [name for name in REFERENCE if name.startswith(("labels of", "embeddings of")) or "per class" in name]
    assert sorted([*RESULTS, *inputs]) == sorted(REFERENCE)
    assert len(inputs) == 8
