"""Miners that sample pairs at random: balanced by sign, or uniform by distance."""

from typing import Any

from keras import ops

from tfdml._checks import require
from tfdml._serialization import serializable
from tfdml.layers.base import Seeded
from tfdml.pairs import Pairs, distance_function
from tfdml.pairs.base import Distance
from tfdml.pairs.sampling import num_positives, systematic_sample, with_sampled_negatives


@serializable
class BalancedPairs(Seeded):
    """All positives, and the same number of random negatives for each anchor.

    Negatives are drawn with probability proportional to their weight, evenly spread over the batch in its order
    (systematic sampling). With equal weights none is drawn twice unless an anchor has more positives than negatives.
    The weight of a negative becomes the number of times it was drawn. An anchor without positives draws none.

    Args:
        seed: an integer; None for a random one. `EmbeddingModel` saves the state of the generator.

    Source: Wu, Manmatha, Smola, Kraehenbuehl, Sampling Matters in Deep Embedding Learning, ICCV 2017, section 5, one
    negative for each positive; Serrat, Deep Metric Learning, course slides 2021-22, balanced pairs.
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
        distance: "euclidean", "squared", "cosine", or a function of `Pairs`.
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
        _require_count("bins", bins)
        _require_count("positives_per_bin", positives_per_bin)
        _require_count("negatives_per_bin", negatives_per_bin)
        distance_function(distance)
        self.bins = bins
        self.positives_per_bin = positives_per_bin
        self.negatives_per_bin = negatives_per_bin
        self.distance = distance

    def call(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        d = ops.stop_gradient(distance_function(self.distance)(pairs))
        uniform = self.uniform(ops.shape(d), d.dtype)
        positive_share = _share_per_bin(d, pairs.positive > 0, self.bins, self.positives_per_bin)
        negative_share = _share_per_bin(d, pairs.negative > 0, self.bins, self.negatives_per_bin)
        return pairs.drop(positive=uniform >= positive_share, negative=uniform >= negative_share)

    def get_config(self) -> dict[str, Any]:
        """The settings, for Keras."""
        return {
            **super().get_config(),
            "bins": self.bins,
            "positives_per_bin": self.positives_per_bin,
            "negatives_per_bin": self.negatives_per_bin,
            "distance": self.distance,
        }


def _share_per_bin(d, members, bins, per_bin):
    """The share of pairs to keep in the bin of each pair: min(1, per_bin / n) for the n members in it."""
    least, width = _range(d, members)
    bin_index = ops.clip(ops.cast((d - least) * (bins / width), "int32"), 0, bins - 1)
    counts = ops.segment_sum(
        ops.reshape(ops.cast(members, d.dtype), (-1,)), ops.reshape(bin_index, (-1,)), num_segments=bins
    )
    return ops.take(per_bin / ops.maximum(counts, 1.0), bin_index)


def _range(d, members):
    """The smallest distance among the members, and the difference between the largest and the smallest."""
    least = ops.min(ops.where(members, d, float("inf")))
    return least, ops.maximum(ops.max(ops.where(members, d, -float("inf"))) - least, 1e-12)


def _require_count(name, value):
    require(int(value) == value >= 1, f"{name}={value}", "a whole number of 1 or more")
