"""What mining adds to a loss: value and gradient with and without it, graph and XLA, and the same in
pytorch-metric-learning.

Miners of one batch of unit vectors, 4 examples per class, before the loss that they are used with. Our ways take
turns in one process, then the peer's do.

    python benchmarks/miners.py            # five minutes on two cores
    python benchmarks/miners.py --quick    # one miner, one small size; --no-peers leaves pytorch-metric-learning out
"""

import warnings

from _peers import arguments_of, batch, torch_value_and_gradient, value_and_gradient
from _report import median_seconds, print_table, write_table

from tfdml import losses, miners

MARGIN, SIMILARITY, TRIPLET = "margin", "multi-similarity", "triplet, semi-hard"
SIMILARITIES = {"margin": 0.2, "boundary": 0.5, "distance": "cosine"}
LOSSES = {
    MARGIN: losses.MarginLoss,
    SIMILARITY: losses.MultiSimilarityLoss,
    "margin on similarities": lambda: losses.MarginLoss(**SIMILARITIES),
    TRIPLET: lambda: losses.TripletLoss(negatives=miners.semi_hard_negatives),
}


def rows_of(batch_size):
    """name -> (name of the loss, the loss with the miner)."""
    base = losses.MarginLoss(**SIMILARITIES)
    mined = {
        "ValidTriplets": (SIMILARITY, miners.ValidTriplets()),
        "TripletViolations": (MARGIN, miners.TripletViolations()),
        "PairMargin": (MARGIN, miners.PairMargin()),
        "SemiHard": (MARGIN, miners.SemiHard()),
        "SemiHard, beyond positives": (MARGIN, miners.SemiHard(min_distance="positive")),
        "HardestNegatives": (MARGIN, miners.HardestNegatives()),
        "HardestPositives": (MARGIN, miners.HardestPositives()),
        "ModeratePositives": (MARGIN, miners.ModeratePositives()),
        "BalancedPairs": (MARGIN, miners.BalancedPairs(seed=0)),
        "DistanceWeighted": (MARGIN, miners.DistanceWeighted(seed=0)),
        "DistanceWeighted, expected": (MARGIN, miners.DistanceWeighted(expectation=True)),
        "Angular": (MARGIN, miners.Angular()),
        "UniformHistogram": (MARGIN, miners.UniformHistogram(seed=0)),
    }
    robust = {
        "TopK": losses.uncertainty.TopK(4 * batch_size),
        "TopKBalanced": losses.uncertainty.TopKBalanced(4 * batch_size),
        "KL": losses.uncertainty.KL(0.1),
        "KL, sampled": losses.uncertainty.KL(0.1, num_samples=4 * batch_size, seed=0),
        "GroupedKL": losses.uncertainty.GroupedKL(0.1),
        "Variance": losses.uncertainty.Variance(1.0),
    }
    return {
        **{
            name: (loss, type(LOSSES[loss]())(**{**LOSSES[loss]().settings, "miner": miner}))
            for name, (loss, miner) in mined.items()
        },
        **{
            name: ("margin on similarities", losses.RobustLoss(base, uncertainty=uncertainty))
            for name, uncertainty in robust.items()
        },
        "distance-weighted negatives": (
            TRIPLET,
            losses.TripletLoss(negatives=miners.DistanceWeightedNegatives(seed=0)),
        ),
    }


def peers():
    """name -> (loss, miner) of pytorch-metric-learning."""
    from pytorch_metric_learning import losses as theirs
    from pytorch_metric_learning import miners as their_miners

    warnings.filterwarnings("ignore", module="pytorch_metric_learning")
    margin = theirs.MarginLoss
    return {
        "ValidTriplets": (theirs.MultiSimilarityLoss(alpha=2, beta=50, base=0.5), their_miners.MultiSimilarityMiner()),
        "TripletViolations": (margin(), their_miners.TripletMarginMiner(margin=0.2, type_of_triplets="all")),
        "PairMargin": (margin(), their_miners.PairMarginMiner(pos_margin=0.2, neg_margin=0.8)),
        "HardestPositives": (margin(), their_miners.BatchHardMiner()),
        "DistanceWeighted": (margin(), their_miners.DistanceWeightedMiner(cutoff=0.5, nonzero_loss_cutoff=1.4)),
        "Angular": (margin(), their_miners.AngularMiner(angle=20)),
        "UniformHistogram": (margin(), their_miners.UniformHistogramMiner()),
    }


def measure(name, plain, mined, peer, size, dim, *, repeats):
    """One row of the table."""
    labels, x = batch(size, dim)
    functions = {}
    for way, jit_compile in (("graph", False), ("xla", True)):
        functions[f"{way}_loss"] = value_and_gradient(LOSSES[plain](), labels, x, jit_compile=jit_compile)
        functions[f"{way}_mined"] = value_and_gradient(mined, labels, x, jit_compile=jit_compile)
    seconds = median_seconds(functions, repeats=3 * repeats)
    if peer:  # after ours: what runs next after a peer's cubes finds cold caches
        loss, miner = peer
        functions = {
            "peer_loss": torch_value_and_gradient(lambda labels, x: loss(x, labels), labels, x),
            "peer_mined": torch_value_and_gradient(lambda labels, x: loss(x, labels, miner(x, labels)), labels, x),
        }
        seconds |= median_seconds(functions, repeats=repeats)
    milliseconds = {f"{key}_ms": 1e3 * s for key, s in seconds.items()}
    added = {
        f"{way}_added": milliseconds[f"{way}_mined_ms"] / milliseconds[f"{way}_loss_ms"] - 1 for way in ("graph", "xla")
    }
    no_peer = {"peer_loss_ms": "", "peer_mined_ms": ""}
    return {"mining": name, "loss": plain, "batch": size, "dim": dim, **no_peer, **milliseconds, **added}


def main():
    """Measure and write the table."""
    options = arguments_of(__doc__, "miners.csv")
    their_ways, rows = peers() if options.peers else {}, []
    for size, dim in [(64, 16)] if options.quick else [(1024, 128)]:
        for name, (plain, mined) in list(rows_of(size).items())[: 1 if options.quick else None]:
            repeats = 2 if options.quick else 7
            rows.append(measure(name, plain, mined, their_ways.get(name), size, dim, repeats=repeats))
            print_table(rows[-1:], list(rows[0]))
    write_table(options.output, rows, *(["torch", "pytorch-metric-learning"] if options.peers else []))


if __name__ == "__main__":
    main()
