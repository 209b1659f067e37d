"""Checks of what a user hands over, made at the call."""

import inspect
import numbers
from typing import Any

import numpy as np
import numpy.typing as npt

METRICS = ("cosine", "dot", "euclidean")
INT64 = np.iinfo(np.int64)


def require(condition: bool, received: str, expected: str) -> None:
    """Raise the ValueError of a loss option: what was received, what is expected."""
    if not condition:
        raise ValueError(f"Received {received}, expected {expected}.")


def require_function_or_none(option: str, value: Any) -> None:
    """Raise the ValueError of an option that takes a function."""
    require(value is None or callable(value), f"{option}={value!r}", "a function or None")


def require_miner_or_none(option: str, value: Any) -> None:
    """Raise the ValueError of an option that takes a function `Pairs -> Pairs`."""
    require_function_or_none(option, value)
    require(
        value is None or _takes(value, "pairs"),
        f"{option}={value!r}",
        "a function Pairs -> Pairs. A selector (pairs, d), such as tfdml.miners.hardest_negatives, is for "
        "TripletLoss(negatives=...)",
    )


def require_selector_or_none(option: str, value: Any) -> None:
    """Raise the ValueError of an option that takes a selector of negatives, see `tfdml.miners.negatives`."""
    require_function_or_none(option, value)
    require(
        value is None or _takes(value, "pairs", "d"),
        f"{option}={value!r}",
        "a selector, a function (pairs, d), such as tfdml.miners.hardest_negatives. A miner, a function "
        "Pairs -> Pairs, is for miner=",
    )


def _takes(function, *arguments):
    """Whether a function, or the `call` of a Keras layer, takes these positional arguments and needs no others."""
    try:
        inspect.signature(getattr(function, "call", function)).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # Some built-in functions have no signature.
        return True
    return True


def require_whole(name: str, value: Any, least: int, most: int | None = None) -> None:
    """Raise a ValueError unless `value` is a whole number, at least `least` and, if given, at most `most`."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"Received {name}={value!r}, expected a whole number {bounds}.")


def require_steps(start: int, num_shards: int, block: int) -> None:
    """Raise a ValueError unless the steps of a stream, at least those of its first block, fit in int64."""
    if (int(start) + block) * int(num_shards) > INT64.max:
        raise ValueError(
            f"Received start={start} with num_shards={num_shards}, whose batches have numbers beyond int64, expected "
            f"start * num_shards + shard_index below {INT64.max}. Lower start or num_shards."
        )


def require_seed(seed: Any) -> None:
    """Raise a ValueError unless `seed` is a whole number of 64 bits."""
    require_whole("seed", seed, int(INT64.min), int(INT64.max))


def unmasked(name: str, array: Any) -> Any:
    """The data of a masked array without masked entries; everything else as it is.

    Raises:
        ValueError: masked entries, whose mask would be lost in a tensor.
    """
    if np.ma.is_masked(array):
        raise ValueError(
            f"Received {name} with {np.ma.count_masked(array)} masked entries, expected an array without masked "
            "entries, as masks are not used. Drop these rows or fill in the entries."
        )
    return np.ma.getdata(array) if isinstance(array, np.ma.MaskedArray) else array


def integer_labels(labels: npt.ArrayLike) -> np.ndarray:
    """Class ids as an int64 array `(examples,)`.

    Args:
        labels: integers of shape `(examples,)` or `(examples, 1)`.

    Raises:
        ValueError: labels that are empty, of another shape or type, beyond int64, or masked.
    """
    labels = unmasked("labels", labels)
    labels = np.asarray(labels)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or not len(labels):
        raise ValueError(
            f"Received labels of shape {labels.shape}, expected (examples,) or (examples, 1) with at least one example."
        )
    if labels.dtype.kind not in "iu":
        raise ValueError(
            f"Received labels of type {labels.dtype}, expected integer class ids. "
            "Number the classes, for example with np.unique(labels, return_inverse=True)[1]."
        )
    if labels.max() > INT64.max:
        raise ValueError(f"Received a label of {labels.max()}, expected class ids that fit in int64.")
    return labels.astype(np.int64)


def check_metric(metric):
    """Raises `ValueError` unless `metric` is one of `METRICS`."""
    if metric not in METRICS:
        raise ValueError(f"Received metric={metric!r}, expected one of {', '.join(map(repr, METRICS))}.")


def as_vectors(vectors: npt.ArrayLike, name: str) -> np.ndarray:
    """Checks vectors and brings them to float32, rows contiguous.

    Args:
        vectors: `(n, dim)`, anything NumPy turns into numbers.
        name: what to call them in an error.

    Returns:
        `(n, dim)` float32; the input itself where it already is that.

    Raises:
        ValueError: not numbers, not two-dimensional, no columns, masked entries, or a value that is not finite.
    """
    vectors = unmasked(name, vectors)
    try:
        array = np.asarray(vectors)
        if np.iscomplexobj(array):
            raise TypeError("complex numbers have no order")
        with np.errstate(over="ignore"):
            array = np.ascontiguousarray(array, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Received {name} that are not a matrix of numbers ({error}). Pass (n, dim) floats."
        ) from error
    if np.ndim(vectors) != 2 or array.shape[1] == 0:
        raise ValueError(
            f"Received {name} of shape {np.shape(vectors)}, expected (n, dim) with dim > 0. "
            "Turn one vector v into v[None]; flatten feature maps first."
        )
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
        raise ValueError(
            f"Received {name} with a value that is NaN, infinite or too large for float32 (first in row {row}). "
            "Look for a diverged model or a division by zero."
        )
    return array


def as_ids(ids: npt.ArrayLike, count: int, name: str) -> np.ndarray:
    """Checks integer ids, of classes, groups or items, and brings them to int64 without loss.

    Args:
        ids: `(count,)` or `(count, 1)` integers.
        count: how many there must be.
        name: what to call them in an error.

    Returns:
        `(count,)` int64.

    Raises:
        ValueError: not integers (floats would merge large ids), wrong length, masked entries, or beyond int64.
    """
    array = np.asarray(unmasked(name, ids))
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(f"Received {name} of dtype {array.dtype}, expected integers. Number the names first.")
    if array.shape != (count,):
        raise ValueError(f"Received {name} of shape {np.shape(ids)}, expected ({count},): one id a row.")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"Received {name} up to {array.max()}, expected at most 2**63 - 1. Renumber them.")
    return array.astype(np.int64)
