"""Batches of several designs in one stream, each batch of one of them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy.typing as npt
import tensorflow as tf

from tfdml._checks import require_seed
from tfdml.importance import PairProbabilities, mixed
from tfdml.pairs import Pairs
from tfdml.samplers.base import Sampler
from tfdml.samplers.draws import pick, random_words


@dataclass(frozen=True, kw_only=True)
class MixedSampler(Sampler):
    """Each batch is drawn by one of several samplers, chosen by chance.

    The choice is independent of what the samplers draw, and of every other batch. Batch t is batch t of the sampler
    that was chosen for it, by that sampler's own seed. A pair of a batch is (i, j) with probability

        Q(i, j) = sum_k weight_k Q_k(i, j)

    where the weights are divided by their sum. It is known where all the Q_k are.

    Args:
        samplers: the samplers, all of one `batch_size` and one `pairing`.
        weights: a positive number for each: how often it is chosen, relative to the others.
        seed: any int64.
    """

    samplers: tuple[Sampler, ...]
    weights: tuple[float, ...]
    seed: int = 0

    def __post_init__(self):
        object.__setattr__(self, "samplers", tuple(self.samplers))
        object.__setattr__(self, "weights", tuple(self.weights))
        require_seed(self.seed)
        _require_samplers(self.samplers)
        numbers = all(isinstance(weight, Real) and 0 < weight < math.inf for weight in self.weights)
        if not numbers or len(self.weights) != len(self.samplers):
            raise ValueError(
                f"Received weights={self.weights} for {len(self.samplers)} samplers, expected a positive number for "
                "each. Leave out a sampler that is never to be chosen."
            )

    @property
    def batch_size(self) -> int:
        """Rows in a batch, the same for all samplers."""
        return self.samplers[0].batch_size

    @property
    def pairing(self) -> Callable[..., Pairs]:  # type: ignore[override]
        """The function of `tfdml.pairs` that makes `Pairs` of the batches, the same for all samplers."""
        return self.samplers[0].pairing

    def class_table(self, labels: npt.ArrayLike) -> tuple[Any, ...]:
        """What each of the samplers makes of the labels: a tuple."""
        return tuple(sampler.class_table(labels) for sampler in self.samplers)

    def pair_probabilities(self, labels: npt.ArrayLike) -> PairProbabilities:
        """Q: see `tfdml.importance.mixed`."""
        parts = [sampler.pair_probabilities(labels) for sampler in self.samplers]
        return mixed(parts, [weight / sum(self.weights) for weight in self.weights])

    def block_steps(self, table: tuple[Any, ...]) -> int:
        """The smallest of the samplers' blocks."""
        return min(sampler.block_steps(part) for sampler, part in zip(self.samplers, table, strict=True))

    def draw(self, table: tuple[Any, ...], steps: tf.Tensor) -> tf.Tensor:
        """The batches of `steps` as row numbers `(block, batch)`.

        The choice has the steps from the least int64 on for itself, so that it shares no word with a sampler of the
        same seed.
        """
        words = random_words(self.seed, steps + tf.int64.min, 1)[:, 0]
        chosen = pick(words, tf.constant(self.weights, tf.float64))
        rows = [sampler.draw(part, steps) for sampler, part in zip(self.samplers, table, strict=True)]
        return tf.gather(tf.stack(rows, axis=1), chosen, batch_dims=1)


def _require_samplers(samplers):
    """Raise a ValueError unless these can be mixed.

    A mixture of mixtures could share its choices with the inner one, where both have one seed, so it is not allowed.
    """
    wrong = [part for part in samplers if not isinstance(part, Sampler) or isinstance(part, MixedSampler)]
    if wrong or not samplers:
        raise ValueError(
            f"Received samplers={samplers!r}, expected one or more tfdml.samplers. In place of a MixedSampler give the "
            "samplers that it mixes."
        )
    for name in ("batch_size", "pairing"):
        values = [getattr(sampler, name) for sampler in samplers]
        if any(value != values[0] for value in values):
            values = [getattr(value, "__name__", value) for value in values]
            raise ValueError(f"Received samplers of {name} {', '.join(map(str, values))}, expected the same for all.")
