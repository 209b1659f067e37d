"""Checks of arguments: each raises a ValueError that says what was received and what is expected."""

import numbers
from collections.abc import Sequence
from typing import Any


def require(condition: bool, received: str, expected: str) -> None:
    """Raise unless the condition holds."""
    if not condition:
        raise ValueError(f"Received {received}, expected {expected}.")


def require_positive(**values: Any) -> None:
    """Raise unless every argument, such as `require_positive(scale=scale)`, is above 0."""
    for name, value in values.items():
        require(value > 0, f"{name}={value!r}", "a number above 0")


def require_whole(least: int, **values: Any) -> None:
    """Raise unless every argument, such as `require_whole(1, step=step)`, is a whole number of at least `least`."""
    for name, value in values.items():
        is_whole = isinstance(value, numbers.Integral) and value >= least
        require(is_whole, f"{name}={value!r}", f"a whole number of at least {least}")


def require_one_of(choices: Sequence[Any], **values: Any) -> None:
    """Raise unless every argument, such as `require_one_of((4, 8), stride=stride)`, is one of the choices."""
    for name, value in values.items():
        require(value in choices, f"{name}={value!r}", f"one of {', '.join(map(repr, choices))}")
