"""Thumbnails of the items of an index: one file of small JPEGs, read one by one."""

import dataclasses
import itertools
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tfdml._core.atomic import atomic_write, read_whole
from tfdml._core.checks import is_labeled_set, require, require_whole
from tfdml._core.optional import has_tensorflow, tf
from tfdml._core.pages import JPEG_QUALITY, jpeg_of
from tfdml.typing import Examples, FilePath
from tfdml.visualize.pictures import iterate_pictures

_IDS, _OFFSETS, _JPEGS, _VERSIONS = "ids", "offsets", "jpegs", "versions"
_SIZE = 96  # pixels of the longer edge
_LOCAL_HEADER = struct.Struct("<26xHH")  # of a file in a zip archive: lengths of its name and of its extra field
_BEGIN, _END = b"\xff\xd8", b"\xff\xd9"  # of a JPEG
_MAX_SIDE = 1024  # pixels
_ADVICE = "a file that write_thumbnails wrote. Write it again"


def write_thumbnails(
    path: FilePath,
    ids: npt.ArrayLike,
    data: Examples | Iterable[Any],
    *,
    size: int = _SIZE,
    versions: Iterable[str | None] | None = None,
) -> Path:
    """Write small JPEGs of images to one file, in one step, for `Thumbnails.load`.

    One image at a time is in memory. Values are as in `tfdml.visualize.retrieval_grid`: integers from 0 to 255, floats
    from 0 to 1, any others stretched image by image. A set that a `Preprocessing` reads is shown as it was before the
    preprocessing padded or cropped it.

    Example: an image of 200 x 100 pixels becomes one of 96 x 48.

        >>> import io
        >>> path = tfdml.visualize.write_thumbnails("thumbnails.npz", ["ant"], np.zeros((1, 100, 200, 3), "uint8"))
        >>> jpeg = tfdml.visualize.Thumbnails.load(path)["ant"]
        >>> keras.utils.load_img(io.BytesIO(jpeg)).size
        (96, 48)

    Args:
        path: the file to write, such as `thumbnails.npz`; it replaces an older file.
        ids: `(n,)` distinct ids, whole numbers or text, such as an index has.
        data: n images `(height, width)`, or with 1, 3 or 4 channels: a labeled set, a sequence, or an iterable.
        size: maximum number of pixels of the longer edge, 1 to 1024; it reduces larger images.
        versions: n texts, such as checksums of files: a server shows no thumbnail of another version than its index
            states. None: not stated, for all or for one.

    Returns:
        `pathlib.Path` of the file. Without ids, it holds no thumbnails.
    """
    item_ids = _as_ids(ids)
    require_whole("size", size, 1, _MAX_SIDE)
    texts = None if versions is None else [version or "" for version in versions]
    _write_jpegs(path, item_ids, map(jpeg_of, iterate_pictures(_originals(data, size), size)), texts)
    return Path(path).expanduser()


def change_thumbnails(
    path: FilePath, item_ids: npt.ArrayLike, ids: npt.ArrayLike, jpegs: Iterable[bytes], versions: Iterable[str | None]
) -> None:
    """Write a file again, in one step: with those of its thumbnails whose ids are `item_ids`, and with new JPEGs."""
    earlier, added = Thumbnails.load(path), np.asarray(ids).tolist()
    replaced = set(added)
    stay = [id for id in np.asarray(item_ids).tolist() if id in earlier and id not in replaced]
    texts = [*(earlier.versions.get(id, "") for id in stay), *(version or "" for version in versions)]
    _write_jpegs(path, _as_ids([*stay, *added]), itertools.chain((earlier[id] for id in stay), jpegs), texts)


def thumbnail_of(pixels: "tf.Tensor") -> "tf.Tensor":
    """The JPEG of a thumbnail, a string `()`, of pixels uint8 `(height, width, 3)`."""
    return tf.io.encode_jpeg(_reduced(pixels, _SIZE), quality=JPEG_QUALITY)


def _write_jpegs(path, ids, jpegs, versions):
    with atomic_write(path) as new, tempfile.TemporaryFile() as file:
        lengths = [file.write(jpeg) for jpeg in jpegs]
        require(len(lengths) == len(ids), f"{len(lengths)} images for {len(ids)} ids", "one per id")
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
        named = {_IDS: ids, _OFFSETS: offsets} | ({} if versions is None else {_VERSIONS: np.array(versions, "U")})
        _write(new, named, int(offsets[-1]), file)


def _originals(images, size):
    """A labeled set before its preprocessing, reduced while reading; any other images."""
    has_original = is_labeled_set(images) and hasattr(images.load, "original")
    return dataclasses.replace(images, load=_Original(images.load, size)) if has_original else images


class _Original:
    """Loads an example in color before its preprocessing resizes it, the longer edge reduced to `size` pixels."""

    def __init__(self, preprocessing, size):
        self._original = dataclasses.replace(preprocessing, channels=3).original
        self.boxes, self._size = preprocessing.boxes, size

    def __call__(self, example):
        pixels = self._original(example)
        return _reduced(pixels, self._size) if has_tensorflow() else pixels  # `pictures` reduces it


def _reduced(pixels, size):
    """Pixels whose longer edge has at most `size` pixels, uint8."""
    sides = tf.cast(tf.shape(pixels)[:2], tf.float32)
    sides *= tf.minimum(1.0, size / tf.reduce_max(sides))
    small = tf.image.resize(pixels, tf.maximum(1, tf.cast(tf.round(sides), tf.int32)), antialias=True)
    return tf.cast(tf.round(small), tf.uint8)


