"""Random draws in NumPy, pure functions of (seed, step); the draws of a step do not depend on its block."""

import numpy as np

from tfdml._core.philox import random_bits
from tfdml.samplers.class_table import ClassTable

__all__ = [
    "augmentation_seeds",
    "first_distinct",
    "random_bits",
    "sample_categorical",
    "sample_rows",
    "sample_without_replacement",
    "shuffle",
]

_AUGMENTATION = 0x61_7567_6D65_6E74  # "augment": separates its draws from the draws of rows at the same steps.


def augmentation_seeds(seed: int, steps: np.ndarray, count: int) -> np.ndarray:
    """Seeds of the rows of batches, int64 `(block, count, 2)`, as a pure function of (seed, step)."""
    return random_bits(seed ^ _AUGMENTATION, steps, 2 * count).reshape(len(steps), count, 2)


def sample_without_replacement(bits: np.ndarray, total: np.ndarray | int) -> np.ndarray:
    """k numbers of range(total) without replacement, `(..., k)` like the bits; all ordered samples are equally likely.

    Integer i selects one of the `total - i` remaining numbers: bits modulo (total - i). It favors no number by more
    than a factor of 1 + total / 2^64. Ranks among the remaining numbers (a Lehmer code) become the numbers by stepping
    over each earlier sample, latest first. If k exceeds total, the sample of all numbers repeats in the same order, so
    the counts of two numbers differ by at most one.
    """
    sample = np.arange(bits.shape[-1])
    numbers = bits % np.maximum(total - sample, 1)
    for i in range(bits.shape[-1] - 2, -1, -1):
        later = numbers[..., i + 1 :]
        later += later >= numbers[..., i : i + 1]
    return np.take_along_axis(numbers, np.broadcast_to(sample % total, numbers.shape), axis=-1)


def first_distinct(numbers: np.ndarray, count: int) -> np.ndarray:
    """The first `count` different numbers of each row `(block, n)`, in their order; a row with fewer repeats some."""
    order = np.argsort(numbers, axis=1, kind="stable")
    ascending = np.take_along_axis(numbers, order, axis=1)
    is_repeated = np.zeros(numbers.shape, bool)
    np.put_along_axis(is_repeated, order[:, 1:], ascending[:, 1:] == ascending[:, :-1], axis=1)
    first = np.argsort(is_repeated, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(numbers, first, axis=1)


def sample_rows(table: ClassTable, classes: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """k rows of each class without replacement, `(..., k)` like `bits`; classes with fewer rows repeat them evenly."""
    offsets = sample_without_replacement(bits, table.counts[classes][..., None])
    return table.rows[table.starts[classes][..., None] + offsets]


def sample_categorical(bits: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """One index per integer `(block,)`, with probability proportional to its weight: float64, with a positive sum."""
    cumulative = np.cumsum(weights)
    point = (bits * 2.0**-64 + 0.5) * cumulative[-1]
    return np.minimum(np.searchsorted(cumulative, point, side="right"), len(cumulative) - 1)


def shuffle(bits: np.ndarray) -> np.ndarray:
    """A random permutation of range(n) for each row of bits `(..., n)`: their order; a tie has p <= n^2 / 2^65."""
    return np.argsort(bits, axis=-1, kind="stable")
