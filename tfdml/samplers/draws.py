"""Random draws in NumPy, pure functions of (seed, step); the draws of a step do not depend on its block."""

import numpy as np

from tfdml.samplers.class_table import ClassTable

_WORD, _LOW = np.uint64(32), np.uint64(2**32 - 1)
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_INCREMENTS = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_KEY_OF_SEEDS = np.uint64(0x3EC8F720), np.uint64(0x02461E29)  # as in TensorFlow
_COUNTERS_AT_ONCE = 2**14  # so that the words of a block of counters stay in the cache of a core


def random_bits(seed: int, steps: np.ndarray, count: int) -> np.ndarray:
    """Independent 64-bit integers, uniform over int64, as a pure function of (seed, step): `(block, count)`.

    They are those of `tf.random.stateless_uniform` with the seed `(seed, step)`, the type int64 and `alg="philox"`.
    Philox takes (seed, step) as its key and counter by a one-to-one map, so no two steps or seeds share an integer.
    Steps of batches are not negative; a sampler may use negative ones for other draws.

    Source: Salmon, Moraes, Dror, Shaw, Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011, Philox 4x32-10.
    """
    mixed = _philox((*_words(np.int64(seed)), *_words(steps)), _KEY_OF_SEEDS)
    key, high = [x[:, None] for x in mixed[:2]], [x[:, None] for x in mixed[2:]]
    counters, none = np.arange(-(-count // 2), dtype=np.uint64), np.uint64(0)
    bits = np.empty((len(steps), len(counters), 2), np.uint64)
    size = max(1, _COUNTERS_AT_ONCE // max(1, len(counters)))
    for rows in (slice(first, first + size) for first in range(0, len(steps), size)):
        words = _philox((counters, none, *(x[rows] for x in high)), [x[rows] for x in key])
        bits[rows, :, 0], bits[rows, :, 1] = words[0] | words[1] << _WORD, words[2] | words[3] << _WORD
    return bits.reshape(len(steps), 2 * len(counters))[:, :count].view(np.int64)


def _words(integers):
    """The low and the high 32 bits of int64 numbers, as uint64."""
    bits = np.asarray(integers, np.int64).view(np.uint64)
    return bits & _LOW, bits >> _WORD


def _philox(counter, key):
    """Ten rounds on four words of a counter and two words of a key, 32 bits each in uint64."""
    a, b, c, d = counter
    for number in range(10):
        first, second = ((k + np.uint64(number) * by) & _LOW for k, by in zip(key, _INCREMENTS, strict=True))
        p, q = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, b, c, d = (q >> _WORD) ^ b ^ first, q & _LOW, (p >> _WORD) ^ d ^ second, p & _LOW
    return a, b, c, d


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
