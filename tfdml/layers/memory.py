"""Embeddings of recent batches as references."""

from typing import Any

import keras
import numpy as np

from tfdml._core.backends import ops
from tfdml._core.checks import as_whole, require
from tfdml._core.serialization import serializable
from tfdml.layers.base import References
from tfdml.pairs.base import Tensor
from tfdml.pairs.pairings import checked, compare


@serializable
class Memory(References):
    """The batch and the embeddings of recent batches as references (cross-batch memory): a pairing of any loss.

    The references of a row are every other row of the batch and, after the warm-up, the last `size` rows.
    `EmbeddingModel` writes each training batch into the memory after its loss. No gradient flows into remembered
    embeddings, and the memory leaves out rows that are not finite. `.keras` files keep the memory; exports leave it
    out.

    Example: one class; after the second batch, the references of a row are the other row and two remembered ones.

        >>> memory = tfdml.layers.Memory(4, warm_up=0)
        >>> loss = tfdml.losses.ContrastiveLoss(pairing=memory)
        >>> labels, x = np.array([5, 5]), np.eye(2, dtype="float32")
        >>> ops.convert_to_numpy(memory(labels, x).positive)
        array([[0., 1., 0., 0., 0., 0.],
               [1., 0., 0., 0., 0., 0.]], dtype=float32)
        >>> memory.update(labels, x)  # EmbeddingModel does it after each training step
        >>> ops.convert_to_numpy(memory(labels, x).positive)
        array([[0., 1., 1., 1., 0., 0.],
               [1., 0., 1., 1., 0., 0.]], dtype=float32)

    Args:
        size: number of embeddings to remember, at least the batch size; in the paper, up to the whole training set.
        warm_up: number of training steps before the memory becomes a reference: embeddings of a network that changes
            quickly are soon out of date. The memory fills from the first step on.

    Attributes:
        vectors: the variable `(size, dim)` of remembered embeddings; None before the layer is built.
        labels: the variable `(size,)` of their class ids.
        filled: the variable `(size,)`, True for a remembered embedding.

    Source: Wang, Zhang, Huang, Scott, Cross-Batch Memory for Embedding Learning, CVPR 2020. It writes the batch before
    its loss, so that anchors meet copies of themselves, and adds the losses of batch and memory; here both are one set
    of pairs.
    """

    saved_arguments = ("size", "warm_up")

    def __init__(self, size: int, *, warm_up: int = 1000, **options: Any) -> None:
        super().__init__(**options)
        self.size, self.warm_up = as_whole("size", size, 1), as_whole("warm_up", warm_up, 0)

    def build(self, labels_shape: Any, embeddings_shape: Any) -> None:
        """Make an empty memory for embeddings of shape `(batch, dim)`."""
        self.vectors = self.add_state("vectors", (self.size, embeddings_shape[-1]), "float32")
        self.vectors.assign(ops.broadcast_to(_placeholder(self.vectors), self.vectors.shape))
        self.labels = self.add_state("labels", (self.size,), _id_dtype())
        self.filled = self.add_state("filled", (self.size,), "bool")
        self.position = self.add_state("position", (), "int32")  # of the row to write next
        self.updates = self.add_state("updates", (), "int32")
        self.built = True

    def _comparison(self, labels, embeddings, match):
        """A batch against itself, followed by the memory."""
        labels, embeddings = self._checked(labels, embeddings)
        columns = ops.arange(ops.shape(labels)[0])
        ready = ops.logical_and(self.filled, ops.greater_equal(self.updates, self.warm_up))

        def allowed(rows):
            remembered = ops.broadcast_to(ready, (ops.shape(rows)[0], self.size))
            return ops.concatenate([rows[:, None] != columns, remembered], axis=1)

        reference_labels = ops.concatenate([labels, ops.convert_to_tensor(self.labels)])
        references = ops.concatenate([embeddings, ops.cast(self.vectors, embeddings.dtype)])
        return compare(labels, embeddings, reference_labels, references, match)._replace(allowed=allowed)

    def update(self, labels: Tensor, embeddings: Tensor) -> None:
        """Remember a batch in place of the oldest rows."""
        labels, embeddings = self._checked(labels, embeddings)
        number = ops.shape(labels)[0]
        finite = ops.all(ops.isfinite(embeddings), axis=1)
        slots = ops.mod(self.position + ops.arange(number), self.size)[:, None]
        vectors = ops.where(finite[:, None], embeddings, _placeholder(embeddings))
        for variable, values in ((self.vectors, vectors), (self.labels, labels), (self.filled, finite)):
            variable.assign(ops.scatter_update(variable, slots, ops.cast(values, variable.dtype)))
        self.position.assign(ops.mod(self.position + number, self.size))
        self.updates.assign_add(1)

    def _checked(self, labels, embeddings):
        """Class ids in the type of the memory, and embeddings in float32 at least."""
        labels, embeddings = checked(labels, embeddings)
        number = labels.shape[0]
        require(
            number is None or number <= self.size,
            f"a batch of {number} rows for a memory of size={self.size}",
            "a memory of at least one batch: make it larger, or the batch smaller",
        )
        is_double = keras.backend.standardize_dtype(embeddings.dtype) == "float64"
        return ops.cast(labels, self.labels.dtype), embeddings if is_double else ops.cast(embeddings, "float32")


def _id_dtype():
    """The widest integers of the backend: int64, and int32 on JAX without 64-bit mode."""
    return keras.backend.standardize_dtype(ops.convert_to_tensor(np.zeros(0, "int64")).dtype)


def _placeholder(vectors):
    """Placeholder for empty slots: a unit vector, because some distances require norm 1."""
    return ops.one_hot(0, vectors.shape[-1], dtype=vectors.dtype)
