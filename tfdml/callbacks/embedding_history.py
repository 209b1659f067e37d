"""Embeddings of the same examples after several epochs, kept in memory."""

from typing import Any

import numpy as np

from tfdml._core.checks import is_labeled_set, require, require_whole
from tfdml.callbacks.base import Callback
from tfdml.embedding.in_memory import embedder
from tfdml.typing import Data


class EmbeddingHistory(Callback):
    """Keep embeddings of the same examples, before training and after each epoch, in memory.

    `tfdml.visualize.animation` draws them, and `tfdml.visualize.projector` writes them for TensorBoard. For a frame
    every 10 steps, pass `steps_per_epoch=10`. A later `fit` with `initial_epoch=` adds its epochs; a `fit`
    that begins at epoch 0 replaces all frames.

    Example: embeddings before the first epoch and after each of two.

        >>> inputs = keras.Input((2,))
        >>> model = tfdml.models.EmbeddingModel(inputs, tfdml.layers.Mahalanobis()(inputs))
        >>> model.compile("sgd", loss=tfdml.losses.ContrastiveLoss())
        >>> x, labels = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), np.array([0, 0, 1])
        >>> data = tfdml.datasets.LabeledSet(images=x, labels=labels, class_names=("ant", "bee"))
        >>> history = tfdml.callbacks.EmbeddingHistory(data)
        >>> _ = model.fit(x, labels, epochs=2, verbose=0, callbacks=[history])
        >>> history.epochs, np.stack(history.frames).shape
        ([0, 1, 2], (3, 3, 2))

    Args:
        data: labeled set of `tfdml.datasets`.
        examples: maximum number of examples, drawn once at random from a larger set.

    Attributes:
        frames: list of `(n, dim)` float32 arrays.
        epochs: list of int, the number of finished epochs of each frame; the first one is 0, or where a run resumes.
        data: the examples, a labeled set of n.
        rows: `(n,)` row numbers of these examples in the set that was passed.
    """

    def __init__(self, data: Data, *, examples: int = 1_000) -> None:
        super().__init__()
        require_whole("examples", examples, 1)
        require(is_labeled_set(data), f"data of type {type(data).__name__}", "a labeled set of tfdml.datasets")
        require(len(data) > 0, "a set without examples", "at least one")
        self.rows = np.sort(np.random.default_rng(0).permutation(len(data))[:examples])
        self.data = data.take(self.rows)
        self._embed = embedder(self.data, batch_size=256)
        self.frames: list[np.ndarray] = []
        self.epochs: list[int] = []

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Note that the next epoch is the first of a run."""
        self._is_first_epoch = True

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Keep the embeddings before the first epoch of a run, and drop later ones of an earlier run."""
        if self._is_first_epoch:
            num_earlier = sum(earlier < epoch for earlier in self.epochs)
            self.frames, self.epochs = self.frames[:num_earlier], self.epochs[:num_earlier]
            self._add_frame(epoch)
        self._is_first_epoch = False

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Keep the embeddings after the epoch."""
        self._add_frame(epoch + 1)

    def _add_frame(self, num_epochs):
        self.frames.append(np.asarray(self._embed(self.model).embeddings, np.float32))
        self.epochs.append(num_epochs)
