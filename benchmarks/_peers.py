"""The losses that are compared, here and in pytorch-metric-learning."""

import argparse

import numpy as np
from _report import RESULTS, require_peers

import tfdml

PEER_PACKAGES = ["torch", "pytorch-metric-learning"]

OURS = {
    "contrastive": tfdml.losses.ContrastiveLoss(),
    "multi-similarity": tfdml.losses.MultiSimilarityLoss(),
    "multi-similarity, mined": tfdml.losses.MultiSimilarityLoss(miner=tfdml.miners.ValidTriplets(margin=0.1)),
    "batch hard": tfdml.losses.BatchHardTripletLoss(margin=0.2),
}


def peers(device="cpu"):
    """name -> function of torch labels and embeddings, with the settings of `OURS`.

    Contrastive is not the same number (the peer adds the mean of positives to the mean of negatives, not squared); its
    work is the same. The others agree, and `check` compares them.
    """
    from pytorch_metric_learning import distances, losses, miners, reducers

    plain = distances.LpDistance(normalize_embeddings=False)
    contrastive = losses.ContrastiveLoss(distance=plain, reducer=reducers.MeanReducer())
    multi = losses.MultiSimilarityLoss(alpha=2, beta=50, base=0.5)
    multi_miner = miners.MultiSimilarityMiner(epsilon=0.1)
    triplet = losses.TripletMarginLoss(margin=0.2, distance=plain, reducer=reducers.MeanReducer())
    hard_miner = miners.BatchHardMiner(distance=plain)
    found = {
        "contrastive": lambda labels, x: contrastive(x, labels),
        "multi-similarity": lambda labels, x: multi(x, labels),
        "multi-similarity, mined": lambda labels, x: multi(x, labels, multi_miner(x, labels)),
        "batch hard": lambda labels, x: triplet(x, labels, hard_miner(x, labels)),
    }
    for module in (contrastive, multi, triplet):
        module.to(device)
    return found


def batch(size, dim, *, examples_per_class=4, seed=0):
    """Labels and unit embeddings, drawn around their class's centre: `(size,)` int32 and `(size, dim)` float32."""
    rng = np.random.default_rng(seed)
    labels = np.arange(size, dtype="int32") // examples_per_class
    centres = rng.standard_normal((size // examples_per_class, dim))
    x = centres[labels] + rng.standard_normal((size, dim))
    return labels, (x / np.linalg.norm(x, axis=1, keepdims=True)).astype("float32")


def check(name, ours, theirs):
    """Stop where two implementations of the same loss disagree."""
    if name != "contrastive" and not np.isclose(ours, theirs, rtol=1e-4):
        raise SystemExit(f"{name}: ours {ours}, peer {theirs}; they should agree, so the timing would mean nothing.")


def peer_value_and_gradient(name, labels, x):
    """A function without arguments: one forward and backward pass in PyTorch, on its GPU if it has one, waited for."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    loss = peers(device)[name]
    labels = torch.tensor(labels, dtype=torch.int64, device=device)
    x = torch.tensor(x, device=device, requires_grad=True)

    def run():
        x.grad = None
        value = loss(labels, x)
        value.backward()
        if device == "cuda":
            torch.cuda.synchronize()
        return value.detach(), x.grad

    return run


def arguments_of(description, output):
    """The command line of a benchmark of losses: quick, peers, output, sizes and dims."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-peers", dest="peers", action="store_false")
    parser.add_argument("--output", default=RESULTS / output)
    options = parser.parse_args()
    if options.peers:
        require_peers("torch", "pytorch_metric_learning")
    options.sizes = [64] if options.quick else [64, 256, 1024, 4096]
    options.dims = [16] if options.quick else [128, 512]
    return options
