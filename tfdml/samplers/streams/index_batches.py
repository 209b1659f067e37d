"""Batches of row numbers by their number: for loops, workers and libraries that load examples themselves."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from tfdml._core.checks import INT64, require, require_steps, require_whole
from tfdml.samplers.draws import augmentation_seeds

_BLOCKS_IN_MEMORY = 4  # of drawn steps: threads ask for batches of two blocks at the same time


@dataclass(frozen=True, kw_only=True)
class Shard:
    """The batches of one of several workers, and its rows of each: the options of `Sampler.index_batches`."""

    start: int = 0
    num_shards: int = 1
    shard_index: int = 0
    num_parts: int = 1
    part_index: int = 0

    def __post_init__(self):
        require_whole("start", self.start, 0)
        require_whole("num_shards", self.num_shards, 1)
        require_whole("shard_index", self.shard_index, 0, self.num_shards - 1)
        require_whole("num_parts", self.num_parts, 1)
        require_whole("part_index", self.part_index, 0, self.num_parts - 1)

    def steps(self, batches: npt.ArrayLike) -> np.ndarray:
        """The steps of a sampler for these batches, counted from `start`."""
        return (self.start + np.asarray(batches, np.int64)) * self.num_shards + self.shard_index

    def rows(self, batch_size: int) -> slice:
        """The rows of a batch of this size; a ValueError if the parts do not divide it."""
        received = f"num_parts={self.num_parts} for batches of {batch_size} rows"
        require(batch_size % self.num_parts == 0, received, "a number of parts that divides the rows")
        size = batch_size // self.num_parts
        return slice(self.part_index * size, (self.part_index + 1) * size)


class IndexBatches:
    """The result of `Sampler.index_batches`. Threads may share it; a pickled copy draws the same in another process."""

    def __init__(self, sampler: Any, labels: npt.ArrayLike, shard: Shard) -> None:
        self.sampler, self.labels, self.shard = sampler, labels, shard
        self._table = sampler.prepare(labels)
        self._part = shard.rows(sampler.batch_size)
        self.block_size = sampler.block_steps(self._table)
        require_steps(shard.start, shard.num_shards, self.block_size)
        _require_rows(sampler.draw(self._table, shard.steps([0])), sampler)
        self._cached = functools.lru_cache(_BLOCKS_IN_MEMORY)(lambda number: self.drawn(number * self.block_size))

    def __reduce__(self) -> tuple[Any, ...]:
        return IndexBatches, (self.sampler, self.labels, self.shard)

    def __len__(self) -> int:
        return INT64.max // self.shard.num_shards - self.block_size - self.shard.start

    def __getitem__(self, t: int | slice) -> Any:
        """The row numbers of batch t, int64 `(rows,)`, or of a range of batches, `(batches, rows)`."""
        if isinstance(t, slice):
            start, stop, step = t.indices(len(self))
            require(step > 0 and start < stop, f"batches[{start}:{stop}:{step}]", "one or more batches, ascending")
            blocks = [self.drawn(first) for first in range(start, stop, self.block_size)]
            return keras.tree.map_structure(lambda *rows: np.concatenate(rows)[: stop - start : step], *blocks)
        require_whole("t", t, 0, len(self) - 1)
        block, row = divmod(int(t), self.block_size)
        return keras.tree.map_structure(lambda rows: rows[row], self._cached(block))

    def __iter__(self) -> Iterator[Any]:
        for first in range(0, len(self), self.block_size):
            block = self.drawn(first)
            for row in range(self.block_size):
                yield keras.tree.map_structure(lambda rows: rows[row], block)  # noqa: B023

    @property
    def rows(self) -> int:
        """Number of rows of a batch, or of its part."""
        return self._part.stop - self._part.start

    def augmentation_seeds(self, batches: npt.ArrayLike) -> np.ndarray:
        """The seeds of augmentation for the rows of these batches, int64 `(batches, rows, 2)`."""
        seeds = augmentation_seeds(self.sampler.seed, self.shard.steps(batches), self.sampler.batch_size)
        return seeds[:, self._part]

    def drawn(self, first: int) -> Any:
        """The row numbers of `block_size` batches from this one on, int64 `(block, rows)`, drawn anew."""
        steps = self.shard.steps(first + np.arange(self.block_size))
        drawn = self.sampler.draw(self._table, steps)
        return keras.tree.map_structure(lambda rows: np.asarray(rows)[:, self._part], drawn)


def _require_rows(drawn, sampler):
    """Raise a ValueError unless a sampler draws row numbers `(block, batch)`, of each set if there are several."""
    for rows in map(np.asarray, keras.tree.flatten(drawn)):
        require(
            rows.shape == (1, sampler.batch_size) and rows.dtype == np.int64,
            f"draws of shape {rows.shape} and type {rows.dtype.name} for one step from {type(sampler).__name__}",
            f"int64 row numbers of shape (block, batch_size={sampler.batch_size})",
        )
