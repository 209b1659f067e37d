"""Images by their pixels: descriptions from the decoding that embeds them, near copies, and verified candidates."""

import functools
import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfdml._core.checksums import fingerprint, sha256_of
from tfdml._core.optional import tf
from tfdml._core.terminal import show_progress, show_stage
from tfdml.cleaning.registration import SIDE, Prepared, Thumbnail, agreement, details, gray_thumbnail, registered
from tfdml.datasets import LabeledSet, Preprocessing
from tfdml.datasets.images.beside import read_and_resize
from tfdml.embedding.in_memory import embed_batches
from tfdml.search import Exact, near_duplicates
from tfdml.search.duplicates.pairs import SimilarPairs
from tfdml.typing import Embedder

CANDIDATES = 10  # nearest neighbors that are verified
OFTEN = 10  # times as often as the median image: a placeholder
SEARCH_BYTES = 2**27  # of a search, beside images and embeddings
_PREPARED = 64  # thumbnails that are prepared for registration at the same time, 0.5 MB each
_ALIKE, _AGREEING = 0.98, 0.5  # correlation of 16 x 16 pixels, and agreement of details, of one picture saved again


def description(pixels: Any) -> "tf.Tensor":
    """Gray thumbnail, sides and hash of the pixels of an image: float32 `(64 * 64 + 2 + 8,)`."""
    columns = gray_thumbnail(pixels), tf.shape(pixels)[:2], tf.fingerprint(tf.reshape(pixels, (1, -1)))
    return tf.concat([tf.reshape(tf.cast(column, tf.float32), [-1]) for column in columns], axis=0)


class Describing:
    """A model that appends to each embedding the description of its image, which `Beside` made."""

    def __init__(self, model: Embedder) -> None:
        self.model = model

    @property
    def fingerprint(self) -> str:
        """That of the model: a cache of embeddings alone is another one."""
        return f"described {fingerprint(self.model)}"

    def predict_on_batch(self, examples: Any) -> np.ndarray:
        """Embeddings and descriptions `(batch, dim + 64 * 64 + 2 + 8)`."""
        images, descriptions = examples
        vectors, _ = embed_batches(self.model, [(images, descriptions[:, 0])])
        return np.concatenate([vectors, descriptions], axis=1, dtype=np.float32)


def split_descriptions(embeddings: np.ndarray) -> tuple[np.ndarray, list[Thumbnail], list[bytes]]:
    """The embeddings, the thumbnails, and bytes that are equal for equal pixels, from the outputs of `Describing`."""
    start = embeddings.shape[1] - SIDE * SIDE - 10
    vectors, grays, others = np.split(embeddings, [start, start + SIDE * SIDE], axis=1)
    sides = others[:, :2].astype(int).tolist()
    thumbnails = [Thumbnail(gray.reshape(SIDE, SIDE), *pair) for gray, pair in zip(grays, sides, strict=True)]
    return np.ascontiguousarray(vectors), thumbnails, [other.tobytes() for other in others]


def checksums(sets: Sequence[LabeledSet]) -> list[bytes]:
    """Checksum of each stored image, file or pixels, and of its box; of records, their numbers."""
    count = sum(map(len, sets))
    if any(data.source is not None for data in sets):
        return [f"{row} ".encode() for row in range(count)]
    rows = (_checksum(data, row) for data in sets for row in range(len(data)))
    return list(_with_progress("files compared", rows, count))


def checksum_of_pixels(pixels: np.ndarray) -> bytes:
    """The checksum of an array, and of its shape and type."""
    return hashlib.sha256(f"{pixels.shape} {pixels.dtype}".encode() + pixels.tobytes()).digest()


def first_rows(contents: Iterable[Any]) -> np.ndarray:
    """`(n,)` int64: the first row of the content of each row."""
    first: dict[Any, int] = {}
    return np.array([first.setdefault(content, row) for row, content in enumerate(contents)], np.int64)


def are_telling(thumbnails: Sequence[Thumbnail], is_ordinary: np.ndarray) -> np.ndarray:
    """`(n,)` bool: images with details; all, if half of the ordinary ones, one per level of gray, have none."""
    have = np.array([has_details(image) for image in thumbnails], bool)
    levels = {round(float(thumbnails[row].gray.mean()) / 4) for row in np.flatnonzero(is_ordinary & ~have).tolist()}
    return have if (have & is_ordinary).sum() > len(levels) else np.ones(len(have), bool)


