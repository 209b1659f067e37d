"""One miner after another."""

from collections.abc import Sequence
from typing import Any, Self

import keras

from tfdml._serialization import serializable
from tfdml.layers.base import LossLayer
from tfdml.pairs import Pairs
from tfdml.pairs.base import Miner


@serializable
class Composition(LossLayer):
    """Miners that work one after another: each sees the pairs that the one before it kept.

    A Keras layer, so that the random state of its miners is kept, too.

    Args:
        miners: functions `Pairs -> Pairs`, the first one first.
    """

    def __init__(self, miners: Sequence[Miner], **options: Any) -> None:
        super().__init__(**options)
        if not miners or not all(callable(miner) for miner in miners):
            raise ValueError(f"Received miners {miners!r}, expected one or more functions of Pairs.")
        self.miners = list(miners)

    def call(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        for miner in self.miners:
            pairs = miner(pairs)
        return pairs

    def get_config(self) -> dict[str, Any]:
        """The miners, for Keras."""
        return {**super().get_config(), "miners": [keras.saving.serialize_keras_object(one) for one in self.miners]}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The composition that `get_config` described."""
        miners = [keras.saving.deserialize_keras_object(one) for one in config.pop("miners")]
        return cls(miners, **config)


def compose(*miners: Miner) -> Composition:
    """One miner of several: `compose(a, b)` is what `b` makes of what `a` keeps.

    Example:

        miner = tfdml.miners.compose(tfdml.miners.HardestPositives(), tfdml.miners.DistanceWeighted(seed=0))

    Args:
        miners: functions `Pairs -> Pairs`.

    Returns:
        A `Composition`, a function `Pairs -> Pairs` that is saved with the loss.

    Raises:
        ValueError: no miner, or something that is no function.
    """
    return Composition(miners)
