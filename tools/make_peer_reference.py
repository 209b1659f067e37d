"""Makes tests/losses/peer_reference.npz: values and gradients of the losses of pytorch-metric-learning, in float64.

    pip install -r requirements/peers.lock    # torch, pytorch-metric-learning
    python -m tools.make_peer_reference

The table below has a line for each loss whose definition agrees with one of tfdml; `tests/losses/test_peers.py` has the
same names. Batches and proxies are drawn from seeds and stand in the file. Embeddings are scaled to norm 1 in front of
the losses of `UNIT`, and the gradient is taken with respect to the embeddings before that.
"""

import copy
from pathlib import Path

import numpy as np
import torch
from pytorch_metric_learning import distances, losses, reducers
from torch.nn import functional

FILE = Path(__file__).parent.parent / "tests" / "losses" / "peer_reference.npz"
DIM, CLASSES, CENTERS = 5, 3, 2
LABELS = {"even": [0, 0, 0, 1, 1, 1, 2, 2, 2], "pairs": [0, 0, 1, 1, 2, 2], "uneven": [2, 0, 1, 0, 2, 2, 1, 2]}
OF_CLASSES = {"num_classes": CLASSES, "embedding_size": DIM}


def mean(loss, **options):
    """A loss with the mean over all of its terms, where the default may be over those above 0."""
    return loss(reducer=reducers.MeanReducer(), **options)


# By name: the batches on which the definitions agree, and the loss.
EVERY, EVEN = ("even", "uneven"), ("even",)
PAIRS = {
    "angular": (EVERY, losses.AngularLoss(alpha=45)),
    "circle": (EVERY, mean(losses.CircleLoss, m=0.4, gamma=8.0)),
    "dynamic soft margin": (EVERY, losses.DynamicSoftMarginLoss(num_bins=10)),
    "FastAP": (EVERY, losses.FastAPLoss(num_bins=10)),
    "generalized lifted": (EVERY, losses.GeneralizedLiftedStructureLoss(neg_margin=1.0)),
    "histogram": (EVERY, losses.HistogramLoss(n_bins=200)),
    "instance": (("pairs",), losses.InstanceLoss(gamma=8)),
    "intra-pair variance": (EVERY, losses.IntraPairVarianceLoss(pos_eps=0.02, neg_eps=0.01)),
    "lifted structure": (EVERY, losses.LiftedStructureLoss(neg_margin=1.0)),
    "multi-similarity": (EVERY, losses.MultiSimilarityLoss(alpha=2.0, beta=50.0, base=0.5)),
    "n-pairs": (("pairs",), losses.NPairsLoss()),
    "NCA": (EVERY, losses.NCALoss()),
    "NT-Xent": (EVEN, losses.NTXentLoss(temperature=0.2)),
    "PNP O": (EVERY, losses.PNPLoss(anneal=0.1)),
    "PNP Ds": (EVERY, losses.PNPLoss(anneal=0.1, variant="Ds")),
    "PNP Dq": (EVERY, losses.PNPLoss(anneal=0.1, variant="Dq", alpha=2)),
    "PNP Iu": (EVERY, losses.PNPLoss(anneal=0.1, variant="Iu")),
    "PNP Ib": (EVERY, losses.PNPLoss(anneal=0.1, variant="Ib", b=3)),
    "ranked list": (EVERY, losses.RankedListLoss(margin=0.4, Tn=0, alpha=1.2)),
    "SmoothAP": (EVEN, losses.SmoothAPLoss(temperature=0.1)),
    "SupCon": (EVERY, mean(losses.SupConLoss, temperature=0.1)),
    "threshold consistency": (EVERY, losses.ThresholdConsistentMarginLoss()),
    "triplet": (EVERY, losses.TripletMarginLoss(margin=0.2)),
    "triplet, all": (EVERY, mean(losses.TripletMarginLoss, margin=0.2, distance=distances.LpDistance(power=2))),
    "triplet, soft": (EVERY, mean(losses.TripletMarginLoss, margin=0.0, smooth_loss=True)),
    "triplet, swapped": (EVERY, mean(losses.TripletMarginLoss, margin=0.2, swap=True)),
    "triplet, signal-to-noise ratio": (EVERY, mean(losses.TripletMarginLoss, distance=distances.SNRDistance())),
    "tuplet margin": (EVEN, losses.TupletMarginLoss(margin=5.73, scale=16.0)),
    "two views": (("pairs",), losses.SelfSupervisedLoss(losses.NTXentLoss(temperature=0.2))),
    "weighted sum": (EVERY, losses.MultipleLosses([losses.MultiSimilarityLoss(), losses.FastAPLoss()], weights=[2, 3])),
}
UNIT = {"angular", "SphereFace"}
SEVERAL_CENTERS = {"SoftTriple", "sub-center ArcFace"}
WITHOUT_GRADIENT = {"dynamic soft margin"}  # it also flows through the histogram, and only in the first step
EMBEDDINGS_ONLY = {"P2SGrad"}  # scales its proxies to norm 1 before each step, not in it
PROXIES = {
    "ArcFace": losses.ArcFaceLoss(margin=np.degrees(0.5), scale=16.0, **OF_CLASSES),
    "CosFace": losses.CosFaceLoss(margin=0.35, scale=16.0, **OF_CLASSES),
    "large-margin softmax": losses.LargeMarginSoftmaxLoss(margin=3, scale=2.0, **OF_CLASSES),
    "manifold": losses.ManifoldLoss(l=DIM, K=CLASSES, margin=0.01),
    "normalized softmax": losses.NormalizedSoftmaxLoss(temperature=1 / 16, **OF_CLASSES),
    "P2SGrad": losses.P2SGradLoss(descriptors_dim=DIM, num_classes=CLASSES),
    "proxy anchor": losses.ProxyAnchorLoss(margin=0.1, alpha=8.0, **OF_CLASSES),
    "ProxyNCA": losses.ProxyNCALoss(softmax_scale=3.0, **OF_CLASSES),
    "SoftTriple": losses.SoftTripleLoss(centers_per_class=CENTERS, **OF_CLASSES),
    "SphereFace": losses.SphereFaceLoss(margin=4, scale=16.0, **OF_CLASSES),
    "sub-center ArcFace": losses.SubCenterArcFaceLoss(
        sub_centers=CENTERS, margin=np.degrees(0.5), scale=16.0, **OF_CLASSES
    ),
}
BY_ROW = {"manifold", "proxy anchor", "ProxyNCA"}  # hold proxies as rows; the others hold them as columns
CALLS = {  # losses that do not take embeddings and labels
    "instance": lambda loss, x, labels: loss(x, torch.arange(len(x))),
    "manifold": lambda loss, x, labels: loss(x, indices_tuple=labels),
    "two views": lambda loss, x, labels: loss(x[0::2], x[1::2]),
}


