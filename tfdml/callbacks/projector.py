"""Embeddings of a set for the projector of TensorBoard."""

import math
import os
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdml._atomic import as_writable_path, atomic_write
from tfdml._checks import is_labeled_set, require, require_whole
from tfdml.callbacks._base import Callback
from tfdml.models.bulk_embedding import embed

_CONFIG, _METADATA, _SPRITE = "projector_config.pbtxt", "metadata.tsv", "sprite.png"
_SPRITE_SIDE = 8192  # pixels, the largest image that browsers draw


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
        for name, value in [("every", every), ("examples", examples), ("batch_size", batch_size)]:
            require_whole(name, value, 1)
        require_whole("thumbnail", thumbnail, 1, _SPRITE_SIDE)
        require(is_labeled_set(data), f"data of type {type(data).__name__}", "a labeled set of tfdml.datasets")
        require(len(data) > 0, "a set without examples", "at least one")
        self.rows = np.sort(np.random.default_rng(0).permutation(len(data))[:examples])
        most = (_SPRITE_SIDE // thumbnail) ** 2
        received = f"{len(self.rows)} examples with thumbnails of {thumbnail} pixels"
        require(len(self.rows) <= most, received, f"at most {most}. Lower examples or thumbnail")
        self.log_dir = as_writable_path(Path(log_dir) / _CONFIG).parent
        self.data, self.network = data.take(self.rows), model
        self.every, self.thumbnail, self.batch_size = every, thumbnail, batch_size

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Write what is the same in all epochs."""
        _write_text(self.log_dir / _METADATA, _table(_metadata(self.data, self.rows)))
        sprite = _sprite(self.data.examples(), self.thumbnail)
        if sprite is not None:
            with atomic_write(self.log_dir / _SPRITE) as new:
                new.write_bytes(tf.io.encode_png(sprite).numpy())

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Remove what an earlier run wrote after epochs that this run has not reached."""
        for path in self.log_dir.glob("embeddings_*.tsv"):
            if int(path.stem.split("_")[1]) > epoch:
                path.unlink()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Write the embeddings of the epochs that `every` selects."""
        if (epoch + 1) % self.every and epoch + 1 != self.params.get("epochs"):
            return
        embeddings = embed(self.network or self.model, self.data, batch_size=self.batch_size)
        lines = [[f"{value:.9g}" for value in row] for row in np.asarray(embeddings, np.float32).tolist()]
        _write_text(self.log_dir / f"embeddings_{epoch + 1:04}.tsv", _table(lines))
        _write_text(self.log_dir / _CONFIG, _config(self.log_dir, self.thumbnail))


def _metadata(part, rows):
    """Lines of class, row and path, with a head: TensorBoard takes a table of several columns to have one."""
    columns = {"class": [part.class_names[label] for label in part.labels], "row": rows.tolist()}
    if part.paths is not None:
        columns["path"] = part.paths.tolist()
    return [list(columns), *zip(*columns.values(), strict=True)]


def _table(lines):
    """Text of tab-separated values."""
    cells = ([" ".join(str(cell).split()) for cell in line] for line in lines)  # Tabs and line ends separate cells.
    return "\n".join("\t".join(line) for line in cells) + "\n"


def _sprite(images, side):
    """Thumbnails in a square of rows and columns, `(pixels, pixels, channels)` uint8; None for other examples."""
    if images.ndim != 4 or images.shape[3] not in (1, 3):
        return None
    images = tf.image.resize(_as_gray_levels(images), (side, side), antialias=True)
    number = math.ceil(math.sqrt(len(images)))
    filled = tf.pad(images, [[0, number**2 - len(images)], [0, 0], [0, 0], [0, 0]])
    grid = tf.transpose(tf.reshape(filled, (number, number, side, side, -1)), (0, 2, 1, 3, 4))
    return tf.saturate_cast(tf.round(tf.reshape(grid, (number * side, number * side, -1))), tf.uint8)


def _as_gray_levels(images):
    """Images in [0, 255]: bytes as they are, others from their minimum to their maximum."""
    if images.dtype == np.uint8:
        return images
    low, high = float(images.min()), float(images.max())
    return (images.astype(np.float32) - low) * (255 / max(high - low, 1e-9))


def _config(folder, thumbnail):
    """The configuration of all epochs in a folder, the last one first, as it is shown first."""
    from tensorboard.plugins.projector import ProjectorConfig

    config = ProjectorConfig()
    for path in sorted(folder.glob("embeddings_*.tsv"), reverse=True):
        entry = config.embeddings.add(tensor_name=path.stem, tensor_path=path.name, metadata_path=_METADATA)
        if (folder / _SPRITE).exists():
            entry.sprite.image_path = _SPRITE
            entry.sprite.single_image_dim.extend([thumbnail, thumbnail])
    return str(config)


def _write_text(path, text):
    with atomic_write(path) as new:
        new.write_text(text, encoding="utf-8")
