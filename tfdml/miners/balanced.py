"""Miners that sample pairs at random: balanced by sign, or uniform by distance."""

from typing import Any

import numpy as np
from keras import ops

from tfdml._core.checks import require_whole
from tfdml._core.serialization import serializable
from tfdml.layers.base import Seeded
from tfdml.pairs import Pairs, distance_function
from tfdml.pairs.base import Distance
from tfdml.pairs.sampling import num_positives, systematic_sample, with_sampled_negatives


@serializable
class BalancedPairs(Seeded):
    """All positives, and the same number of random negatives for each anchor.

    Negatives are drawn with probability proportional to their weight, evenly spread over the batch in its order
    (systematic sampling). With equal weights, no negative is drawn twice unless the anchor has more positives than
    negatives. The weight of a negative becomes the number of times it was drawn. An anchor without positives draws no
    negatives.

    Args:
        seed: an integer; None for a random one. `EmbeddingModel` saves the state of the generator.

    Source: Wu, Manmatha, Smola, Kraehenbuehl, Sampling Matters in Deep Embedding Learning, ICCV 2017, section 5, one
    negative per positive; Serrat, Deep Metric Learning, course slides 2021-22, balanced pairs.
    """

    def call(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        number = num_positives(pairs)
        offset = self.uniform(ops.shape(number), number.dtype)
        return with_sampled_negatives(pairs, systematic_sample(pairs.negative, number, offset))


@serializable
class UniformHistogram(Seeded):
    """Pairs spread evenly over distances: each bin of a histogram of distances keeps a fixed expected number of pairs.

    Each of the n positives in a bin is kept with probability min(1, positives_per_bin / n), and negatives likewise. The
    bins of each sign divide the range of its distances in the batch evenly.

    Args:
        bins: number of bins.
        positives_per_bin, negatives_per_bin: expected number of ordered pairs that a bin keeps.
        distance: "euclidean", "squared", "cosine", "snr", or a function of `Pairs`.
        seed: an integer; None for a random one. `EmbeddingModel` saves the state of the generator.
    """

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
        self.bins = bins
        self.positives_per_bin = positives_per_bin
        self.negatives_per_bin = negatives_per_bin
        self.distance = distance

    def call(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        d = ops.stop_gradient(distance_function(self.distance)(pairs))
        bin_index = _bin_index(d, pairs.positive > 0, pairs.negative > 0, self.bins)
        counts = ops.segment_sum(
            ops.ones_like(ops.reshape(d, (-1,))), ops.reshape(bin_index, (-1,)), num_segments=2 * self.bins + 1
        )
        per_bin = np.repeat([self.positives_per_bin, self.negatives_per_bin, 0], [self.bins, self.bins, 1])
        share = ops.cast(per_bin, d.dtype) / ops.maximum(counts, 1.0)
        dropped = self.uniform(ops.shape(d), d.dtype) >= ops.take(share, bin_index)
        return pairs.drop(positive=dropped, negative=dropped)

    def get_config(self) -> dict[str, Any]:
        """The settings, for Keras."""
        return {
            **super().get_config(),
            "bins": self.bins,
            "positives_per_bin": self.positives_per_bin,
            "negatives_per_bin": self.negatives_per_bin,
            "distance": self.distance,
        }


def _bin_index(d, is_positive, is_negative, bins):
    """The bin of each pair: first the bins of positives, then those of negatives, then one for all other entries.

    One index for both signs takes one sum over the pairs.
    """
    least, width = (
        ops.where(is_positive, *both) for both in zip(_range(d, is_positive), _range(d, is_negative), strict=True)
    )
    place = ops.clip(ops.cast((d - least) * (bins / width), "int32"), 0, bins - 1)
    return ops.where(is_positive, place, ops.where(is_negative, bins + place, 2 * bins))


def _range(d, members):
    """The smallest distance among the members, and the difference between the largest and the smallest."""
    least = ops.min(ops.where(members, d, float("inf")))
    return least, ops.maximum(ops.max(ops.where(members, d, -float("inf"))) - least, 1e-12)
