"""Training with seeds of their own for runs, folds and draws."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np


def derived_seed(*numbers: int) -> int:
    """A seed below 2**32 for some whole numbers: seed, run and fold for training (run 0 is the search)."""
    return int(np.random.SeedSequence([number % 2**64 for number in numbers]).generate_state(1)[0])


def trained(train: Callable[..., keras.Model], settings: Mapping[str, Any], data: Any, seed: int) -> keras.Model:
    """A model trained by `train(settings, data, seed)`, with Keras, NumPy and Python seeded."""
    keras.utils.set_random_seed(seed)
    return train(dict(settings), data, seed)
