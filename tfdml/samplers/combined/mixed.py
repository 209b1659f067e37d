"""Mixtures: each batch comes from one of several samplers."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import INT64, require, require_seed
from tfdml.importance.probabilities import PairProbabilities, mixed_probabilities
from tfdml.pairs import Pairs
from tfdml.samplers.base import Sampler
from tfdml.samplers.combined.two_sets import TwoSetSampler
from tfdml.samplers.draws import random_bits, sample_categorical


@dataclass(frozen=True, kw_only=True)
class MixedSampler(Sampler):
    """Mixture: each batch is drawn by one of several samplers, selected at random.

    Selections are independent. Batch t is batch t of the selected sampler, with the seed of that sampler.

    Example:

        >>> labels = np.repeat(np.arange(4), 3)
        >>> group = tfdml.samplers.GroupSampler(classes_per_batch=2, examples_per_class=2, seed=0)
        >>> uniform = tfdml.samplers.UniformSampler(batch_size=4, seed=0)
        >>> sampler = tfdml.samplers.MixedSampler(samplers=(group, uniform), weights=(1, 1), seed=0)
        >>> [labels[rows].tolist() for rows in sampler.index_batches(labels)[:3]]
        [[2, 2, 1, 1], [3, 1, 2, 0], [3, 3, 0, 0]]

    Args:
        samplers: the samplers, all of one `batch_size` and one `pairing`.
        weights: positive relative frequency of each sampler.
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
                "each. Leave out samplers that are never to be selected."
            )

    @property
    def batch_size(self) -> int:
        """Rows in a batch, the same for all samplers."""
        return self.samplers[0].batch_size

    @property
    def pairing(self) -> Callable[..., Pairs]:  # type: ignore[override]
        """The function of `tfdml.pairs` that turns batches into `Pairs`, the same for all samplers."""
        return self.samplers[0].pairing

    def prepare(self, labels: npt.ArrayLike) -> tuple[Any, ...]:
        """The prepared labels of each sampler."""
        return tuple(sampler.prepare(labels) for sampler in self.samplers)

    def pair_probabilities(self, labels: npt.ArrayLike) -> PairProbabilities:
        """Q(i, j) = sum_k weight_k Q_k(i, j), if all samplers have a Q. P_U is over the classes of all of them."""
        designs = [sampler.pair_probabilities(labels) for sampler in self.samplers]
        return mixed_probabilities(designs, [weight / sum(self.weights) for weight in self.weights])

    def block_steps(self, table: tuple[Any, ...]) -> int:
        """The smallest of the samplers' blocks."""
        return min(sampler.block_steps(prepared) for sampler, prepared in zip(self.samplers, table, strict=True))

    def draw(self, table: tuple[Any, ...], steps: np.ndarray) -> np.ndarray:
        """The batches of `steps` as row numbers `(block, batch)`."""
        bits = random_bits(self.seed, steps + INT64.min, 1)[:, 0]  # shared with no sampler of the same seed
        chosen = sample_categorical(bits, np.array(self.weights, np.float64))
        rows = np.empty((len(steps), self.batch_size), np.int64)
        for number in np.unique(chosen):
            rows[chosen == number] = self.samplers[number].draw(table[number], steps[chosen == number])
        return rows


def _require_samplers(samplers):
    """Raise a ValueError unless these mix: a mixture inside would make the same selection with one seed."""
    excluded = MixedSampler | TwoSetSampler
    require(
        samplers and all(isinstance(one, Sampler) and not isinstance(one, excluded) for one in samplers),
        f"samplers={samplers!r}",
        "one or more tfdml.samplers of one set. In place of a MixedSampler give the samplers that it mixes",
    )
    for name in ("batch_size", "pairing"):
        values = [getattr(sampler, name) for sampler in samplers]
        if any(value != values[0] for value in values):
            values = [getattr(value, "__name__", value) for value in values]
            raise ValueError(f"Received samplers of {name} {', '.join(map(str, values))}, expected the same for all.")
