"""Errors of examples that cannot be loaded: their texts, and a ValueError of a few lines in place of TensorFlow's."""

import contextlib
import functools
import re
from collections.abc import Iterator

from tfdml._core.optional import tf

LEAVE_OUT = "Leave out what cannot be loaded: data = data.take(data.check_files().usable_rows)."
ADVICE = f". {LEAVE_OUT} batches(..., on_error='skip') of a sampler replaces it."
NO_OTHER = ". Leave the class out."
SHAPES = ". Expected one shape: resize or crop in load or augment."
_ENDS = "|".join(map(re.escape, (ADVICE, NO_OTHER, SHAPES)))


@functools.cache
def _error_type():
    class UnreadableError(tf.errors.InvalidArgumentError, ValueError):
        """An example that cannot be loaded: a ValueError, and the error that TensorFlow raises in a graph."""

        def __init__(self, message: str) -> None:
            super().__init__(None, None, message)

    return UnreadableError


def unreadable(message: str) -> ValueError:
    """The error of an example that cannot be loaded: a ValueError, and an `InvalidArgumentError` of TensorFlow."""
    return _error_type()(message)


@contextlib.contextmanager
def named_rows() -> Iterator[None]:
    """Turn an error of TensorFlow about a row that cannot be loaded into a ValueError of a few lines."""
    try:
        yield
    except Exception as error:  # of TensorFlow, which may not be installed
        message = re.sub(r"\\(['\"])", r"\1", getattr(error, "message", None) or "")  # as an assertion writes texts
        found = re.search(f"Received (row|examples of shape) .*?({_ENDS})", message, re.DOTALL)
        if found is None:
            raise
        raise unreadable(found[0]) from None
