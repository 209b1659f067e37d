"""Base class of the callbacks that hold data."""

import copy
from typing import Any

import keras
import numpy as np

from tfdml._checks import is_labeled_set, require, require_whole


class Callback(keras.callbacks.Callback):
    """A Keras callback whose copies share the data that it holds.

    Tuners call `copy.deepcopy` once per trial. Data sets, indexes and event files are not copied: a copy might not fit
    in memory, and the sampler would not read it.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> "Callback":
        return copy.copy(self)


def sample_of_set(data: Any, examples: int) -> np.ndarray:
    """Ascending row numbers of all examples of a set, or of `examples` of them, drawn at random with a fixed seed.

    Raises:
        ValueError: data that are not a labeled set, a set without examples, or a number that is not positive.
    """
    require_whole("examples", examples, 1)
    require(is_labeled_set(data), f"data of type {type(data).__name__}", "a labeled set of tfdml.datasets")
    require(len(data) > 0, "a set without examples", "at least one")
    return np.sort(np.random.default_rng(0).permutation(len(data))[:examples])
