"""The errors of the recipes: each says what was received and what is expected."""

import numbers


def require(condition: bool, received: str, expected: str) -> None:
    """Raise unless the condition holds."""
    if not condition:
        raise ValueError(f"Received {received}, expected {expected}.")


def require_whole(least: int, **values: object) -> None:
    """Raise unless every argument, such as `require_whole(1, width=width)`, is a whole number of at least `least`."""
    for name, value in values.items():
        is_whole = isinstance(value, numbers.Integral) and value >= least
        require(is_whole, f"{name}={value!r}", f"a whole number of at least {least}")