class Thumbnails(Mapping[Any, bytes]):
    """Thumbnails by id: a mapping to the bytes of a JPEG, read from the file on demand.

    A file stays readable here after a replacement or removal.

    Example: one image, read by its id.

        >>> path = tfdml.visualize.write_thumbnails("thumbnails.npz", [70], np.zeros((1, 8, 8, 3), "uint8"))
        >>> thumbnails = tfdml.visualize.Thumbnails.load(path)
        >>> list(thumbnails), thumbnails[70][:3].hex()  # a JPEG begins with ff d8 ff
        ([70], 'ffd8ff')

    Args:
        ids: `(n,)` distinct ids, whole numbers or text.
        offsets: `(n + 1,)` int64, begin of each JPEG in `jpegs` and the end of the last one.
        jpegs: `(bytes,)` uint8, one JPEG after the other.
        versions: `(n,)` texts, see `write_thumbnails`; empty, or None for all, if unknown.

    Attributes:
        versions: the stated versions by id.
    """

    def __init__(
        self, ids: npt.ArrayLike, offsets: np.ndarray, jpegs: np.ndarray, versions: npt.ArrayLike | None = None
    ):
        item_ids = _as_ids(ids)
        is_valid = offsets.dtype == np.int64 and offsets.shape == (len(item_ids) + 1,)
        require(is_valid, f"offsets {offsets.dtype} {offsets.shape} of {len(item_ids)} ids", "int64 (ids + 1,)")
        ascend = offsets[0] == 0 and bool((np.diff(offsets) > 0).all())
        require(ascend, "offsets that do not ascend from 0", "one per thumbnail")
        received = f"{jpegs.size} bytes of thumbnails"
        require(jpegs.dtype == np.uint8 and jpegs.shape == (offsets[-1],), received, f"{offsets[-1]} by the offsets")
        self._rows = {id: row for row, id in enumerate(item_ids.tolist())}
        self._offsets, self._jpegs = offsets, jpegs
        texts = [""] * len(item_ids) if versions is None else np.asarray(versions).tolist()
        require(len(texts) == len(item_ids), f"{len(texts)} versions of {len(item_ids)} ids", "one per id")
        self.versions = {id: text for id, text in zip(self._rows, texts, strict=True) if text}

    def __getitem__(self, id: Any) -> bytes:
        """The JPEG of an id; a KeyError without one, a ValueError for damaged bytes."""
        row = self._rows[id]
        jpeg = self._jpegs[self._offsets[row] : self._offsets[row + 1]].tobytes()
        require(jpeg.startswith(_BEGIN) and jpeg.endswith(_END), f"a damaged thumbnail of id {id!r}", _ADVICE)
        return jpeg

    def __contains__(self, id: Any) -> bool:
        return id in self._rows  # without its JPEG, which a mapping reads

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    @classmethod
    def load(cls, path: FilePath) -> "Thumbnails":
        """Open a file that `write_thumbnails` wrote; ids are read, and the JPEGs stay on the disk."""
        return read_whole(path, cls._load)

    @classmethod
    def _load(cls, path):
        try:
            with zipfile.ZipFile(path) as archive:
                versions = _array(archive, _VERSIONS) if f"{_VERSIONS}.npy" in archive.namelist() else None
                arrays = _array(archive, _IDS), _array(archive, _OFFSETS), _mapped(path, archive, _JPEGS)
                return cls(*arrays, versions)
        except (ValueError, KeyError, EOFError, struct.error, zipfile.BadZipFile, NotImplementedError) as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise ValueError(f"Received {str(path)!r} ({reason}), expected {_ADVICE}.") from error


def _as_ids(ids):
    """Ids as `(n,)` int64 or text."""
    array = np.asarray(ids)
    array = array.astype(np.int64) if array.size == 0 else array
    is_valid = array.ndim == 1 and array.dtype.kind in "iuU"
    require(is_valid, f"ids of shape {array.shape} and type {array.dtype}", "(n,) whole numbers or text")
    array = array if array.dtype.kind == "U" else array.astype(np.int64)
    distinct = np.unique(array)
    require(len(distinct) == len(array), f"{len(array)} ids, of which {len(distinct)} differ", "distinct ids")
    return array


def _write(path, arrays, num_bytes, jpegs):
    """A file that `numpy.load` reads, too. The archive is uncompressed, to map the JPEGs."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with _member(archive, name) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
        with _member(archive, _JPEGS) as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": (num_bytes,)}
            np.lib.format.write_array_header_1_0(file, header)
            jpegs.seek(0)
            shutil.copyfileobj(jpegs, file)


def _member(archive, name):
    """A new file of an archive without the time, so that the same thumbnails give the same file."""
    return archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True)


def _array(archive, name):
    with archive.open(f"{name}.npy") as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _mapped(path, archive, name):
    """A uint8 vector of an uncompressed archive, mapped read-only; none of it is read."""
    info = archive.getinfo(f"{name}.npy")
    require(info.compress_type == zipfile.ZIP_STORED, "compressed thumbnails", "an archive without compression")
    with open(path, "rb") as file:
        file.seek(info.header_offset)
        begin = info.header_offset + 30 + sum(_LOCAL_HEADER.unpack(file.read(30)))
        file.seek(begin)
        require(np.lib.format.read_magic(file) == (1, 0), "another version of .npy", "1.0")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        length = begin + info.file_size - file.tell()
        require(dtype == np.uint8 and shape == (length,), f"{dtype} {shape}", f"uint8 ({length},)")
        return np.memmap(file, np.uint8, "r", file.tell(), shape) if length else np.empty(0, np.uint8)
