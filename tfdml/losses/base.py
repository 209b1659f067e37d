"""What every loss over pairs shares: labels that keep every digit, and sums over pairs that never overflow."""

import keras
from keras import ops

from tfdml.pairs import all_pairs

serializable = keras.saving.register_keras_serializable("tfdml")


class PairLoss(keras.losses.Loss):
    """A Keras loss over a pure function of `Pairs`.

    `loss(labels, embeddings)` pairs the batch, lets the miner choose, and hands one value per anchor to the Keras
    reduction. It differs from `keras.losses.Loss` in one thing: labels are never cast to a float type, which would
    merge large class ids.

    Args:
        function: `function(pairs, **settings)`, returns `(anchors,)`.
        settings: keyword arguments of `function`; they are the loss's own options in its config.
        pairing: how a batch becomes `Pairs`: `all_pairs`, `consecutive_pairs` or a function `(labels, embeddings)`.
        miner: a function `Pairs -> Pairs` that chooses or weighs pairs, or None for all pairs.
        name, reduction, dtype: as in `keras.losses.Loss`.
    """

    def __init__(
        self,
        function,
        settings,
        *,
        pairing=all_pairs,
        miner=None,
        name=None,
        reduction="sum_over_batch_size",
        dtype=None,
    ):
        super().__init__(name=name or function.__name__, reduction=reduction, dtype=dtype)
        for option, value in {"pairing": pairing, "miner": miner}.items():
            if not (callable(value) or (option == "miner" and value is None)):
                raise ValueError(f"Received {option}={value!r}, expected a function. See tfdml.{option}s.")
        self.function = function
        self.settings = settings
        self.pairing = pairing
        self.miner = miner
        self._reduce = _Reduce(name=self.name, reduction=reduction, dtype=dtype)

    def __call__(self, y_true, y_pred, sample_weight=None):
        """The reduced loss of integer labels `(batch,)` and embeddings `(batch, dim)`."""
        values = self.call(y_true, y_pred)
        return self._reduce(values, values, sample_weight)

    def call(self, y_true, y_pred):
        """One value per anchor, `(anchors,)`."""
        pairs = self.pairing(y_true, y_pred)
        if self.miner is not None:
            pairs = self.miner(pairs)
        return self.function(pairs, **self.settings)

    @property
    def layers(self):
        """The Keras layers that this loss holds; `tfdml.models.EmbeddingModel` trains and saves them."""
        return [part for part in vars(self).values() if isinstance(part, keras.Layer)]

    def get_config(self):
        """Everything the constructor takes, as plain values."""
        parts = {**self.settings, "pairing": self.pairing, "miner": self.miner}
        return {
            **{name: keras.saving.serialize_keras_object(part) for name, part in parts.items()},
            **super().get_config(),
            "dtype": self.dtype,
        }

    @classmethod
    def from_config(cls, config):
        """The loss that `get_config` described."""
        return cls(**{name: keras.saving.deserialize_keras_object(part) for name, part in config.items()})


class _Reduce(keras.losses.Loss):
    """Keras' own reduction, of values that are already there."""

    def call(self, y_true, y_pred):
        return y_pred


def mean_over_pairs(values, pairs):
    """Weighted sum of `values` over an anchor's pairs, divided by the number of its pairs.

    Args:
        values: `(anchors, references)` losses of the pairs.
        pairs: `Pairs`; a pair is where a weight is not 0, and weights are not counted in the divisor.

    Returns:
        `(anchors,)`, 0 for an anchor without pairs.
    """
    weights = pairs.positive + pairs.negative
    count = ops.sum(ops.cast(weights > 0, values.dtype), axis=1)
    return ops.sum(weights * values, axis=1) / ops.maximum(count, 1.0)


def softplus_sum_exp(scores, weights):
    """log(1 + sum_r w_r exp(score_r)) for each row, without overflow.

    Args:
        scores: `(anchors, references)`.
        weights: `(anchors, references)`, not negative.

    Returns:
        `(anchors,)`, 0 where all weights are 0.
    """
    scores = ops.where(weights > 0, scores, -float("inf"))
    top = ops.stop_gradient(ops.maximum(ops.max(scores, axis=1), 0.0))
    return top + ops.log(ops.exp(-top) + ops.sum(weights * ops.exp(scores - top[:, None]), axis=1))


def require(condition, received, expected):
    """Raise the ValueError of a loss option: what was received, what is expected."""
    if not condition:
        raise ValueError(f"Received {received}, expected {expected}.")
