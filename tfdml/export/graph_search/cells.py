"""k-means cells of vectors."""

import warnings
from typing import NamedTuple

import numpy as np

_ROUNDS = 10


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
    """k-means of a sample, whose first rows are the first centers; then all vectors get their nearest center.

    A cell may be empty.
    """
    from scipy.cluster import vq

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="One of the clusters is empty")
        centers, _ = vq.kmeans2(sample, sample[:count], iter=_ROUNDS, minit="matrix")
    nearest, _ = vq.vq(vectors, centers)
    starts = np.concatenate([[0], np.cumsum(np.bincount(nearest, minlength=count))])
    return Cells(centers, np.argsort(nearest, kind="stable"), starts)


def center_ranks(queries: np.ndarray, cells: Cells, neighbors: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The number of cells that a query visits before the cell of its neighbor: `(q, k)` for `(q, k)` rows `neighbors`.

    A query visits the cells in the order of query . center + offset, the largest first.
    """
    scores = queries @ cells.centers.T + offsets
    ranks = np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1, kind="stable")
    return np.take_along_axis(ranks, cells.cell_of_rows()[neighbors], axis=1)
