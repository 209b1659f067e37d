"""The losses that are compared: ours, and those of pytorch-metric-learning and TensorFlow Addons."""

import sys
import warnings
from functools import partial

import numpy as np
from _report import options_of, require_peers

PEER_PACKAGES = ["torch", "pytorch-metric-learning", "tensorflow-addons"]

# Compared with TensorFlow Addons; all others with pytorch-metric-learning.
OF_ADDONS = [
    "triplet, semi-hard",
    "addons: triplet, semi-hard",
    "addons: triplet, hard",
    "addons: lifted structure",
]
# Where a peer of the same name computes another number; all others are checked to agree.
NOTES = {
    "contrastive": "the peer adds the means of positives and of negatives, not squared",
    "margin": "the peer counts a pair once for every triplet it is in",
    "n-pairs": "two examples a class; the peer draws which of them is the anchor",
    "smooth AP": "the peer retrieves the anchor itself",
    "ranked list": "the peer adds 1e-5 for each pair to its divisors",
}


def ours():
    """name -> loss."""
    import tfdml
    from tfdml import losses, miners

    triplet = losses.TripletLoss
    return {
        "contrastive": losses.ContrastiveLoss(),
        "margin": losses.MarginLoss(),
        "multi-similarity": losses.MultiSimilarityLoss(),
        "multi-similarity, mined": losses.RAWLoss(),
        "circle": losses.CircleLoss(),
        "lifted structure": losses.LiftedStructureLoss(),
        "generalized lifted": losses.GeneralizedLiftedLoss(),
        "triplet, all": triplet(margin=0.2, distance="euclidean"),
        "triplet, semi-hard": triplet(margin=1.0, distance="euclidean", negatives=miners.semi_hard_negatives),
        "batch hard": losses.BatchHardTripletLoss(margin=0.2),
        "angular": losses.AngularLoss(angle_degrees=40),
        "n-pairs": losses.NPairsLoss(pairing=tfdml.pairs.even_against_odd),
        "NT-Xent": losses.NTXentLoss(),
        "SupCon": losses.SupConLoss(),
        "NCA": losses.NCALoss(log=True),
        "tuplet margin": losses.TupletMarginLoss(),
        "histogram": losses.HistogramLoss(bins=100),
        "FastAP": losses.FastAPLoss(),
        "smooth AP": losses.SmoothAPLoss(),
        "ranked list": losses.RankedListLoss(scale=5.0),
        "addons: triplet, semi-hard": tfdml.addons.TripletSemiHardLoss(),
        "addons: triplet, hard": tfdml.addons.TripletHardLoss(),
        "addons: lifted structure": tfdml.addons.LiftedStructLoss(),
    }


