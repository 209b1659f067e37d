"""Conditions on the values of a batch, which a compiled function cannot read.

Functions note their checks. `EmbeddingModel` traces its loss before the first step, and runs them on the labels.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np


class Conditions(NamedTuple):
    """Checks of labels `(batch,)` that raise a ValueError, and names of what demands something of the embeddings."""

    of_labels: list[Callable[[np.ndarray], None]]
    of_embeddings: list[str]


_noted: ContextVar[Conditions | None] = ContextVar("conditions", default=None)


@contextlib.contextmanager
def noted() -> Iterator[Conditions]:
    """Within the block, functions that cannot read values note what they demand of them."""
    conditions = Conditions([], [])
    token = _noted.set(conditions)
    try:
        yield conditions
    finally:
        _noted.reset(token)


def note_labels(check: Callable[[np.ndarray], None]) -> None:
    """Note a check of the labels of a batch, `(batch,)`, which raises the ValueError of wrong ones."""
    conditions = _noted.get()
    if conditions is not None:
        conditions.of_labels.append(check)


def note_embeddings(source: str) -> None:
    """Note that a function demands something of the embeddings."""
    conditions = _noted.get()
    if conditions is not None:
        conditions.of_embeddings.append(source)
