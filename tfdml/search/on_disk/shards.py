"""Shards of vectors: arrays, `.npy` files and Parquet files, read one block of rows at a time."""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tfdml._core.checks import as_vectors
from tfdml._core.checksums import as_fingerprint, require_same_model
from tfdml._core.optional import optional_import
from tfdml._core.stored import map_array
from tfdml.search.blocks import slices
from tfdml.typing import FilePath

Shards = np.ndarray | FilePath | Sequence[np.ndarray | FilePath]


class Block(NamedTuple):
    """Rows of a shard that have not been read yet, with the name of the shard for error messages.

    `start` counts rows over all shards. `load()` returns the rows, `(length, dim)` numbers.
    """

    start: int
    length: int
    name: str
    load: Callable[[], Any]

    def read(self, dim: int) -> np.ndarray:
        """The rows as float32, `(length, dim)`; a ValueError names the shard."""
        try:
            vectors = self.load()
        except Exception as error:  # Every format fails in its own way.
            raise _damaged(self.name, error) from error
        vectors = as_vectors(vectors, f"{self.name}, rows from {self.start} on,")
        if vectors.shape != (self.length, dim):
            raise ValueError(
                f"Received {self.name} with vectors of dim {vectors.shape[1]}, expected {dim} as in queries."
            )
        return vectors


def blocks_of(shards: Shards, size: int) -> list[Block]:
    """The rows of all shards in order, at most `size` at a time."""
    blocks: list[Block] = []
    for number, shard in enumerate(_listed(shards)):
        for length, name, load in _blocks_of_shard(shard, number, size):
            blocks.append(Block(blocks[-1].start + blocks[-1].length if blocks else 0, length, name, load))
    if not blocks:
        raise ValueError("Received shards without a vector, expected at least one.")
    return blocks


def require_one_model(shards: Shards, model: Any) -> None:
    """Raise a ValueError unless the queries and all Parquet files that state a model have the same one."""
    expected, owner = as_fingerprint(model), "the queries"
    for shard in _listed(shards):
        if isinstance(shard, str | PathLike) and (path := Path(shard).expanduser()).suffix == ".parquet":
            received = _fingerprint_of(path)
            require_same_model(f"shard {str(path)!r} with vectors", received, owner, expected)
            if expected is None:
                expected, owner = received, f"shard {str(path)!r}"


def _fingerprint_of(path):
    """The fingerprint in the metadata of a Parquet file; None where there is none, or no such file."""
    parquet = optional_import("pyarrow.parquet", feature="A Parquet file", extra="tables")
    try:
        with path.open("rb") as content:
            metadata = parquet.read_schema(content).metadata or {}
    except Exception:  # Each damage fails in its own way, which reading the blocks names.
        return None
    return metadata[b"fingerprint"].decode() if b"fingerprint" in metadata else None


def _listed(shards):
    return list(shards) if isinstance(shards, list | tuple) else [shards]


def _blocks_of_shard(shard, number, size):
    """Length, name and loading function of each block of a shard."""
    if not isinstance(shard, str | PathLike):
        return _blocks_of_array(shard, f"shard {number}", size)
    path = Path(shard).expanduser()
    if path.suffix not in _READERS:
        raise ValueError(f"Received shard {str(path)!r}, expected an array, a .npy file or a .parquet file.")
    if not path.is_file():
        raise FileNotFoundError(f"Received shard {str(path)!r}, which does not exist.")
    return _READERS[path.suffix](path, size)


def _blocks_of_array(array, name, size):
    _require_matrix(array, name)
    for rows in slices(len(array), size):
        yield rows.stop - rows.start, name, lambda rows=rows: array[rows]


def _blocks_of_npy(path, size):
    """Blocks of a `.npy` file. Each has a map of its own, so that no earlier block stays in memory."""
    name = f"shard {str(path)!r}"
    try:
        array = map_array(path)
    except (OSError, ValueError) as error:
        raise _damaged(name, error) from error
    _require_matrix(array, name)
    for rows in slices(len(array), size):
        yield rows.stop - rows.start, name, lambda rows=rows: np.load(path, mmap_mode="r", allow_pickle=False)[rows]


def _blocks_of_parquet(path, size):
    """Blocks of the column `embedding`; the row group of a block is read in one piece."""
    parquet = optional_import("pyarrow.parquet", feature="A Parquet file", extra="tables")
    name = f"shard {str(path)!r}"
    try:
        with path.open("rb") as content:  # Arrow opens names in UTF-8 only.
            file = parquet.ParquetFile(content)
            counts = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
            file.schema_arrow.field("embedding")
    except Exception as error:  # Each damage fails in its own way.
        raise _damaged(name, error) from error
    for group, count in enumerate(counts):
        for rows in slices(count, size):
            yield rows.stop - rows.start, name, lambda group=group, rows=rows: _read_group(path, group, rows)


def _read_group(path, group, rows):
    from pyarrow import parquet

    with path.open("rb") as content:
        column = parquet.ParquetFile(content).read_row_group(group, columns=["embedding"])["embedding"]
    column = column.slice(rows.start, rows.stop - rows.start).combine_chunks()
    return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1)


def _require_matrix(array, name):
    if np.ndim(array) != 2:
        raise ValueError(f"Received {name} of shape {np.shape(array)}, expected (n, dim).")


def _damaged(name, error):
    return ValueError(f"Received {name}, which cannot be read: {error}. Write it again, or leave it out.")


_READERS = {".npy": _blocks_of_npy, ".parquet": _blocks_of_parquet}
