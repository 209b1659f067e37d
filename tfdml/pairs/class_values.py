"""Lookup of per-class values by class id, inside compiled functions."""

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from tfdml._core.backends import ops
from tfdml._core.checks import as_unmasked
from tfdml.pairs.base import value_of
from tfdml.pairs.conditions import note_labels


def positive_counts(class_counts):
    """Ascending class ids and their counts, both `(classes,)` int64, without classes of count 0.

    `class_counts` is an array indexed by class id, or a dict from class id to count.
    """
    class_counts = as_unmasked(class_counts, "class_counts")
    if not isinstance(class_counts, dict):
        class_counts = dict(enumerate(np.asarray(class_counts).tolist()))
    pairs = sorted((int(label), int(count)) for label, count in class_counts.items() if count > 0)
    ids, counts = np.array(pairs, dtype="int64").reshape(-1, 2).T
    return ids, counts


def look_up(ids, values, labels, *, source):
    """The value of each label's class, `labels.shape + values.shape[1:]`, by binary search in the ascending `ids`.

    Gradients flow to `values`, `(classes, ...)`, which `source` names in errors. Compiled, unknown classes give NaN.
    """
    dtype = keras.backend.standardize_dtype(labels.dtype)
    _require_class_ids(labels, dtype, source)
    values = ops.convert_to_tensor(values)
    row, is_class = index_of(labels, ids)
    require_among(labels, ids, functools.partial(_raise_for_unknown, source, len(ids)))
    mask = ops.reshape(is_class, (*ops.shape(is_class), *[1] * (len(values.shape) - 1)))
    return ops.where(mask, ops.take(values, row, axis=0), float("nan"))


def index_of(labels, ids):
    """The index of each label in the ascending `ids`, and whether it is there; any index where it is not."""
    dtype = keras.backend.standardize_dtype(labels.dtype)
    representable = (np.iinfo(dtype).min <= ids) & (ids <= np.iinfo(dtype).max)
    ids_in_dtype = ids[representable].astype(dtype)
    row = _last_not_above(labels, ids_in_dtype)
    return row + int(np.argmax(representable)), ops.equal(ops.take(ops.convert_to_tensor(ids_in_dtype), row), labels)


def _last_not_above(labels, ids):
    """The index of the last of the ascending ids that is not above each label, 0 if all are: a binary search."""
    size, ids = len(ids), ops.convert_to_tensor(ids)
    row = ops.zeros_like(labels, dtype="int32")
    for power in reversed(range(size.bit_length())):
        candidate = ops.minimum(row + 2**power, size - 1)
        row = ops.where(ops.take(ids, candidate) <= labels, candidate, row)
    return row


def _require_class_ids(labels, dtype, source):
    shape = tuple(labels.shape)
    if not keras.backend.is_int_dtype(dtype) or (len(shape) > 1 and shape[1] != 1):
        raise ValueError(
            f"Received labels of shape {shape} and dtype {dtype}, expected one integer class id per example: "
            f"{source} holds one value per class."
        )


def require_among(labels: Any, ids: np.ndarray, raise_for: Callable[[Any], None]) -> None:
    """Call `raise_for` with the first label that is not among the ascending ids; compiled functions note the check."""

    def check(numbers: np.ndarray) -> None:
        numbers = np.ravel(numbers)
        nearest = ids[np.minimum(np.searchsorted(ids, numbers), len(ids) - 1)]
        for label in numbers[nearest != numbers][:1]:
            raise_for(label)

    numbers = value_of(labels)
    note_labels(check) if numbers is None else check(numbers)


def _raise_for_unknown(source, classes, label):
    raise ValueError(
        f"Received label {label}, which {source} does not cover; expected one of its {classes} classes. Count the "
        "labels of the whole training set."
    )