def has_details(image: Thumbnail) -> bool:
    """Whether an image has details that tell a copy of it from others."""
    sharp = details(image.gray)
    return agreement(sharp, sharp) > 0


def placeholder_copies(thumbnails: Sequence[Thumbnail], counts: np.ndarray) -> SimilarPairs:
    """Pairs of the first near copy of a placeholder and another one, of images that occur `counts` times.

    Near copies are one picture, saved again at another size or quality: their 16 x 16 pixels correlate, their details
    agree with the mean of all, and they are ten times as many as the median group. No thumbnails: no pairs.
    """
    small = np.array([image.gray.reshape(16, SIDE // 16, -1, SIDE // 16).mean(axis=(1, 3)) for image in thumbnails])
    small = small.reshape(len(small), 16 * 16)
    groups = near_duplicates(small - small.mean(axis=1, keepdims=True), _ALIKE) if len(small) else np.arange(0)
    sizes = np.bincount(groups, counts[: len(groups)])
    limit, rows, scores = OFTEN * np.median(sizes[sizes > 0]) if len(small) else 0, [], []
    for root in np.flatnonzero(sizes > limit):
        members = np.flatnonzero(groups == root)
        grays = [thumbnails[row].gray for row in members.tolist()]
        mean = details(np.mean(grays, axis=0))
        agreements = np.array([agreement(mean, details(gray)) for gray in grays])
        is_copy = agreements >= _AGREEING
        if counts[members[is_copy]].sum() > limit:
            first, *others = members[is_copy].tolist()
            rows += [(first, other) for other in others]
            scores += agreements[is_copy][1:].tolist()
    return SimilarPairs(np.array(rows, np.int64).reshape(-1, 2), np.array(scores), None)


def candidates(vectors: np.ndarray, floor: float, queries: np.ndarray, gallery: np.ndarray) -> np.ndarray:
    """Nearest neighbors of the rows `queries` in the rows `gallery` from a cosine similarity on, both ascending.

    Returns `(pairs, 2)` int64: each pair once, the smaller row first.
    """
    index = Exact(vectors[gallery], max_bytes=SEARCH_BYTES)
    columns, cosines = index.search(vectors[queries], min(CANDIDATES + 1, len(gallery)))
    query, column = np.nonzero(cosines >= floor)
    pairs = np.stack([queries[query], gallery[columns[query, column]]], axis=1).astype(np.int64)
    return np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)


def verified(
    pairs: np.ndarray, first: Callable[[int], Thumbnail], second: Callable[[int], Thumbnail] | None = None
) -> np.ndarray:
    """Score of the registration of each pair of rows, `(pairs,)`, by functions that return their thumbnails."""
    one = functools.lru_cache(_PREPARED)(lambda row: Prepared(first(row)))
    other = one if second is None else functools.lru_cache(_PREPARED)(lambda row: Prepared(second(row)))
    scores = (registered(one(a), other(b)).score for a, b in pairs.tolist())
    return np.array(list(_with_progress("pairs registered", scores, len(pairs))))


def pixels_of(data: LabeledSet, row: int) -> tuple[np.ndarray, Any]:
    """An image before resizing where its `load` can tell, and the function that gives a copy its size."""
    if isinstance(data.load, Preprocessing):
        key = tf.nest.map_structure(lambda column: tf.convert_to_tensor(column[row]), data.keys)
        read, resize = read_and_resize(data.load)
        return np.asarray(read(key)), resize
    pixels = data.take([row]).examples()[0][..., :3]
    return np.broadcast_to(pixels, (*pixels.shape[:2], 3)), Preprocessing(size=pixels.shape[:2])


def _checksum(data, row):
    if data.paths is None:
        content = checksum_of_pixels(np.asarray(data.images[row]))
    else:
        content = sha256_of(Path(data.paths[row])).encode()
    return content if data.boxes is None else content + data.boxes[row].tobytes()


def _with_progress(what, values, count):
    for number, value in enumerate(values, start=1):
        yield value
        if number % 64 == 0 or number == count:
            show_progress(what, number, count)
    show_stage(what, count)
