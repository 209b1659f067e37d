"""Embeddings of a whole set, computed one batch at a time."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from tfdml._checks import is_labeled_set, require_whole


def embed(model: keras.Model, data: Any, *, batch_size: int = 256) -> np.ndarray:
    """Embeddings of all examples of a set.

    Args:
        model: model of one output `(batch, dim)`.
        data: a labeled set of `tfdml.datasets`, an array `(examples, ...)`, or anything else with a length that takes
            an array of row numbers in brackets and returns these examples: a memory map, an HDF5 dataset.
        batch_size: number of examples embedded at the same time.

    Returns:
        `(examples, dim)`, in the order of the set.

    Raises:
        ValueError: no examples, a batch size below 1, or a model of other outputs.
    """
    return embed_rows(model, data, np.arange(len(data)), batch_size)


def embed_rows(model: keras.Model, data: Any, rows: np.ndarray, batch_size: int) -> np.ndarray:
    """Embeddings `(rows, dim)` of some rows of `data`, as in `embed`."""
    require_whole("batch_size", batch_size, 1)
    if is_labeled_set(data):
        return embed_batches(model, data.take(rows).batches(batch_size))[0]
    parts = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
    return embed_batches(model, ((data[part], part) for part in parts))[0]


def embed_batches(model: keras.Model, batches: Iterable[tuple[Any, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Embed a set, one batch at a time.

    Args:
        model: model of one output `(batch, dim)`.
        batches: examples of a batch, and one label (or row number) per example.

    Returns:
        `(examples, dim)` embeddings and `(examples,)` labels, in the order of the batches.

    Raises:
        ValueError: no batch, or a model of other outputs.
    """
    parts = [(_embed_batch(model, x, len(labels)), np.asarray(labels)) for x, labels in batches]
    if not parts:
        raise ValueError("Received a set without examples, expected at least one. Check its filters and files.")
    embeddings, labels = zip(*parts, strict=True)
    return np.concatenate(embeddings), np.concatenate(labels).reshape(-1)


def _embed_batch(model, x, size):
    """Embeddings `(size, dim)` of one batch.

    On several replicas `predict_on_batch` gives the whole batch to each replica and returns the rows of all of them.
    """
    if keras.backend.backend() != "tensorflow":
        x = keras.tree.map_structure(np.asarray, x)  # other backends do not take the tensors of a tf.data set
    found = model.predict_on_batch(x)
    if getattr(found, "ndim", None) != 2:
        shapes = keras.tree.map_structure(np.shape, found)
        raise ValueError(
            f"Received a model of outputs {shapes}, expected one (batch, dim). Pass the part of it that embeds: "
            "keras.Model(model.input, model.output[...]), or one of model.towers."
        )
    return found[:size]
