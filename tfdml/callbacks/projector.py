"""Embeddings of a set for the projector of TensorBoard."""

import os
from pathlib import Path
from typing import Any

import keras

from tfdml._core.atomic import as_writable_path
from tfdml._core.checks import require_whole
from tfdml.callbacks.base import Callback, sample_of_set
from tfdml.embedding.in_memory import embedder
from tfdml.visualize.projector_files import CONFIG, require_sprite, write_config, write_examples, write_tensor


class Projector(Callback):
    """Embed some examples after epochs, and write them for the projector of TensorBoard.

        model.fit(batches, epochs=10, steps_per_epoch=200, callbacks=[
            tfdml.callbacks.Projector("logs/projector", test)])

    `tensorboard --logdir logs/projector` shows them in the tab "Projector" (of the inactive plugins) as points, by PCA,
    t-SNE or UMAP, with their classes and thumbnails, one list entry per epoch. TensorBoard reads the list of epochs
    when it starts.

    The folder holds `embeddings_0001.tsv`, the embeddings after the first epoch; `metadata.tsv`, class, row and path of
    each example; `sprite.png`, the thumbnails of images; and `projector_config.pbtxt`, which refers to them. Files are
    written in one step, and the list last. A run that resumes adds its epochs; a new run over an old folder
    replaces them.

    Args:
        log_dir: folder to write; created if it does not exist.
        data: labeled set of `tfdml.datasets`.
        model: the network to embed with, if it is not the model in training but has its layers.
        every: number of epochs between two entries; the last epoch has one in any case.
        examples: maximum number of examples, drawn once at random from a larger set.
        thumbnail: side of a thumbnail in pixels.
        batch_size: number of examples embedded at the same time.

    Raises:
        ValueError: data that are not a labeled set, no examples, a number that is not positive, or more thumbnails than
            an image of 8192 x 8192 pixels holds; at the end of an epoch, a model of several outputs.
        OSError: `log_dir` cannot be written.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        data: Any,
        *,
        model: keras.Model | None = None,
        every: int = 1,
        examples: int = 1_000,
        thumbnail: int = 32,
        batch_size: int = 256,
    ) -> None:
        super().__init__()
        require_whole("every", every, 1)
        self.rows = sample_of_set(data, examples)
        require_sprite(len(self.rows), thumbnail)
        self.log_dir = as_writable_path(Path(log_dir) / CONFIG).parent
        self.data, self.network = data.take(self.rows), model
        self.every, self.thumbnail, self._embed = every, thumbnail, embedder(self.data, batch_size)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Write what is the same in all epochs."""
        self._side = write_examples(self.log_dir, self.data, self.rows, thumbnail=self.thumbnail)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Remove what an earlier run wrote after epochs that this run has not reached."""
        for path in self.log_dir.glob("embeddings_*.tsv"):
            if int(path.stem.split("_")[1]) > epoch:
                path.unlink()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Write the embeddings of the epochs that `every` selects."""
        if (epoch + 1) % self.every and epoch + 1 != self.params.get("epochs"):
            return
        embeddings = self._embed(self.network or self.model)
        write_tensor(self.log_dir, f"embeddings_{epoch + 1:04}", embeddings)
        names = sorted((path.stem for path in self.log_dir.glob("embeddings_*.tsv")), reverse=True)
        write_config(self.log_dir, names, self._side)