def embeddings(batch):
    """The embeddings of a batch, `(rows, DIM)`."""
    return np.random.default_rng(len(batch)).standard_normal((len(LABELS[batch]), DIM)) / np.sqrt(DIM)


def proxies(per_class):
    """The proxies, `(CLASSES * per_class, DIM)`, those of a class side by side."""
    return np.random.default_rng(per_class).standard_normal((CLASSES * per_class, DIM))


def evaluated(name, loss, batch):
    """The value, its gradient by the embeddings, and its gradient by the proxies, if there are any, side by side."""
    x, labels = torch.tensor(embeddings(batch), requires_grad=True), torch.tensor(LABELS[batch])
    loss = copy.deepcopy(loss)  # without the state of earlier batches
    call = CALLS.get(name, lambda loss, x, labels: loss(x, labels))
    value = call(loss, functional.normalize(x) if name in UNIT else x, labels)
    value.backward()
    by_proxies = [weights.grad if name in BY_ROW else weights.grad.T for weights in loss.parameters()]
    slopes = [x.grad] if name in EMBEDDINGS_ONLY else [] if name in WITHOUT_GRADIENT else [x.grad, *by_proxies]
    return np.concatenate([np.ravel(part.detach().numpy()) for part in (value, *slopes)])


def with_proxies(name, loss):
    """The loss with our proxies in place of its own."""
    (weights,) = loss.parameters()
    vectors = torch.tensor(proxies(CENTERS if name in SEVERAL_CENTERS else 1))
    weights.data = vectors if name in BY_ROW else vectors.T.contiguous()
    return loss


def arrays():
    """Everything in the file, by name."""
    kept = {f"labels of {batch}": np.array(labels) for batch, labels in LABELS.items()}
    kept |= {f"embeddings of {batch}": embeddings(batch) for batch in LABELS}
    kept |= {f"{per_class} proxies per class": proxies(per_class) for per_class in (1, CENTERS)}
    over_proxies = {name: (EVERY, with_proxies(name, loss)) for name, loss in PROXIES.items()}
    for name, (batches, loss) in {**PAIRS, **over_proxies}.items():
        kept |= {f"{name} of {batch}": evaluated(name, loss, batch) for batch in batches}
    return kept


if __name__ == "__main__":
    np.savez_compressed(FILE, **arrays())
    print(f"{FILE}: {FILE.stat().st_size:,} bytes")
