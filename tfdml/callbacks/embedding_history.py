"""Embeddings of the same examples after several epochs, kept in memory."""

from typing import Any

import keras
import numpy as np

from tfdml._core.checks import require_whole
from tfdml.callbacks.base import Callback, sampled_rows
from tfdml.embedding.in_memory import embedder
from tfdml.typing import Data


class EmbeddingHistory(Callback):
    """Keep embeddings of the same examples, before training and after epochs, in memory, for an animation.

    For a frame every 10 steps, pass `steps_per_epoch=10`. A later `fit` with `initial_epoch=` adds its epochs; a `fit`
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
        >>> history.frames[0].round(4)  # the metric starts as the identity
        array([[1. , 0. ],
               [0.6, 0.8],
               [0. , 1. ]], dtype=float32)

    Args:
        data: labeled set of `tfdml.datasets`.
        model: the network to embed with, if it is not the model in training but has its layers.
        every: number of epochs between two frames; the last epoch is always included.
        examples: maximum number of examples, drawn once at random from a larger set.
        batch_size: number of examples embedded at the same time.

    Attributes:
        frames: list of `(n, dim)` float32 arrays.
        epochs: list of int, the number of finished epochs of each frame; the first one is 0, or where a run resumes.
        data: the examples, a labeled set of n.
        rows: `(n,)` row numbers of these examples in the set that was passed.

    Raises:
        ValueError: data that are not a labeled set, no examples, or a number that is not positive; at the end of an
            epoch, a model of several outputs.
    """

    def __init__(
        self,
        data: Data,
        *,
        model: keras.Model | None = None,
        every: int = 1,
        examples: int = 1_000,
        batch_size: int = 256,
    ) -> None:
        super().__init__()
        require_whole("every", every, 1)
        self.rows = sampled_rows(data, examples)
        self.data, self.network, self.every = data.take(self.rows), model, every
        self._embed = embedder(self.data, batch_size)
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
        """Keep the embeddings of the epochs that `every` selects."""
        if (epoch + 1) % self.every == 0 or epoch + 1 == self.params.get("epochs"):
            self._add_frame(epoch + 1)

    def _add_frame(self, num_epochs):
        self.frames.append(np.asarray(self._embed(self.network or self.model), np.float32))
        self.epochs.append(num_epochs)
