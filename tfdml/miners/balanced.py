"""Miners that draw pairs at random: as many negatives as positives, or as many from every distance."""

from typing import Any

import numpy as np
from keras import ops

from tfdml._checks import require_whole
from tfdml._serialization import serializable
from tfdml.layers.base import Seeded
from tfdml.pairs import Pairs, distance_function
from tfdml.pairs.base import Distance
from tfdml.pairs.sampling import num_positives, systematic_sample, with_sampled_negatives


@serializable
class BalancedPairs(Seeded):
    """All positives, and as many random negatives for each anchor.

    Negatives are drawn with probability proportional to the weight of their pair, spread evenly over the batch in its
    order (systematic sampling): of equal weights none is drawn twice, unless there are fewer negatives than positives.
    The weight of a negative becomes how often it was drawn. An anchor without positives draws none.

    Args:
        seed: an integer; None for a fresh one. `EmbeddingModel` keeps its state.

    Source: Wu, Manmatha, Smola, Kraehenbuehl, Sampling Matters in Deep Embedding Learning, ICCV 2017, section 5, one
    negative for each positive; Serrat, Deep Metric Learning, course slides 2021-22, balanced pairs.
    """

    def call(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        number = num_positives(pairs)
        return with_sampled_negatives(
            pairs, systematic_sample(pairs.negative, number, self.uniform(ops.shape(number), number.dtype))
        )


@serializable
class UniformHistogram(Seeded):
    """Pairs of all distances alike: each bin of a histogram of distances keeps a number of pairs at random.

    Of the n pairs of a kind in a bin each stays with probability min(1, per_bin / n), so `per_bin` is the number in the
    mean. Bins divide the range of the distances of a kind in the batch evenly.

    Args:
        bins: number of bins.
        positives_per_bin, negatives_per_bin: ordered pairs that a bin keeps in the mean.
        distance: "euclidean", "squared", "cosine", or a function of `Pairs`.
        seed: an integer; None for a fresh one. `EmbeddingModel` keeps its state.
    """

    def __init__(
        self,
        bins: int = 100,
        positives_per_bin: int = 10,
        negatives_per_bin: int = 10,
        distance: Distance = "euclidean",
        seed: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(seed, **options)
        numbers = {"bins": bins, "positives_per_bin": positives_per_bin, "negatives_per_bin": negatives_per_bin}
        for name, value in numbers.items():
            require_whole(name, value, 1)
        distance_function(distance)
        self.numbers, self.distance = numbers, distance

    def call(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        d = ops.stop_gradient(distance_function(self.distance)(pairs))
        at_random = self.uniform(ops.shape(d), d.dtype)
        bins, per_bin = self.numbers["bins"], [self.numbers[f"{kind}_per_bin"] for kind in ("positives", "negatives")]
        is_positive, is_negative = pairs.positive > 0, pairs.negative > 0
        least, width = (
            ops.where(is_positive, *both) for both in zip(_range(d, is_positive), _range(d, is_negative), strict=True)
        )
        bin_of = ops.clip(ops.cast((d - least) * (bins / width), "int32"), 0, bins - 1)
        # Bins of positives, of negatives, and one for all that is no pair.
        places = ops.where(is_positive, bin_of, ops.where(is_negative, bins + bin_of, 2 * bins))
        ones = ops.ones_like(ops.reshape(d, (-1,)))
        in_bins = ops.segment_sum(ones, ops.reshape(places, (-1,)), num_segments=2 * bins + 1)
        wanted = np.repeat(np.array([*per_bin, 0], dtype="float32"), [bins, bins, 1])
        kept = ops.cast(at_random < ops.take(wanted / ops.maximum(in_bins, 1.0), places), d.dtype)
        return pairs._replace(positive=pairs.positive * kept, negative=pairs.negative * kept)

    def get_config(self) -> dict[str, Any]:
        """The settings, for Keras."""
        return {**super().get_config(), **self.numbers, "distance": self.distance}


def _range(d, among):
    """The least distance of some pairs, and how much larger the largest is."""
    least = ops.min(ops.where(among, d, float("inf")))
    return least, ops.maximum(ops.max(ops.where(among, d, -float("inf"))) - least, 1e-12)
