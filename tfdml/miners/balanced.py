"""Miners that sample pairs at random: balanced by sign, or uniform by distance."""

from typing import Any

import numpy as np

from tfdml._core.backends import ops
from tfdml._core.checks import require_whole
from tfdml._core.serialization import serializable
from tfdml.layers.base import Seeded
from tfdml.pairs import Pairs
from tfdml.pairs.base import Distance
from tfdml.pairs.batch_reductions import batch_max, batch_sum
from tfdml.pairs.distances import distance_function
from tfdml.pairs.sampling import num_positives, systematic_sample, with_sampled_negatives


@serializable
class BalancedPairs(Seeded):
    """All positives, and the same number of random negatives for each anchor.

    Negatives are drawn with probability proportional to their weight, evenly spread over the batch in its order
    (systematic sampling). With equal weights, no negative is drawn twice unless the anchor has more positives than
    negatives. The weight of a negative becomes its number of draws. An anchor without positives draws no negatives.

    See also: `HardestNegatives` for the nearest ones; `DistanceWeighted` for draws by distance.

    Example:

        >>> pairs = tfdml.pairs.all_pairs([0, 0, 0, 1, 2, 3], np.eye(6))
        >>> mined = tfdml.miners.BalancedPairs(seed=0)(pairs)
        >>> np.asarray(mined.positive, int).sum(axis=1).tolist()
        [2, 2, 2, 0, 0, 0]
        >>> np.asarray(mined.negative, int).sum(axis=1).tolist()  # two of the three negatives of each of these anchors
        [2, 2, 2, 0, 0, 0]

    Source: Wu, Manmatha, Smola, Kraehenbuehl, Sampling Matters in Deep Embedding Learning, ICCV 2017, section 5, one
    negative per positive; Serrat, Deep Metric Learning, course slides 2021-22, balanced pairs.
    """

    def call(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        num_draws = num_positives(pairs)
        offset = self.uniform(ops.shape(num_draws), num_draws.dtype)
        return with_sampled_negatives(pairs, systematic_sample(pairs.negative, num_draws, offset))


@serializable
class UniformHistogram(Seeded):
    """Pairs spread evenly over distances: each bin of a histogram of distances keeps a fixed expected number of pairs.

    Each of the n positives in a bin is kept with probability min(1, positives_per_bin / n), and negatives likewise.
    Positives and negatives have one histogram each, whose bins divide the range of their distances in the batch evenly.

    Example:

        >>> references = [[0.0], *[[9.0 + i / 1000] for i in range(1000)]]
        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [1] * 1001, references)  # one near negative, 1000 far ones
        >>> kept = np.asarray(tfdml.miners.UniformHistogram(bins=2, seed=0)(pairs).negative)
        >>> float(kept[0, 0]), bool(kept.sum() < 50)  # alone in its bin; about 10 of the other bin
        (1.0, True)

    Args:
        positives_per_bin, negatives_per_bin: expected number of ordered pairs that a bin keeps.
    """

    saved_arguments = ("bins", "positives_per_bin", "negatives_per_bin", "distance")

    def __init__(
        self,
        *,
        bins: int = 100,
        positives_per_bin: int = 10,
        negatives_per_bin: int = 10,
        distance: Distance = "euclidean",
        seed: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(seed=seed, **options)
        require_whole("bins", bins, 1)
        require_whole("positives_per_bin", positives_per_bin, 1)
        require_whole("negatives_per_bin", negatives_per_bin, 1)
        distance_function(distance)
        self.bins, self.distance = bins, distance
        self.positives_per_bin = positives_per_bin
        self.negatives_per_bin = negatives_per_bin

    def call(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        d = ops.stop_gradient(distance_function(self.distance)(pairs))
        bins = self._bins(d, pairs)
        is_pair = (pairs.positive > 0) | (pairs.negative > 0)
        ones = ops.reshape(ops.cast(is_pair, d.dtype), (-1,))
        counts = batch_sum(ops.segment_sum(ones, ops.reshape(bins, (-1,)), num_segments=2 * self.bins), pairs)
        pairs_per_bin = np.repeat([self.positives_per_bin, self.negatives_per_bin], self.bins)
        keep_probability = ops.cast(pairs_per_bin, d.dtype) / ops.maximum(counts, 1.0)
        is_kept = is_pair & (self.uniform(ops.shape(d), d.dtype) < ops.take(keep_probability, bins))
        return pairs.drop(positive=ops.logical_not(is_kept), negative=ops.logical_not(is_kept))

    def _bins(self, d, pairs):
        """The bin of each pair: first the bins of positives, then of negatives, so that one sum counts both."""
        positive, negative = (_bin_index(d, w > 0, self.bins, pairs) for w in (pairs.positive, pairs.negative))
        return ops.where(pairs.positive > 0, positive, self.bins + negative)


def _bin_index(d, is_pair, bins, pairs):
    """The bin of each distance, 0 to bins - 1, in a histogram over the range of the distances of these pairs."""
    ends = ops.stack([ops.amax(ops.where(is_pair, x, -float("inf"))) for x in (-d, d)])
    negated_low, high = ops.unstack(batch_max(ends, pairs), 2)
    width = ops.maximum(high + negated_low, 1e-12)
    return ops.clip(ops.cast((d + negated_low) * (bins / width), "int32"), 0, bins - 1)
