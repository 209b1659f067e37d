"""The form of all errors: what was received, and what is expected."""


def require(condition: bool, received: str, expected: str) -> None:
    """Raise a ValueError unless the condition holds."""
    if not condition:
        raise ValueError(f"Received {received}, expected {expected}.")
