"""A miner whose hardness follows the training."""

from typing import Any, Self

import keras

from tfdml._core.backends import ops
from tfdml._core.checks import require, require_fraction, require_function_or_none, require_positive
from tfdml._core.serialization import serializable
from tfdml.layers.base import LossLayer
from tfdml.pairs import Pairs, all_pairs
from tfdml.pairs.base import Distance, Match, Tensor
from tfdml.pairs.distances import distance_function


@serializable
class AdaptiveNegatives(LossLayer):
    """All positives, and a share of the nearest negatives of each anchor, which adapts to the training.

    After each training step, share <- share exp(rate (activity - target)), clipped to [minimum, 1]. The activity is the
    part of the selected negatives with d_an < max_p d_ap + margin: they are in a triplet with nonzero loss.

    Negatives at exactly the same distance as the last one are kept as well. `EmbeddingModel` updates the share in each
    training step, on all pairs, and keeps it in its files.

    See also: `HardestNegatives` for as many negatives as positives; `SemiHard` for a fixed band of distances.

    Example:

        >>> miner = tfdml.miners.AdaptiveNegatives(initial=0.5, target=0.5)
        >>> labels, embeddings = [0, 0, 1, 1, 2], [[0.0], [0.1], [3.0], [3.1], [9.0]]
        >>> pairs = miner(tfdml.pairs.all_pairs(labels, embeddings))
        >>> np.asarray(pairs.negative[0], int).tolist()  # the nearer half of three negatives, rounded up
        [0, 0, 1, 1, 0]
        >>> miner.update(labels, embeddings)  # no negative is within the margin: the activity is 0
        >>> round(float(miner.share), 4)  # 0.5 exp(0.1 (0 - 0.5))
        0.4756

    Args:
        target: activity to hold, above 0 and at most 1.
        margin: margin of the triplets, in units of the distance; usually the loss's margin.
        initial: share at the start, above 0 and at most 1.
        minimum: smallest share, above 0 and at most `initial`. An anchor keeps at least one negative.
        rate: speed of the adaptation, above 0.
        distance: "euclidean", "squared", "cosine" (1 - s), "snr", or a function of `Pairs`.
        match: which labels match, for the update; None for equal class ids, as in the losses.

    Attributes:
        share: the variable of the share.

    Source: after the adaptive controller of Harwood, Kumar, Carneiro, Reid, Drummond, Smart Mining for Deep Metric
    Learning, ICCV 2017, which there sets the hardness of a search over the whole training set.
    """

    saved_arguments = ("target", "margin", "initial", "minimum", "rate", "distance")

    def __init__(
        self,
        *,
        target: float = 0.5,
        margin: float = 0.2,
        initial: float = 0.5,
        minimum: float = 0.01,
        rate: float = 0.1,
        distance: Distance = "squared",
        match: Match | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        require_fraction(target=target, initial=initial)
        require(0 < minimum <= initial, f"minimum={minimum}", f"a share above 0, at most initial={initial}")
        require(margin >= 0, f"margin={margin}", "a distance of 0 or more")
        require_positive(rate=rate)
        require_function_or_none("match", match)
        distance_function(distance)
        self.target, self.margin, self.initial, self.minimum = target, margin, initial, minimum
        self.rate, self.distance, self.match = rate, distance, match
        self.share = self.add_weight(
            shape=(),
            initializer=keras.initializers.Constant(initial),
            trainable=False,
            aggregation="only_first_replica",
            dtype="float32",
            name="share",
        )

    def call(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        d = ops.stop_gradient(distance_function(self.distance)(pairs))
        # This comparison is False for a NaN distance, so its pair is kept and the loss becomes NaN.
        return pairs.drop(negative=d > _limit(d, pairs.negative, ops.convert_to_tensor(self.share)))

    def update(self, labels: Tensor, embeddings: Tensor) -> None:
        """Adapt the share to a training batch, unless it has no triplet or a distance that is not finite."""
        matching = {} if self.match is None else {"match": self.match}
        activity = self._activity(all_pairs(labels, embeddings, **matching))
        share = ops.convert_to_tensor(self.share)
        adapted = ops.clip(share * ops.exp(self.rate * (activity - self.target)), self.minimum, 1.0)
        self.share.assign(ops.where(ops.isfinite(activity), adapted, share))

    def _activity(self, pairs):
        """The part of the selected negatives that is in a triplet of nonzero loss; NaN without triplets."""
        d = ops.stop_gradient(distance_function(self.distance)(pairs))
        farthest = ops.amax(ops.where(pairs.positive > 0, d, -float("inf")), axis=1, keepdims=True)
        is_compared = (self.call(pairs).negative > 0) & (farthest > -float("inf"))
        is_active = is_compared & (d < farthest + self.margin)
        active, number = (ops.sum(ops.cast(mask, "float32")) for mask in (is_active, is_compared))
        activity = ops.where(number > 0, active / ops.maximum(number, 1.0), float("nan"))
        return activity + 0.0 * ops.cast(ops.sum(d), "float32")

    def get_config(self) -> dict[str, Any]:
        """The constructor arguments."""
        match = self.match and keras.saving.serialize_keras_object(self.match)
        return {**super().get_config(), "match": match}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The miner that `get_config` describes."""
        match = config.get("match") and keras.saving.deserialize_keras_object(config["match"])
        return cls(**{**config, "match": match})


def _limit(d, weights, share):
    """The distance of the last of the nearest negatives of each anchor, `(anchors, 1)`; at least one is taken."""
    is_negative = weights > 0
    number = ops.sum(ops.cast(is_negative, "float32"), axis=1, keepdims=True)
    last = ops.maximum(ops.cast(ops.round(share * number), "int32"), 1) - 1
    return ops.take_along_axis(ops.sort(ops.where(is_negative, d, float("inf")), axis=1), last, axis=1)
