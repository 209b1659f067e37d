"""Embeddings of a set for the projector of TensorBoard."""

from pathlib import Path
from typing import Any

import keras

from tfdml._core.atomic import as_writable_path
from tfdml._core.checks import require_whole
from tfdml.callbacks.base import Callback, sampled_rows
from tfdml.embedding.in_memory import embedder
from tfdml.typing import Data, FilePath
from tfdml.visualize.projector_files import CONFIG, require_sprite, write_config, write_examples, write_tensor


class Projector(Callback):
    """Embed the same examples after epochs, and write the embeddings for the projector of TensorBoard.

    `tensorboard --logdir logs/projector` shows them in the tab "Projector" (of the inactive plugins) as points, by PCA,
    t-SNE or UMAP, with their classes and thumbnails, one list entry per epoch. TensorBoard reads the list of epochs
    when it starts.

    The folder holds `embeddings_0001.tsv`, the embeddings after the first epoch; `metadata.tsv`, class, row and path of
    each example; `sprite.png`, the thumbnails of images; and `projector_config.pbtxt`, which refers to them. Files are
    written in one step, the list last. A resumed run adds its epochs; a new run over an old folder replaces them.

    In training:

        model.fit(batches, epochs=10, steps_per_epoch=200, callbacks=[
            tfdml.callbacks.Projector(test, "logs/projector")])

    See also: `EmbeddingHistory`, which keeps the embeddings in memory.

    Example:

        >>> inputs = keras.Input((2,))
        >>> model = tfdml.models.EmbeddingModel(inputs, tfdml.layers.Mahalanobis()(inputs))
        >>> model.compile("sgd", loss=tfdml.losses.ContrastiveLoss())
        >>> x, labels = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), np.array([0, 0, 1])
        >>> data = tfdml.datasets.LabeledSet(images=x, labels=labels, class_names=("ant", "bee"))
        >>> _ = model.fit(x, labels, epochs=2, verbose=0, callbacks=[tfdml.callbacks.Projector(data, "logs")])
        >>> import pathlib
        >>> sorted(path.name for path in pathlib.Path("logs").iterdir())
        ['embeddings_0001.tsv', 'embeddings_0002.tsv', 'metadata.tsv', 'projector_config.pbtxt']

    Args:
        data: labeled set of `tfdml.datasets`.
        path: folder to write; created if it does not exist.
        model: the network to embed with, if it is not the model in training but has its layers.
        every: number of epochs between two entries; the last epoch is always included.
        examples: maximum number of examples, drawn once at random from a larger set.
        thumbnail: side of a thumbnail in pixels.
        batch_size: number of examples embedded at the same time.

    Raises:
        ValueError: data that are not a labeled set, no examples, a number that is not positive, or more thumbnails than
            an image of 8192 x 8192 pixels holds; at the end of an epoch, a model of several outputs.
        OSError: `path` cannot be written.
    """

    def __init__(
        self,
        data: Data,
        path: FilePath,
        *,
        model: keras.Model | None = None,
        every: int = 1,
        examples: int = 1_000,
        thumbnail: int = 32,
        batch_size: int = 256,
    ) -> None:
        super().__init__()
        require_whole("every", every, 1)
        self.rows = sampled_rows(data, examples)
        require_sprite(len(self.rows), thumbnail)
        self.path = as_writable_path(Path(path) / CONFIG).parent
        self.data, self.network = data.take(self.rows), model
        self.every, self.thumbnail, self._embed = every, thumbnail, embedder(self.data, batch_size)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Write metadata and thumbnails, which are the same in all epochs."""
        self._thumbnail_size = write_examples(self.path, self.data, self.rows, thumbnail=self.thumbnail)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Remove the embeddings of an earlier run after this epoch."""
        for file in self.path.glob("embeddings_*.tsv"):
            if int(file.stem.split("_")[1]) > epoch:
                file.unlink()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Write the embeddings of the epochs that `every` selects."""
        if (epoch + 1) % self.every and epoch + 1 != self.params.get("epochs"):
            return
        write_tensor(self.path, f"embeddings_{epoch + 1:04}", self._embed(self.network or self.model))
        names = sorted((file.stem for file in self.path.glob("embeddings_*.tsv")), reverse=True)
        write_config(self.path, names, self._thumbnail_size)
