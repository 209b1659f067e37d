"""Checks of arguments: `require_x` raises unless its argument is an x; `as_x` also returns it in the proper form."""

import contextlib
import functools
import inspect
import numbers
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from tfdml._core.optional import has_tensorflow, tf
from tfdml.typing import Data

METRICS = ("cosine", "dot", "euclidean")
INT64 = np.iinfo(np.int64)
_CHECKED_NUMBERS = 2**20  # at the same time
LEAVE_OUT = "Leave out what cannot be loaded: data = data.take(data.check_files().usable_rows)."
ADVICE = f". {LEAVE_OUT} batches(..., on_error='skip') of a sampler replaces it."
NO_OTHER = ". Leave the class out."
SHAPES = ". Expected one shape: resize or crop in load or augment."
_ENDS = "|".join(map(re.escape, (ADVICE, NO_OTHER, SHAPES)))


def require(condition: bool, received: str, expected: str) -> None:
    """Raise a ValueError that says what was received and what is expected, unless `condition` holds."""
    if not condition:
        raise ValueError(f"Received {received}, expected {expected}.")


def require_positive(**values: Any) -> None:
    """Raise a ValueError unless every argument, such as `require_positive(scale=scale)`, is a number above 0."""
    for name, value in values.items():
        require(_is_number(value) and value > 0, f"{name}={value!r}", "a number above 0")


def require_number(name: str, value: Any) -> None:
    """Raise a ValueError unless `value` is a finite real number."""
    require(_is_number(value) and bool(np.isfinite(float(value))), f"{name}={value!r}", "a finite number")


def _is_number(value):
    return isinstance(value, numbers.Real) or getattr(value, "shape", None) == ()


