"""What the pixels of images tell: equal images, and candidates for near-duplicates that registration verifies."""

import functools
import hashlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tfdml._core.optional import tf
from tfdml._core.terminal import show_progress, show_stage
from tfdml.cleaning.registration import Prepared, Thumbnail, registered, thumbnail
from tfdml.datasets import LabeledSet, Preprocessing
from tfdml.search import Exact
from tfdml.search.blocks import thread_count

CANDIDATES = 10  # nearest neighbors that are verified
_PREPARED = 64  # thumbnails that are prepared for registration at the same time, 0.5 MB each


class Thumbnails:
    """Thumbnails of the images of sets, one set after the other, read when they are first asked for."""

    def __init__(self, sets: list[LabeledSet]):
        self._sets = sets
        self._starts = np.cumsum([0, *map(len, sets)])
        self._read: dict[int, Thumbnail] = {}

    def __getitem__(self, row: int) -> Thumbnail:
        """The thumbnail of a row."""
        if row not in self._read:
            self.checksum(row)
        return self._read[row]

    def checksum(self, row: int) -> bytes:
        """Read an image; the checksum of its pixels."""
        number = int(np.searchsorted(self._starts, row, side="right")) - 1
        pixels = pixels_of(self._sets[number], row - int(self._starts[number]))[0]
        self._read[row] = thumbnail(pixels)
        return checksum_of_pixels(pixels)

    def checksums(self, rows: Sequence[int]) -> list[bytes]:
        """`checksum` of many rows, with progress; files are read in threads, since few sources may be."""
        is_of_files = all(data.paths is not None for data in self._sets)
        with ThreadPoolExecutor(thread_count() if is_of_files else 1) as pool:
            return list(_with_progress("images read again", pool.map(self.checksum, rows), len(rows)))


def checksums(data: LabeledSet) -> list[bytes]:
    """Checksum of each image as it is stored, file or pixels, and of its box; of records, their numbers."""
    return list(_with_progress("files compared", (_checksum(data, row) for row in range(len(data))), len(data)))


def checksum_of_pixels(pixels: np.ndarray) -> bytes:
    """The checksum of an array, and of its shape and type."""
    return hashlib.sha256(f"{pixels.shape} {pixels.dtype}".encode() + pixels.tobytes()).digest()


def first_rows(contents: Iterable[Any]) -> np.ndarray:
    """`(n,)` int64: the first row of the content of each row."""
    first: dict[Any, int] = {}
    return np.array([first.setdefault(content, row) for row, content in enumerate(contents)], np.int64)


def candidates(vectors: np.ndarray, floor: float, gallery: np.ndarray | None = None) -> np.ndarray:
    """The nearest neighbors from a cosine similarity on, `(pairs, 2)` int64: each pair once, the smaller row first.

    `gallery` are the rows that may be neighbors, ascending; None for all.
    """
    gallery = np.arange(len(vectors)) if gallery is None else gallery
    columns, cosines = Exact(vectors[gallery]).search(vectors, min(CANDIDATES + 1, len(gallery)))
    query, column = np.nonzero(cosines >= floor)
    pairs = np.stack([query, gallery[columns[query, column]]], axis=1).astype(np.int64)
    return np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)


def verified(pairs: np.ndarray, first: Any, second: Any) -> np.ndarray:
    """Score of the registration of each pair, `(pairs,)`, of a row of the first and a row of the second thumbnails."""
    one = functools.lru_cache(_PREPARED)(lambda row: Prepared(first[row]))
    other = one if second is first else functools.lru_cache(_PREPARED)(lambda row: Prepared(second[row]))
    scores = (registered(one(a), other(b)).score for a, b in pairs.tolist())
    return np.array(list(_with_progress("pairs registered", scores, len(pairs))))


def pixels_of(data: LabeledSet, row: int) -> tuple[np.ndarray, Any]:
    """An image before it is resized where its `load` can tell, and the function that gives a copy its size."""
    if isinstance(data.load, Preprocessing) and not data.load.boxes:
        return _as_rgb(_original(data.load)(tf.convert_to_tensor(data.keys[row]))), data.load
    pixels = data.take([row]).examples()[0]
    return _as_rgb(pixels), Preprocessing(size=pixels.shape[:2], channels=pixels.shape[2])


@functools.lru_cache(maxsize=4)
def _original(load):
    return tf.function(load.original, reduce_retracing=True)


def _as_rgb(pixels):
    pixels = np.asarray(pixels)
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels[..., :3]


def _checksum(data, row):
    if data.source is not None:
        return str(row).encode()
    if data.paths is None:
        content = checksum_of_pixels(np.asarray(data.images[row]))
    else:
        with open(data.paths[row], "rb") as file:
            content = hashlib.file_digest(file, "sha256").digest()
    return content if data.boxes is None else content + data.boxes[row].tobytes()


def _with_progress(what, values, count):
    for number, value in enumerate(values, start=1):
        yield value
        if number % 64 == 0 or number == count:
            show_progress(what, number, count)
    show_stage(what, count)
