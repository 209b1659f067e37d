"""Embeddings of a set, computed one batch at a time."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np


def embed(model: keras.Model, batches: Iterable[tuple[Any, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Embed a set, one batch at a time.

    Args:
        model: model of one output `(batch, dim)`.
        batches: examples of a batch, and one label (or row number) per example.

    Returns:
        `(examples, dim)` embeddings and `(examples,)` labels, in the order of the batches.

    Raises:
        ValueError: no batch.
    """
    parts = [(_embed_batch(model, x, len(labels)), np.asarray(labels)) for x, labels in batches]
    if not parts:
        raise ValueError("Received a dataset without batches, expected at least one. Check its filters and files.")
    embeddings, labels = zip(*parts, strict=True)
    return np.concatenate(embeddings), np.concatenate(labels).reshape(-1)


def embed_rows(model: keras.Model, source: Any, rows: np.ndarray, batch_size: int) -> np.ndarray:
    """Embeddings `(rows, dim)` of some rows of an array, or of anything else that takes row numbers in brackets."""
    parts = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
    return embed(model, ((source[part], part) for part in parts))[0]


def _embed_batch(model, x, size):
    """Embeddings `(size, dim)` of one batch.

    On several replicas `predict_on_batch` gives the whole batch to each replica and returns the rows of all of them.
    """
    if keras.backend.backend() != "tensorflow":
        x = keras.tree.map_structure(np.asarray, x)  # other backends do not take the tensors of a tf.data set
    return model.predict_on_batch(x)[:size]
