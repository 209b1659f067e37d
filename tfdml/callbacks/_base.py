"""Base class of the callbacks that hold data."""

import copy
from typing import Any

import keras


class Callback(keras.callbacks.Callback):
    """A Keras callback whose copies share the data that it holds.

    Tuners call `copy.deepcopy` once per trial. Data sets, indexes and event files are not copied: a copy might not fit
    in memory, and the sampler would not read it.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> "Callback":
        return copy.copy(self)
