"""Files of TensorBoard's projector: embeddings, metadata, thumbnails, and their configuration."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tfdml._core.atomic import as_writable_path, atomic_write
from tfdml._core.checks import as_vectors, require, require_whole
from tfdml._core.optional import tf
from tfdml.typing import Examples, FilePath
from tfdml.visualize.colors import labels_and_names
from tfdml.visualize.pictures import pictures, shows_images

_CONFIG, _METADATA, _SPRITE = "projector_config.pbtxt", "metadata.tsv", "sprite.png"
_MAX_PIXELS = 8192  # width and height of the largest image that browsers draw


def projector(
    path: FilePath,
    embeddings: npt.ArrayLike | Mapping[str, npt.ArrayLike],
    data: Examples | None = None,
    labels: npt.ArrayLike | None = None,
    *,
    thumbnail: int = 32,
) -> Path:
    """Write a folder for the projector of TensorBoard: points by PCA, t-SNE or UMAP, with classes and thumbnails.

    `tensorboard --logdir logs/projector` shows it in the tab "Projector" of the inactive plugins. The folder holds
    `NAME.tsv` with the embeddings; `metadata.tsv`, class, row and path of each example; `sprite.png`, the thumbnails of
    images; and `projector_config.pbtxt`, which refers to them and is written last. Each file is written in one step.

    See also: `tfdml.callbacks.EmbeddingHistory` for embeddings after each epoch of a run.

    Example:

        >>> x, images = np.eye(3), np.zeros((3, 8, 8, 1), "uint8")
        >>> folder = tfdml.visualize.projector("logs", x, images, np.array([0, 0, 1]))
        >>> sorted(path.name for path in folder.iterdir())
        ['embeddings.tsv', 'metadata.tsv', 'projector_config.pbtxt', 'sprite.png']

    Args:
        path: folder to write; created if it does not exist. Other files in it stay.
        embeddings: `(n, dim)`, or a dict from names to such arrays, between which the projector switches.
        data: labeled set or sequence of n examples; None, or examples that are not images: no thumbnails.
        labels: `(n,)` integer class ids; None: the labels of a labeled set.
        thumbnail: width and height of a thumbnail in pixels.

    Raises:
        ValueError: more thumbnails than an image of 8192 x 8192 pixels holds.
    """
    tensors = {name: as_vectors(x, name) for name, x in _named(embeddings).items()}
    counts = sorted({len(x) for x in tensors.values()})
    require(len(counts) == 1 and counts[0] > 0, f"embeddings of {counts} examples", "the same number, 1 or more")
    labels_and_names(data, labels, counts[0])
    has_images = shows_images(data)
    require_whole("thumbnail", thumbnail, 1, _MAX_PIXELS)
    most = (_MAX_PIXELS // thumbnail) ** 2
    received = f"{counts[0]} examples with thumbnails of {thumbnail} pixels"
    advice = "Show fewer examples, or lower thumbnail"
    require(not has_images or counts[0] <= most, received, f"at most {most}. {advice}")
    folder = as_writable_path(Path(path) / _CONFIG).parent
    if has_images:
        with atomic_write(folder / _SPRITE) as new:
            new.write_bytes(_sprite(data, counts[0], thumbnail))
    _write_text(folder / _METADATA, _table(_metadata(data, np.arange(counts[0]), labels)))
    for name, x in tensors.items():  # 9 digits hold a float32 exactly
        _write_text(folder / f"{name}.tsv", _table([[f"{value:.9g}" for value in row] for row in x.tolist()]))
    _write_config(folder, list(tensors), thumbnail if has_images else None)
    return folder


def _write_config(folder, names, thumbnail):
    from tensorboard.plugins.projector import ProjectorConfig

    config = ProjectorConfig()
    for name in names:
        entry = config.embeddings.add(tensor_name=name, tensor_path=f"{name}.tsv", metadata_path=_METADATA)
        if thumbnail is not None:
            entry.sprite.image_path = _SPRITE
            entry.sprite.single_image_dim.extend([thumbnail, thumbnail])
    _write_text(folder / _CONFIG, str(config))


def _named(embeddings):
    """Embeddings by name; names become files."""
    by_name = dict(embeddings) if isinstance(embeddings, Mapping) else {"embeddings": embeddings}
    for name in by_name:
        is_file_name = Path(name).name == name and f"{name}.tsv" != _METADATA
        require(is_file_name, f"embeddings of the name {name!r}", "a file name without folders, other than 'metadata'")
    require(len(by_name) > 0, "no embeddings", "an array, or a dict of one or more")
    return by_name


def _metadata(data, rows, labels):
    """Lines of class, row and path; a header if there are several columns, as TensorBoard expects."""
    ids, name = labels_and_names(data, labels, len(rows))
    columns = {} if ids is None else {"class": [name(label) for label in ids.tolist()]}
    columns["row"] = rows.tolist()
    if getattr(data, "paths", None) is not None:
        columns["path"] = data.paths.tolist()
    return [list(columns)] * (len(columns) > 1) + list(zip(*columns.values(), strict=True))


def _table(lines):
    cells = ([" ".join(str(cell).split()) for cell in line] for line in lines)  # Tabs and line ends separate cells.
    return "\n".join("\t".join(line) for line in cells) + "\n"


def _sprite(data, count, size):
    """Thumbnails in a square of rows and columns, as the bytes of a PNG."""
    num_rows = math.ceil(math.sqrt(count))
    grid = np.zeros((num_rows, num_rows, size, size, 3), np.uint8)
    for number, image in enumerate(pictures(data, np.arange(count), size)):
        square = tf.image.resize_with_pad(image, size, size, antialias=True)
        grid[divmod(number, num_rows)] = np.rint(np.clip(square, 0, 255))
    pixels = grid.transpose(0, 2, 1, 3, 4).reshape(num_rows * size, num_rows * size, 3)
    return tf.io.encode_png(pixels).numpy()


def _write_text(path, text):
    with atomic_write(path) as new:
        new.write_text(text, encoding="utf-8")
