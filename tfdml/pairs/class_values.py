"""Values of classes, looked up by class id inside compiled functions."""

import keras
import numpy as np
from keras import ops

from tfdml._checks import as_unmasked


def known_counts(class_counts):
    """Class ids `(classes,)` int64 in ascending order, and their counts `(classes,)` int64; counts of 0 are left out.

    Args:
        class_counts: an array indexed by class id, or a dict of class id to count.
    """
    class_counts = as_unmasked(class_counts, "class_counts")
    if not isinstance(class_counts, dict):
        class_counts = dict(enumerate(np.asarray(class_counts).tolist()))
    known = sorted((int(label), int(count)) for label, count in class_counts.items() if count > 0)
    ids, counts = np.array(known, dtype="int64").reshape(-1, 2).T
    return ids, counts


def look_up(ids, values, labels, *, source):
    """The value of each label, by binary search.

    Args:
        ids: `(classes,)` int64 in ascending order.
        values: `(classes, ...)` float array, or a variable of that shape, through which gradients flow.
        labels: `(...)` integer class ids.
        source: what holds the values, for the errors.

    Returns:
        Values of shape `labels.shape + values.shape[1:]`. Inside a compiled function, where no error can be raised,
        the value of an unknown class is NaN.

    Raises:
        ValueError: a label that is not among `ids`, where labels can be read; labels that are no class ids.
    """
    dtype, shape = keras.backend.standardize_dtype(labels.dtype), tuple(labels.shape)
    if not keras.backend.is_int_dtype(dtype) or (len(shape) > 1 and shape[1] != 1):
        raise ValueError(
            f"Received labels of shape {shape} and dtype {dtype}, expected one integer class id an example: "
            f"{source} knows classes."
        )
    possible = (np.iinfo(dtype).min <= ids) & (ids <= np.iinfo(dtype).max)
    values = ops.convert_to_tensor(values)
    if not possible.all():
        values = ops.take(values, np.flatnonzero(possible), axis=0)
    ids = ops.convert_to_tensor(ids[possible].astype(dtype))
    place = ops.zeros_like(labels, dtype="int32")
    for power in reversed(range(int(possible.sum()).bit_length())):
        further = ops.minimum(place + 2**power, int(possible.sum()) - 1)
        place = ops.where(ops.take(ids, further) <= labels, further, place)
    known = ops.equal(ops.take(ids, place), labels)
    _raise_for_unknown(labels, known, source, len(possible))
    found = ops.take(values, place, axis=0)
    return ops.where(ops.reshape(known, (*ops.shape(known), *[1] * (len(values.shape) - 1))), found, float("nan"))


def _raise_for_unknown(labels, known, source, classes):
    """An error for unknown labels where values can be read: outside compiled functions."""
    try:
        labels, known = ops.convert_to_numpy(labels), ops.convert_to_numpy(known)
    except (NotImplementedError, TypeError):
        return
    if not known.all():
        raise ValueError(
            f"Received label {labels[~known].ravel()[0]}, which {source} does not cover; expected one of its "
            f"{classes} classes. Count the labels of the whole training set."
        )
