"""Candidates for near-duplicates by their embeddings, verified by their pixels."""

from typing import Any

import numpy as np

from tfdml.cleaning.registration import Thumbnail, registered, thumbnail
from tfdml.datasets import LabeledSet, Preprocessing
from tfdml.search import Exact

CANDIDATES = 10  # nearest neighbors that are verified


class Thumbnails:
    """Thumbnails of the images of sets, one set after the other, read when they are first asked for."""

    def __init__(self, sets: list[LabeledSet]):
        self._sets = sets
        self._starts = np.cumsum([0, *map(len, sets)])
        self._read: dict[int, Thumbnail] = {}

    def __getitem__(self, row: int) -> Thumbnail:
        """The thumbnail of a row."""
        if row not in self._read:
            number = int(np.searchsorted(self._starts, row, side="right")) - 1
            self._read[row] = thumbnail(pixels_of(self._sets[number], row - int(self._starts[number]))[0])
        return self._read[row]


def candidates(vectors: np.ndarray, floor: float) -> np.ndarray:
    """The nearest neighbors from a cosine similarity on, `(pairs, 2)` int64: each pair once, the smaller row first."""
    rows, cosines = Exact(vectors).search(vectors, min(CANDIDATES + 1, len(vectors)))
    query, column = np.nonzero(cosines >= floor)
    pairs = np.stack([query, rows[query, column]], axis=1).astype(np.int64)
    return np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)


def verified(pairs: np.ndarray, first: Any, second: Any) -> np.ndarray:
    """Score of the registration of each pair, `(pairs,)`, of a row of the first and a row of the second thumbnails."""
    return np.array([registered(first[a], second[b]).score for a, b in pairs.tolist()])


def pixels_of(data: LabeledSet, row: int) -> tuple[np.ndarray, Any]:
    """An image before it is resized where its `load` can tell, and the function that gives a copy its size."""
    if isinstance(data.load, Preprocessing) and not data.load.boxes:
        return _as_rgb(data.load.original(data.keys[row])), data.load
    pixels = data.take([row]).examples()[0]
    return _as_rgb(pixels), Preprocessing(size=pixels.shape[:2], channels=pixels.shape[2])


def _as_rgb(pixels):
    pixels = np.asarray(pixels)
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels[..., :3]