def others(dim, classes):
    """name -> function that makes a loss that `ours` leaves out, for so many dimensions and classes.

    All settings are defaults, where there are any.
    """
    from tfdml import layers, losses

    base = losses.MultiSimilarityLoss
    over_pairs = (
        "WeightedContrastiveLoss CosineContrastiveLoss CosineRegressionLoss DistanceLogisticLoss BinomialDevianceLoss "
        "InstanceLoss IntraPairVarianceLoss ThresholdConsistencyLoss DynamicSoftMarginLoss LMNNLoss HAP2SLoss PNPLoss "
        "GlobalLoss XingLoss CLIPLoss SigmoidLoss PrototypicalLoss CentroidTripletLoss CoupledClustersLoss "
        "QuadrupletLoss PDDMLoss ClusteringLoss MagnetLoss"
    )
    over_classes = (
        "NormalizedSoftmaxLoss CosFaceLoss ArcFaceLoss SubCenterArcFaceLoss SphereFaceLoss MagFaceLoss P2SGradLoss "
        "LargeMarginSoftmaxLoss ProxyNCALoss ProxyAnchorLoss SoftTripleLoss CenterLoss ManifoldLoss"
    )
    halves = (dim // 2, dim // 2)
    return {
        **{name: getattr(losses, name) for name in over_pairs.split()},
        **{name: partial(getattr(losses, name), classes=classes) for name in over_classes.split()},
        "BalancedContrastiveLoss": lambda: losses.BalancedContrastiveLoss(class_counts=[4] * classes),
        "HierarchicalTripletLoss": lambda: losses.HierarchicalTripletLoss(layers.ClassTree(range(classes))),
        "MatryoshkaLoss": lambda: losses.MatryoshkaLoss(base(), dims=(dim // 4, dim // 2, dim)),
        "BoostedLoss": lambda: losses.BoostedLoss(dims=halves),
        "CascadeLoss": lambda: losses.CascadeLoss(losses.ContrastiveLoss(), dims=halves, shares=(0.5,)),
        "DivergenceLoss": lambda: losses.DivergenceLoss(base(), dims=halves),
        "AdversarialLoss": lambda: losses.AdversarialLoss(base(), dims=halves),
        "RobustLoss": lambda: losses.RobustLoss(losses.BinomialDevianceLoss(), uncertainty=losses.uncertainty.KL(0.1)),
    }


def pytorch_metric_learning():
    """name -> function of torch embeddings and labels, with the settings of `ours`."""
    from pytorch_metric_learning import distances, losses, miners, reducers

    warnings.filterwarnings("ignore", module="pytorch_metric_learning")
    plain = distances.LpDistance(normalize_embeddings=False)
    mean = {"reducer": reducers.MeanReducer()}
    modules = {
        "contrastive": losses.ContrastiveLoss(distance=plain, **mean),
        "margin": losses.MarginLoss(),
        "multi-similarity": losses.MultiSimilarityLoss(alpha=2, beta=50, base=0.5),
        "circle": losses.CircleLoss(**mean),
        "lifted structure": losses.LiftedStructureLoss(distance=plain, **mean),
        "generalized lifted": losses.GeneralizedLiftedStructureLoss(distance=plain, **mean),
        "triplet, all": losses.TripletMarginLoss(margin=0.2, distance=plain, **mean),
        "batch hard": losses.TripletMarginLoss(margin=0.2, distance=plain, **mean),
        "angular": losses.AngularLoss(alpha=40, **mean),
        "n-pairs": losses.NPairsLoss(distance=distances.DotProductSimilarity(normalize_embeddings=False)),
        "NT-Xent": losses.NTXentLoss(**mean),
        "SupCon": losses.SupConLoss(**mean),
        "NCA": losses.NCALoss(distance=distances.LpDistance(normalize_embeddings=False, power=2)),
        "tuplet margin": losses.TupletMarginLoss(**mean),
        "histogram": losses.HistogramLoss(n_bins=100),
        "FastAP": losses.FastAPLoss(**mean),
        "smooth AP": losses.SmoothAPLoss(**mean),
        "ranked list": losses.RankedListLoss(margin=0.4, Tn=5, alpha=1.2, **mean),
    }
    for module in modules.values():
        module.to(torch_device())
    found = {name: lambda labels, x, module=module: module(x, labels) for name, module in modules.items()}
    multi_miner, hard_miner = miners.MultiSimilarityMiner(epsilon=0.1), miners.BatchHardMiner(distance=plain)
    multi, triplet = modules["multi-similarity"], modules["batch hard"]
    return found | {
        "multi-similarity, mined": lambda labels, x: multi(x, labels, multi_miner(x, labels)),
        "batch hard": lambda labels, x: triplet(x, labels, hard_miner(x, labels)),
    }


def tensorflow_addons():
    """name -> loss of labels and embeddings, with the settings of `ours`; needs TF_USE_LEGACY_KERAS=1."""
    from tf_keras.src import engine
    from tf_keras.src.engine import keras_tensor

    sys.modules["keras.src.engine"] = engine  # where Addons looks for them
    sys.modules["keras.src.engine.keras_tensor"] = keras_tensor
    warnings.simplefilter("ignore")  # its end of life, and its range of versions
    from tensorflow_addons import losses

    return {
        "triplet, semi-hard": losses.TripletSemiHardLoss(),
        "addons: triplet, semi-hard": losses.TripletSemiHardLoss(),
        "addons: triplet, hard": losses.TripletHardLoss(),
        "addons: lifted structure": losses.LiftedStructLoss(),
    }


def batch(size, dim, *, examples_per_class=4, seed=0):
    """Labels `(size,)` int32 and unit embeddings `(size, dim)` float32, of classes that overlap."""
    rng = np.random.default_rng(seed)
    labels = np.arange(size, dtype="int32") // examples_per_class
    centers = rng.standard_normal((size // examples_per_class, dim))
    x = 0.5 * centers[labels] + rng.standard_normal((size, dim))
    return labels, (x / np.linalg.norm(x, axis=1, keepdims=True)).astype("float32")


def check(name, ours, theirs):
    """Stop where two implementations of the same loss disagree."""
    if name not in NOTES and not np.isclose(ours, theirs, rtol=1e-3, atol=1e-5):
        raise SystemExit(f"{name}: ours {ours}, peer {theirs}; they should agree, so the timing would mean nothing.")


def value_and_gradient(loss, labels, x, *, jit_compile):
    """A function without arguments that computes a Keras loss and its gradient in TensorFlow."""
    import tensorflow as tf

    @tf.function(jit_compile=jit_compile)
    def run(labels, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = loss(labels, x)
        return value, tape.gradient(value, x)

    labels, x = tf.constant(labels), tf.constant(x)

    def call():
        value, gradient = run(labels, x)
        gradient.numpy()
        return float(value)

    return call


def torch_device():
    """The GPU of PyTorch, if there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def torch_value_and_gradient(loss, labels, x):
    """A function without arguments: one forward and backward pass of a function of labels and x, which is waited for.

    It runs in PyTorch on its GPU, if it has one, and returns the loss.
    """
    import torch

    labels = torch.tensor(labels, dtype=torch.int64, device=torch_device())
    x = torch.tensor(x, device=torch_device(), requires_grad=True)

    def run():
        x.grad = None
        value = loss(labels, x)
        value.backward()
        if x.is_cuda:
            torch.cuda.synchronize()
        return float(value.detach())

    return run


SIZES = [(64, 512), (256, 512), (1024, 128), (1024, 512), (4096, 512)]


def arguments_of(description, output, *, sizes=SIZES, peers=("torch", "pytorch_metric_learning", "tensorflow_addons")):
    """The options of a benchmark of losses, with losses and sizes `(batch, dim)`."""
    losses = {"nargs": "+", "help": "names; all by default"}
    size_of = {"nargs": "+", "type": size, "help": "batch x dim, such as 16384x512"}
    options = options_of(description, output, peers=True, losses=losses, sizes=size_of)
    if options.peers:
        require_peers(*peers)
    options.sizes = options.sizes or ([(64, 16)] if options.quick else list(sizes))
    return options


def size(text):
    """(16384, 512) of "16384x512"."""
    rows, dim = text.split("x")
    return int(rows), int(dim)