def require_declared(function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Raise a ValueError for an argument of a constructor that is declared as a number or a seed, and is none."""
    try:
        given = inspect.signature(function).bind_partial(None, *arguments, **options)
    except TypeError:  # the call itself says which option it does not know
        return
    for name, value in given.arguments.items():
        declared = given.signature.parameters[name].annotation
        text = declared if isinstance(declared, str) else inspect.formatannotation(declared)
        kind, *others = text.split(" | ")
        if kind == "float" and not _is_declared(value, others):
            require_number(name, value)
        elif name == "seed" and not _is_declared(value, others):
            require_seed(value)


def _is_declared(value, kinds):
    """Whether a value is None or text where these are declared, or a function or layer where something else is."""
    if value is None or isinstance(value, str):
        return ("None" if value is None else "str") in kinds
    return callable(value) and bool({*kinds} - {"None", "str"})


def require_fraction(**values: Any) -> None:
    """Raise a ValueError unless every argument, such as `require_fraction(momentum=momentum)`, is in (0, 1]."""
    for name, value in values.items():
        require(_is_number(value) and 0 < value <= 1, f"{name}={value!r}", "a number above 0 and at most 1")


def require_one_of(choices: Sequence[Any], **values: Any) -> None:
    """Raise a ValueError unless every argument, such as `require_one_of(TIES, ties=ties)`, is one of the choices."""
    for name, value in values.items():
        require(value in choices, f"{name}={value!r}", f"one of {', '.join(map(repr, choices))}")


def require_function_or_none(option: str, value: Any) -> None:
    """Raise a ValueError unless the value is a function or None."""
    require(value is None or callable(value), f"{option}={value!r}", "a function or None")


def require_miner_or_none(option: str, value: Any) -> None:
    """Raise a ValueError unless the value is a function `Pairs -> Pairs` or None."""
    require_function_or_none(option, value)
    require(
        value is None or takes(value, "pairs"),
        f"{option}={value!r}",
        "a function Pairs -> Pairs. A selector (pairs, d), such as tfdml.miners.hardest_negatives, is for "
        "TripletLoss(negatives=...)",
    )


def require_selector_or_none(option: str, value: Any) -> None:
    """Raise a ValueError unless the value is a selector of negatives or None, see `tfdml.miners.selectors`."""
    require_function_or_none(option, value)
    require(
        value is None or takes(value, "pairs", "d"),
        f"{option}={value!r}",
        "a selector, a function (pairs, d), such as tfdml.miners.hardest_negatives. A miner, a function "
        "Pairs -> Pairs, is for miner=",
    )


def takes(function: Any, *arguments: str) -> bool:
    """Whether a function, or the `call` of a Keras layer, takes these positional arguments and needs no others."""
    try:
        inspect.signature(getattr(function, "call", function)).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # Some built-in functions have no signature.
        return True
    return True


def require_whole(name: str, value: Any, least: int, most: int | None = None) -> None:
    """Raise a ValueError unless `value` is a whole number from `least` to `most`; None for no upper bound."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"Received {name}={value!r}, expected a whole number {bounds}.")


def as_whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """The `int` of a whole number, which may be a float such as 10.0; a ValueError as of `require_whole`."""
    with contextlib.suppress(TypeError, ValueError, OverflowError):  # of what has no whole number, such as infinity
        value = value if isinstance(value, bool) or int(value) != value else int(value)
    require_whole(name, value, least, most)
    return value


def require_steps(start: int, num_shards: int, block: int) -> None:
    """Raise a ValueError unless the step numbers of the first block of a stream fit in int64."""
    if (int(start) + block) * int(num_shards) > INT64.max:
        raise ValueError(
            f"Received start={start} with num_shards={num_shards}, whose batch numbers exceed int64, expected "
            f"start * num_shards + shard_index below {INT64.max}. Lower start or num_shards."
        )


def require_seed(seed: Any) -> None:
    """Raise a ValueError unless `seed` is a whole number in int64."""
    require_whole("seed", seed, int(INT64.min), int(INT64.max))


def require_metric(metric: Any) -> None:
    """Raise a ValueError unless `metric` is one of `METRICS`."""
    if metric not in METRICS:
        raise ValueError(f"Received metric={metric!r}, expected one of {', '.join(map(repr, METRICS))}.")


def as_unmasked(array: Any, name: str) -> Any:
    """The data of a masked array without masked entries (a tensor would lose the mask); anything else unchanged."""
    if np.ma.is_masked(array):
        raise ValueError(
            f"Received {name} with {np.ma.count_masked(array)} masked entries, expected an array without masked "
            "entries, because masks are not used. Drop these rows or fill in the entries."
        )
    return np.ma.getdata(array) if isinstance(array, np.ma.MaskedArray) else array


def as_readable(values: Any) -> Any:
    """A tensor of PyTorch, or a column of a Hugging Face dataset, as an array; anything else unchanged.

    NumPy refuses tensors with a gradient, of another device or in bfloat16, and reads such a column row by row.
    """
    if hasattr(values, "detach"):
        tensor = values.detach().cpu()
        return (tensor.float() if tensor.is_floating_point() and tensor.element_size() < 4 else tensor).numpy()
    if hasattr(getattr(values, "source", None), "with_format"):
        return values.source.with_format("numpy")[values.column_name][:]
    return values


def as_vectors(vectors: npt.ArrayLike, name: str) -> np.ndarray:
    """Vectors `(n, dim)` as finite float32 with contiguous rows; the input itself if it already has this form."""
    vectors = as_readable(as_unmasked(vectors, name))
    array = _as_float32(vectors, name)
    if np.ndim(vectors) != 2 or array.shape[1] == 0:
        raise ValueError(
            f"Received {name} of shape {np.shape(vectors)}, expected (n, dim) with dim > 0. "
            "Turn one vector v into v[None]; flatten feature maps first."
        )
    _require_finite(array, name)
    return array


def _as_float32(array, name):
    """Anything that NumPy converts to real numbers as float32, rows contiguous; infinite where float32 overflows."""
    try:
        array = np.asarray(array)
        if np.iscomplexobj(array):
            raise TypeError("complex numbers have no order")
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(array, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Received {name} that are not a matrix of numbers ({error}). Pass (n, dim) floats."
        ) from error


def _require_finite(array, name):
    """Raise a ValueError for a matrix with a number that is not finite, without a copy of it or of a mask."""
    step = max(1, _CHECKED_NUMBERS // array.shape[1])
    for start in range(0, len(array), step):
        is_finite = np.isfinite(array[start : start + step])
        if not is_finite.all():
            row = start + int(np.flatnonzero(~is_finite.all(axis=1))[0])
            raise ValueError(
                f"Received {name} with a value that is NaN, infinite or too large for float32 (first in row {row}). "
                "Look for a diverged model or a division by zero."
            )


def are_all_the_same(vectors: np.ndarray) -> bool:
    """Whether a matrix has several rows that are all the same, but for rounding."""
    return len(vectors) > 1 and bool(np.ptp(vectors, axis=0).max() <= 1e-6 * np.abs(vectors).max())


def require_varied(vectors: np.ndarray) -> None:
    """Raise a ValueError if all rows of a matrix are the same, but for rounding; one row alone is not an error."""
    if are_all_the_same(vectors):
        raise ValueError(
            "Received embeddings that are all the same, so every ranking is random. The model has collapsed: look at "
            "its loss, its learning rate, and whether its inputs reach it."
        )


def as_ids(ids: npt.ArrayLike, name: str, count: int | None = None) -> np.ndarray:
    """Integer ids `(n,)` or `(n, 1)` of classes, groups or items as `(n,)` int64; floats would merge large ids.

    `count` is the expected n; None for any n of at least 1.
    """
    array = np.asarray(as_readable(as_unmasked(ids, name)))
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    _require_integers(array, name)
    _require_one_per_row(array, name, count)
    if array.size and array.max() > INT64.max:
        raise ValueError(f"Received {name} up to {array.max()}, expected at most 2**63 - 1. Renumber them.")
    return array.astype(np.int64)


def _require_integers(array, name):
    if array.size and array.dtype.kind not in "iu":
        advice = how_to_number(name, array.dtype.name, array.shape)
        raise ValueError(f"Received {name} of dtype {array.dtype}, expected integers. {advice}")


def how_to_number(name: str, dtype: str, shape: Sequence[int | None]) -> str:
    """The sentence that says how labels of another form become integer ids."""
    are_numbers = dtype.startswith(("int", "uint", "float", "bfloat", "bool"))
    if are_numbers and len(shape) == 2 and shape[1] != 1:
        return f"One-hot rows become ids by np.argmax({name}, axis=1)."
    whole = f"Convert whole numbers with np.asarray({name}).astype('int64'), or number" if are_numbers else "Number"
    return f"{whole} them with np.unique({name}, return_inverse=True)[1]."


def _require_one_per_row(array, name, count):
    if count is None and (array.ndim != 1 or not array.size):
        expected = f"(n,) or (n, 1) with at least one id.{_from_one_hot(name, array)}"
        raise ValueError(f"Received {name} of shape {array.shape}, expected {expected}")
    if count is not None and array.shape != (count,):
        expected = f"({count},): one id per row.{_from_one_hot(name, array)}"
        raise ValueError(f"Received {name} of shape {array.shape}, expected {expected}")


def _from_one_hot(name, array):
    return f" {how_to_number(name, array.dtype.name, array.shape)}" if array.ndim == 2 else ""


def is_labeled_set(data: Any) -> TypeGuard[Data]:
    """Whether `data` is a labeled set of `tfdml.datasets`: it has labels, and reads its examples in batches."""
    return hasattr(data, "labels") and hasattr(data, "batches")


def labels_of(data: Any, labels: npt.ArrayLike | None) -> Any:
    """`labels`, or the labels of a labeled set where they are None; a ValueError for other data without labels."""
    if labels is None and not is_labeled_set(data):
        raise ValueError(
            f"Received data of type {type(data).__name__} without labels, expected a labeled set of tfdml.datasets, or "
            "data and labels."
        )
    return data.labels if labels is None else labels


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 class", "2 classes", "0 images"."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def names_of_labels(data: Any) -> list[str | None]:
    """The name of the class of each example of a labeled set, or of embeddings; None for one without a label."""
    return [None if label < 0 else data.class_names[label] for label in data.labels.tolist()]


def labeled_part(data: Any, what: str) -> Any:
    """The examples of a labeled set that have a label, and a warning that counts the others; other data unchanged.

    `what` takes them, such as "batches".
    """
    num_others = int(np.count_nonzero(np.asarray(data.labels) < 0)) if is_labeled_set(data) else 0
    if num_others == 0:
        return data
    received = f"a set of {len(data):,} examples, {num_others:,} without a label"
    require(num_others < len(data), received, f"labels: {what} need classes")
    warnings.warn(f"Received {received}: {what} leave these out. Pass `data.labeled` to say so.", stacklevel=4)
    return data.take(np.asarray(data.labels) >= 0)


@functools.cache
def _error_type():
    class UnreadableError(tf.errors.InvalidArgumentError, ValueError):
        """An example that cannot be loaded: a ValueError, and the error that TensorFlow raises in a graph."""

        def __init__(self, message: str) -> None:
            super().__init__(None, None, message)

    return UnreadableError


def unreadable(message: str) -> ValueError:
    """The error of an example that cannot be loaded: a ValueError, and one of TensorFlow where it is installed."""
    return _error_type()(message) if has_tensorflow() else ValueError(message)


@contextlib.contextmanager
def named_rows() -> Iterator[None]:
    """Turn an error of TensorFlow about a row that cannot be loaded into a ValueError of a few lines."""
    try:
        yield
    except Exception as error:  # of TensorFlow, which may not be installed
        message = re.sub(r"\\(['\"])", r"\1", getattr(error, "message", None) or "")  # as an assertion writes texts
        match = re.search(f"Received (row|examples of shape) .*?({_ENDS})", message, re.DOTALL)
        if match is None:
            raise
        raise unreadable(match[0]) from None
