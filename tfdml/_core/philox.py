"""Random integers as a pure function of two numbers, the same in NumPy as in TensorFlow."""

from typing import Any

import numpy as np

from tfdml._core.optional import has_tensorflow, tf

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


def bits_of_seed(seed: Any, count: int) -> Any:
    """`count` random integers of a seed `(2,)`: a tensor, or, where TensorFlow is not installed, an array."""
    if has_tensorflow():
        return tf.random.stateless_uniform((count,), seed, minval=None, maxval=None, dtype=tf.int64, alg="philox")
    return random_bits(int(seed[0]), np.asarray(seed[1:]), count)[0]


def array_functions() -> Any:
    """NumPy, or, where TensorFlow is installed, its form for tensors."""
    return tf.experimental.numpy if has_tensorflow() else np


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
