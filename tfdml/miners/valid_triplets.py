"""Mining by valid triplets, the mining step of the multi-similarity loss."""

import math
from dataclasses import asdict, dataclass

import keras
from keras import ops

from tfdml.pairs import cosine


def valid_triplets(pairs, *, margin=0.1):
    """Keep the pairs that stand in some triplet which violates the margin.

    A negative stays where s_an > min_p s_ap - margin; a positive stays where s_ap < max_n s_an + margin.

    Args:
        pairs: `Pairs` of A anchors and R references; cosine similarity.
        margin: how far inside the hardest pair of the other sign a pair still counts as informative.

    Returns:
        `Pairs` with weight 0 on all others. An anchor without positives or without negatives keeps nothing. No
        gradient flows through the choice.

    Source: A Unified View of Deep Metric Learning via Gradient Analysis, section 5.1 (VTHM); Wang et al.,
    Multi-Similarity Loss with General Pair Weighting for Deep Metric Learning, CVPR 2019, eqs. 11 and 12.
    """
    s = ops.stop_gradient(cosine(pairs))
    hardest_positive = ops.min(ops.where(pairs.positive > 0, s, float("inf")), axis=1, keepdims=True)
    hardest_negative = ops.max(ops.where(pairs.negative > 0, s, -float("inf")), axis=1, keepdims=True)
    return pairs._replace(
        # Written as what is dropped, so that a similarity that is NaN stays and shows in the loss.
        positive=ops.where(s >= hardest_negative + margin, 0.0, pairs.positive),
        negative=ops.where(s <= hardest_positive - margin, 0.0, pairs.negative),
    )


@keras.saving.register_keras_serializable("tfdml")
@dataclass(frozen=True)
class ValidTriplets:
    """Valid-triplet mining as an object to hand to a loss: see `tfdml.miners.valid_triplets`.

    Args:
        margin: 0.1 in both papers; a negative margin is stricter.
    """

    margin: float = 0.1

    def __post_init__(self):
        if not math.isfinite(self.margin):
            raise ValueError(f"Received margin={self.margin}, expected a finite difference of cosine similarities.")

    def __call__(self, pairs):
        """`Pairs -> Pairs`."""
        return valid_triplets(pairs, margin=self.margin)

    def get_config(self):
        """The settings, for Keras."""
        return asdict(self)

    @classmethod
    def from_config(cls, config):
        """The miner that `get_config` described."""
        return cls(**config)
