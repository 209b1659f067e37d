"""Random numbers of a key: SplitMix64 in integer arithmetic, the same on every machine and in every release of NumPy.

Source: Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators, 2014.
"""

import numpy as np

_GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def mix(x: np.ndarray) -> np.ndarray:
    """The finalizer of SplitMix64, a bijection of uint64 arrays."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def words(keys: np.ndarray, start: int, count: int) -> np.ndarray:
    """Words `start` to `start + count` of the stream of each key: `(n,)` -> `(n, count)` uint64."""
    return mix(keys[:, None] + np.arange(start + 1, start + count + 1, dtype=np.uint64) * _GOLDEN_GAMMA)


def uniform(words: np.ndarray) -> np.ndarray:
    """Words as float32 in [0, 1)."""
    return (words >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)


def gaussian(words: np.ndarray) -> np.ndarray:
    """Words as nearly normal float32: the sum of their four 16-bit parts, with mean 0 and deviation 1."""
    total = sum((words >> np.uint64(shift)) & np.uint64(0xFFFF) for shift in (0, 16, 32, 48))
    deviation = np.sqrt((65536.0**2 - 1) / 3)  # four times the variance (65536^2 - 1) / 12
    return (total.astype(np.float32) - np.float32(131070)) / np.float32(deviation)
