"""k-means cells of vectors."""

from typing import NamedTuple

import numpy as np

_ROUNDS = 10
_BLOCK = 2**24  # numbers of a block of scores


class Cells(NamedTuple):
    """Vectors divided among `centers`, `(cells, dim)`: cell c has the rows `order[starts[c]:starts[c + 1]]`, rising."""

    centers: np.ndarray
    order: np.ndarray
    starts: np.ndarray

    def cell_of_rows(self) -> np.ndarray:
        """The cell of each vector, `(n,)`."""
        cells = np.empty(len(self.order), np.int64)
        cells[self.order] = np.repeat(np.arange(len(self.centers)), np.diff(self.starts))
        return cells

    def fewest(self, probes: int) -> int:
        """The number of vectors that the smallest `probes` cells hold together."""
        return int(np.sort(np.diff(self.starts))[:probes].sum())


def k_means(vectors: np.ndarray, sample: np.ndarray, count: int) -> Cells:
    """Lloyd's algorithm on a sample, whose first rows are the first centers; then all vectors get their nearest center.

    A cell may be empty.

    Source: Lloyd, Least Squares Quantization in PCM, IEEE Transactions on Information Theory, 1982.
    """
    centers = sample[:count]
    for _ in range(_ROUNDS):
        centers = _means(sample, _nearest(sample, centers), centers)
    nearest = _nearest(vectors, centers)
    return Cells(centers, np.argsort(nearest, kind="stable"), _starts(nearest, count))


def _means(vectors, cells, centers):
    """The mean of each cell; an empty cell keeps its center."""
    order, starts = np.argsort(cells, kind="stable"), _starts(cells, len(centers))
    full = np.flatnonzero(np.diff(starts))
    centers = centers.copy()
    centers[full] = np.add.reduceat(vectors[order], starts[full], axis=0) / np.diff(starts)[full, None]
    return centers


def _starts(cells, count):
    return np.concatenate([[0], np.cumsum(np.bincount(cells, minlength=count))])


def _nearest(vectors, centers):
    """The nearest center of each vector: the largest g . c - |c|^2 / 2."""
    half = (centers * centers).sum(axis=1) / 2
    step = max(1, _BLOCK // len(centers))
    blocks = [vectors[start : start + step] for start in range(0, len(vectors), step)]
    return np.concatenate([(block @ centers.T - half).argmax(axis=1) for block in blocks])


def center_ranks(queries: np.ndarray, cells: Cells, neighbors: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The number of cells that a query visits before the cell of its neighbor: `(q, k)` for `(q, k)` rows `neighbors`.

    A query visits the cells in the order of query . center + offset, the largest first.
    """
    scores = queries @ cells.centers.T + offsets
    ranks = np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1, kind="stable")
    return np.take_along_axis(ranks, cells.cell_of_rows()[neighbors], axis=1)
