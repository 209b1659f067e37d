"""Base class of the callbacks that hold data."""

import copy
from typing import Any

import keras
import numpy as np


class Callback(keras.callbacks.Callback):
    """A Keras callback whose copies share the data that it holds.

    Tuners call `copy.deepcopy` once per trial. Data sets, indexes and event files are not copied: a copy might not fit
    in memory, and the sampler would not read it.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> "Callback":
        return copy.copy(self)


def sample(count: int, most: int) -> np.ndarray:
    """Ascending row numbers of all examples, or of `most` of them, drawn at random with a fixed seed."""
    return np.sort(np.random.default_rng(0).permutation(count)[:most])
