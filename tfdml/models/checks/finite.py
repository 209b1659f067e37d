"""Examples and weights with NaN: one step would make the network NaN."""

from typing import Any

import keras
import numpy as np

from tfdml._core.checks import require
from tfdml.models.checks.outputs import as_array

_CHECKED_NUMBERS = 2**20  # at the same time


def require_finite(model: keras.Model, x: Any, weights: Any = None) -> None:
    """Raise a ValueError that names the first row of arrays whose embedding, or whose weight, is not finite."""
    for array in keras.tree.flatten(weights):
        row = first_row_that_is_not_finite(array)
        require(row is None, f"sample_weight that is NaN or infinite (first in row {row})", "finite weights")
    rows = [first_row_that_is_not_finite(array) for array in keras.tree.flatten(x)]
    row = min((row for row in rows if row is not None), default=None)
    if row is not None and not _is_finite(model, keras.tree.map_structure(lambda array: array[row : row + 1], x)):
        raise ValueError(
            f"Received examples with a value that is NaN or infinite (first in row {row}), whose embedding is not "
            "finite: one step would make all weights NaN. Leave out these rows, or fill in the values."
        )


def first_row_that_is_not_finite(array: Any) -> int | None:
    """The first row of an array or tensor of floats with NaN or infinity; None if there is none, or for other data."""
    is_readable = isinstance(array, np.ndarray) or keras.ops.is_tensor(array)
    values = as_array(array) if is_readable else None
    if values is None or not values.size or values.dtype.kind != "f":
        return None
    step = max(1, _CHECKED_NUMBERS * len(values) // values.size)
    for start in range(0, len(values), step):
        is_finite = np.isfinite(values[start : start + step])
        if not is_finite.all():
            return start + int(np.argmin(is_finite.reshape(len(is_finite), -1).all(axis=1)))
    return None


def _is_finite(model, x):
    """Whether all outputs of an example are finite, as those of a network that fills in missing values."""
    try:
        outputs = keras.tree.flatten(model(x, training=False))
    except Exception:  # of any type, by a layer of a user; the step will raise it
        return True
    return all(np.isfinite(keras.ops.convert_to_numpy(output)).all() for output in outputs)
