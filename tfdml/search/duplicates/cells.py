"""Cells of vectors around centers: candidates for pairs, without all products."""

import numpy as np

from tfdml.search.blocks import in_threads, slices
from tfdml.search.scores import l2_normalize, product

_ROUNDS = 4  # of Lloyd's algorithm
CENTER_SAMPLE = 64  # vectors per center from which the centers are computed
_BLOCK = 2**22  # products at the same time in a thread


class Cells:
    """Vectors of a gallery, each in the cell of its nearest center; queries search the nearest cells.

    Two similar vectors are near the same centers. Vectors and centers have length 1 (or 0), and `cell` is `(n,)` int64.
    """

    def __init__(self, vectors: np.ndarray, num_cells: int, rng: np.random.Generator):
        sample = vectors[np.sort(rng.permutation(len(vectors))[: CENTER_SAMPLE * num_cells])]
        self.centers = spherical_centers(sample, num_cells, rng)
        self.cell = nearest_centers(vectors, self.centers, 1)[:, 0]
        self._order = np.argsort(self.cell, kind="stable")
        self._ends = np.searchsorted(self.cell, np.arange(num_cells + 1), sorter=self._order)

    def __len__(self) -> int:
        """Number of cells."""
        return len(self.centers)

    def members(self, number: int) -> np.ndarray:
        """Rows of the vectors in a cell, ascending."""
        return self._order[self._ends[number] : self._ends[number + 1]]

    def ranks(self, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Rank of the cell of one vector `rows[i]` among the cells near query i, 0 for the nearest: `(m,)` int64."""
        return center_ranks(queries, self.centers, self.cell[rows])

    def tasks(self, queries: np.ndarray, num_probes: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows of queries and of vectors to compare, so that each query meets its `num_probes` nearest cells."""
        probes = nearest_centers(queries, self.centers, num_probes)
        order = np.argsort(probes, axis=None, kind="stable")
        ends = np.searchsorted(probes.reshape(-1), np.arange(len(self) + 1), sorter=order)
        tasks = []
        for number in range(len(self)):
            members, rows = self.members(number), order[ends[number] : ends[number + 1]] // num_probes
            if len(members):
                tasks += [(rows[block], members) for block in slices(len(rows), max(1, _BLOCK // len(members)))]
        return tasks


def spherical_centers(sample: np.ndarray, number: int, rng: np.random.Generator) -> np.ndarray:
    """Centers of spherical k-means from random vectors: `(number, dim)` float32 of length 1.

    `CENTER_SAMPLE` vectors per center are a large enough sample.
    """
    centers = sample[np.sort(rng.permutation(len(sample))[:number])]
    for _ in range(_ROUNDS):
        centers = _means(sample, nearest_centers(sample, centers, 1)[:, 0], centers)
    return centers


def nearest_centers(vectors: np.ndarray, centers: np.ndarray, count: int) -> np.ndarray:
    """The nearest centers of each vector, in any order: `(n, count)` int64."""
    blocks = slices(len(vectors), _rows_of_block(centers))
    return np.concatenate(list(in_threads(lambda rows: _largest(product(vectors[rows], centers), count), blocks)))


def center_ranks(queries: np.ndarray, centers: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Rank of one center for each query, 0 for its nearest center: `(m,)` int64 of `(m, dim)` queries, `(m,)` cells."""
    ranks = np.empty(len(queries), np.int64)
    for block in slices(len(queries), _rows_of_block(centers)):
        products = product(queries[block], centers)
        chosen = products[np.arange(len(products)), cells[block]]
        ranks[block] = (products > chosen[:, None]).sum(axis=1)
    return ranks


def _rows_of_block(centers):
    return max(1, _BLOCK // len(centers))


def _largest(products, count):
    """Columns of the largest values of each row, in an array of their own: a view would keep all columns in memory."""
    if count == 1:
        return products.argmax(axis=1)[:, None]
    if count >= products.shape[1]:
        return np.broadcast_to(np.arange(products.shape[1]), products.shape)
    return np.argpartition(-products, count - 1, axis=1)[:, :count].copy()


def _means(vectors, cells, centers):
    """The directions of the means of cells; the old center of a cell without vectors or direction."""
    sums = np.zeros_like(centers)
    np.add.at(sums, cells, vectors)
    means = l2_normalize(sums)
    return np.where(means.any(axis=1)[:, None], means, centers)
