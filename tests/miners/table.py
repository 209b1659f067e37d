"""The table of miners: one row per miner, with its oracle or its seed. All tests share one shape of batch."""

from functools import partial

import numpy as np

from tests.miners import loops
from tfdml import miners


def row(make, by_loops, **settings):
    """A miner and its oracle, with the same settings."""
    return partial(make, **settings), partial(by_loops, **settings)


def hardest_positives_then_pair_margin(labels, x):
    both = loops.hardest_positives(labels, x), loops.pair_margin(labels, x, 0.0, 1.2)
    return tuple(first * second for first, second in zip(*both, strict=True))


EXACT = {
    "valid triplets": row(miners.ValidTriplets, loops.valid_triplets),
    "valid triplets, wider": row(miners.ValidTriplets, loops.valid_triplets, margin=0.5),
    "valid triplets, stricter": row(miners.ValidTriplets, loops.valid_triplets, margin=-0.5),
    "triplet violations": row(miners.TripletViolations, loops.triplet_violations),
    "triplet violations on plain distances": row(
        miners.TripletViolations, loops.triplet_violations, margin=-0.1, distance="euclidean"
    ),
    "angular": row(miners.Angular, loops.angular),
    "angular, wider": row(miners.Angular, loops.angular, angle_degrees=35.0),
    "semi-hard, the nearest beyond 0.5": row(miners.SemiHard, loops.semi_hard),
    "semi-hard, a band beyond 1": row(miners.SemiHard, loops.semi_hard, min_distance=1.0, margin=0.3),
    "semi-hard, the nearest beyond each positive": row(miners.SemiHard, loops.semi_hard, min_distance="positive"),
    "semi-hard, bands beyond positives": row(
        miners.SemiHard, loops.semi_hard, min_distance="positive", margin=0.1, distance="squared"
    ),
    "pair margin": row(miners.PairMargin, loops.pair_margin),
    "pair margin on cosine distances": row(
        miners.PairMargin, loops.pair_margin, positive_margin=0.5, negative_margin=1.1, distance="cosine"
    ),
    "hardest negatives": row(miners.HardestNegatives, loops.hardest_negatives),
    "hardest negatives of the batch": row(miners.HardestNegativesOfBatch, loops.hardest_negatives_of_batch),
    "hardest negatives of the batch, a fraction": row(
        miners.HardestNegativesOfBatch, loops.hardest_negatives_of_batch, fraction=0.2, distance="squared"
    ),
    "hardest positives": row(miners.HardestPositives, loops.hardest_positives),
    "moderate positives": row(miners.ModeratePositives, loops.moderate_positives, distance="squared"),
    "easy positives": row(miners.EasyPositives, loops.easy_positives, distance="squared"),
    "easy positives, three": row(miners.EasyPositives, loops.easy_positives, k=3),
    "distance weighted, expectation": (partial(miners.DistanceWeighted, expectation=True), loops.distance_weighted),
    "distance weighted, other limits": (
        partial(miners.DistanceWeighted, cutoff=0.9, max_distance=1.7, expectation=True),
        partial(loops.distance_weighted, cutoff=0.9, max_distance=1.7),
    ),
    "hardest positives, then pair margin": (
        lambda: miners.compose(miners.HardestPositives(), miners.PairMargin(positive_margin=0.0, negative_margin=1.2)),
        hardest_positives_then_pair_margin,
    ),
}
RANDOM = {
    "distance weighted": partial(miners.DistanceWeighted, seed=3),
    "balanced pairs": partial(miners.BalancedPairs, seed=3),
    "uniform histogram": partial(miners.UniformHistogram, seed=3, positives_per_bin=2, negatives_per_bin=2, bins=5),
    "composition": lambda: miners.compose(miners.EasyPositives(), miners.BalancedPairs(seed=3)),
}
MINERS = {**{name: make for name, (make, _) in EXACT.items()}, **RANDOM}
# Rows that compute something else, and not the same with another number: one row per law is enough.
DISTINCT = [name for name in MINERS if not name.endswith(("wider", "stricter", "plain distances", "cosine distances"))]

LABELS = np.repeat(np.arange(7), [1, 2, 3, 4, 5, 3, 2])


def batch(labels=LABELS, dim=4, seed=0):
    """Unit vectors, those of a class near each other."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((len(labels), dim)) + 1.5 * rng.standard_normal((labels.max() + 1, dim))[labels]
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype("float32")
