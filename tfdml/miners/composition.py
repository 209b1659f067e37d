"""A sequence of miners as one miner."""

from collections.abc import Sequence
from typing import Any, Self

import keras

from tfdml._core.checks import require, require_miner_or_none
from tfdml._core.serialization import serializable
from tfdml.layers.base import LossLayer
from tfdml.pairs import Pairs
from tfdml.pairs.base import Miner, may_be_in_blocks


@serializable
class Composition(LossLayer):
    """Miners in sequence, see `compose`."""

    def __init__(self, miners: Sequence[Miner], **options: Any) -> None:
        super().__init__(**options)
        require(len(miners) > 0 and all(map(callable, miners)), f"miners={miners!r}", "one or more functions of Pairs")
        for miner in miners:
            require_miner_or_none("miners", miner)
        self.miners = list(miners)
        self.in_blocks = may_be_in_blocks(*miners)

    def call(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        for miner in self.miners:
            pairs = miner(pairs)
        return pairs

    def get_config(self) -> dict[str, Any]:
        """The miners, for Keras."""
        return {**super().get_config(), "miners": [keras.saving.serialize_keras_object(miner) for miner in self.miners]}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The composition that `get_config` describes."""
        miners = [keras.saving.deserialize_keras_object(miner) for miner in config["miners"]]
        return cls(**{**config, "miners": miners})


def compose(*miners: Miner) -> Composition:
    """One miner from several: `compose(a, b)` applies `a`, then `b` to the pairs that `a` returned.

    The result is a Keras layer, so files keep the random state of its miners.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 0, 1, 1], [[0.5], [0.7], [0.6], [2.0]])
        >>> miner = tfdml.miners.compose(tfdml.miners.HardestPositives(), tfdml.miners.HardestNegatives())
        >>> mined = miner(pairs)  # one positive is left, so the second miner keeps one negative
        >>> np.asarray(mined.positive, int).tolist(), np.asarray(mined.negative, int).tolist()
        ([[0, 1, 0, 0]], [[0, 0, 1, 0]])
    """
    return Composition(miners)
