"""MNIST, and sets of its format."""

import gzip
import math
import os
import pathlib
from collections.abc import Sequence

import numpy as np

from tfdml.datasets.labeled_set import LabeledSet

PARTS = {"train": "train", "test": "t10k"}  # the beginnings of the file names
_UNSIGNED_BYTES = 8  # the third byte of a file whose values are uint8
_TIMES, _ROOM = 100, 2**26  # times its size that a compressed file may hold, or bytes
_TREE = """
root/
    train-images-idx3-ubyte.gz  train-labels-idx1-ubyte.gz
    t10k-images-idx3-ubyte.gz  t10k-labels-idx1-ubyte.gz (each also without .gz)"""


def idx(
    root: str | os.PathLike[str], *, class_names: Sequence[str] = tuple("0123456789")
) -> tuple[LabeledSet, LabeledSet]:
    """MNIST and the sets that have its files: Fashion-MNIST, KMNIST and others with gray images and numbered classes.

    Example: a miniature of two images, black and white.

        >>> for part in ("train", "t10k"):
        ...     for name, values in (("images-idx3", np.array([[[0]], [[255]]])), ("labels-idx1", np.array([0, 1]))):
        ...         header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes()
        ...         np.frombuffer(header + values.astype("uint8").tobytes(), "uint8").tofile(f"{part}-{name}-ubyte")
        >>> train, test = tfdml.datasets.idx(".", class_names=("black", "white"))
        >>> train.images.ravel().tolist(), test.class_names
        ([0, 255], ('black', 'white'))

    Args:
        root: the folder with the four files, compressed or not. The package `dataset-fashion-mnist` of Debian has them
            in /usr/share/datasets/fashion-mnist.
        class_names: the names of classes 0, 1, ...

    Returns:
        `(train, test)` with images `(height, width, 1)` uint8, without a protocol: classes are the same in both.

    Raises:
        ValueError: a missing file; a file that is cut, is longer than its header says, or holds other values than
            bytes; other numbers of images and labels; a label without a name.

    Source: LeCun, Bottou, Bengio, Haffner, Gradient-based Learning Applied to Document Recognition, Proceedings of the
    IEEE 1998; Xiao, Rasul, Vollgraf, Fashion-MNIST, 2017 (MIT license).
    """
    return tuple(_part(pathlib.Path(root), name, tuple(class_names)) for name in PARTS.values())


def _part(root, name, class_names):
    images = _values(_existing(root, f"{name}-images-idx3-ubyte"), dimensions=3)
    labels = _values(_existing(root, f"{name}-labels-idx1-ubyte"), dimensions=1)
    if len(images) != len(labels):
        raise ValueError(f"{name} has {len(images):,} images and {len(labels):,} labels: the files are of two sets.")
    return LabeledSet(images=images[..., None], labels=labels.astype(np.int64), class_names=class_names)


def _existing(root, name):
    for path in (root / f"{name}.gz", root / name):
        if path.is_file():
            return path
    raise ValueError(f"root={os.fspath(root)!r} has no {name}. Expected these files:{_TREE}")


def _values(path, dimensions):
    """The array of a file: two zero bytes, the type, the number of dimensions, big-endian sizes, then the values."""
    start = 4 * (1 + dimensions)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            head = file.read(start)
            if len(head) < start or tuple(head[:4]) != (0, 0, _UNSIGNED_BYTES, dimensions):
                raise ValueError(f"{path} does not begin as an idx file of bytes in {dimensions} dimensions.")
            shape = tuple(np.frombuffer(head, ">u4", dimensions, offset=4).tolist())
            _require_size(path, math.prod(shape))
            content = file.read(math.prod(shape) + 1)  # a compressed file may hold far more than its header says
    except (EOFError, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is cut or damaged: {error}. Download the file again.") from error
    if len(content) != math.prod(shape):
        received = "more" if len(content) > math.prod(shape) else f"{len(content):,}"
        raise ValueError(
            f"{path} holds {received} values, and its header says {math.prod(shape):,}. Download the file again."
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


def _require_size(path, size):
    """Raise a ValueError for a file that unpacks to far more than images compress to."""
    packed = path.stat().st_size
    if path.suffix == ".gz" and size > max(_TIMES * packed, _ROOM):
        raise ValueError(
            f"{path} of {packed:,} bytes unpacks to {size:,}, expected at most {_TIMES} times its size. Unpack it "
            "yourself if you trust it."
        )
