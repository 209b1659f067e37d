"""Embeddings of a set of any size, written in chunks that survive a kill."""

import contextlib
import json
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfdml._core.atomic import atomic_write, only_writer, sweep
from tfdml._core.checks import require
from tfdml._core.checksums import file_columns, fingerprint, sha256_of_rows
from tfdml._core.stored import read_json
from tfdml.embedding import files as embedding_files
from tfdml.embedding.in_memory import Problem, embed_blocks, problems, rows_per_block
from tfdml.typing import Embedder, Examples, FilePath

_RUN = "run.json"


def write_embeddings(model: Embedder, data: Examples, path: FilePath, *, batch_size: int = 256) -> tuple[Problem, ...]:
    """Embed a set of any size to disk.

    * A path that ends in `.parquet` becomes one Parquet file with the columns `row`, `path`, `label` (the name of the
      class, empty without a label), `box` (its borders, where `load` takes boxes), `_root`, `_size` and `_checksum`,
      for `tfdml index` to recognize a file, and `embedding`. Any other path becomes a folder of `embeddings.npy` (to
      map into memory), `examples.csv` with the other columns, and `skipped.csv`. A column that the set does not have is
      left out. `tfdml.datasets.table` reads the Parquet file and `examples.csv` where they have paths. The
      `fingerprint` of the model is in the metadata of the Parquet file, or in `model.json`.
    * Each file has one more read before, for its checksum.
    * Examples that cannot be loaded are left out and returned with the reason.
    * Every 16 batches are written to the folder `path + ".unfinished"`, where the same call resumes with the same
      embeddings. At the end, `path` appears or changes in one step, and the folder disappears.
    * An array has one more read before the first batch, for a checksum, at 1 to 2 GB per second of a core.
    * Memory holds 16 batches of embeddings, and the columns of the set. The disk needs room for two copies.

    See also: `embed` for embeddings in memory, `read_embeddings` for the result.

    Example:

        >>> import pathlib
        >>> inputs = keras.Input((2,))
        >>> model = tfdml.models.EmbeddingModel(inputs, keras.layers.UnitNormalization()(inputs))
        >>> tfdml.models.write_embeddings(model, np.array([[3.0, 4.0], [0.0, 2.0]]), "stored")  # none was skipped
        ()
        >>> sorted(path.name for path in pathlib.Path("stored").iterdir())
        ['SHA256SUMS', 'embeddings.npy', 'examples.csv', 'model.json', 'skipped.csv']

    Args:
        model: model of one output `(batch, dim)`: a Keras model, or the result of `tfdml.export.load`.
        data: as for `tfdml.models.embed`.
        path: `.parquet` file or folder to write. It replaces earlier embeddings.
        batch_size: number of examples embedded at the same time.

    Returns:
        `(row, name, reason)` of each example that could not be loaded.

    Raises:
        BlockingIOError: another process writes `path`; the message names it.
        FileExistsError: a Parquet file, or a file in the folder, that is not part of embeddings; it is named.
        ValueError: no examples that can be loaded; an embedding that is not finite; an unfinished folder of another
            set, model or batch size.
    """
    target = embedding_files.as_target(path)
    require(len(data) > 0, "a set without examples", "at least one. Check its filters and files")
    chunks = _Chunks(target.with_name(f"{target.name}.unfinished"))
    run = _run_of(model, data, batch_size)
    with only_writer(target, "path"):
        _begin(chunks, run)
        files = file_states(data)  # before they are read: another file later is known for one
        rows = _filled(chunks, model, data, batch_size)
        skipped = problems(data, rows)
        listed = None if target.suffix == ".parquet" else embedding_files.listed_files
        with atomic_write(target, listed) as new:
            embedding_files.write(new, data, chunks, (len(rows), chunks.dim()), skipped, run["model"], files)
        chunks.remove()
    return skipped


def file_states(data: Any) -> dict[str, list[Any]]:
    """The columns for `tfdml index` to recognize the files of a set; none without paths."""
    paths = getattr(data, "paths", None)
    return {} if paths is None else file_columns(paths.tolist(), os.getcwd())


def embed_cached(
    model: Embedder, data: Examples, folder: FilePath, batch_size: int
) -> tuple[np.ndarray, np.ndarray, tuple[Problem, ...]]:
    """Embeddings, rows and problems of `embed_loadable`, with the chunks of `write_embeddings` in a folder; they stay.

    An interrupted call resumes after the last chunk, and a later call embeds nothing. It replaces chunks of another
    set, model or batch size, or damaged ones, with a warning. A folder with other files is a FileExistsError.
    """
    chunks = _Chunks(Path(folder).expanduser())
    run = _run_of(model, data, batch_size)
    with only_writer(chunks.folder, "cache"):
        _begin_cache(chunks, run)
        rows = _filled(chunks, model, data, batch_size)
        vectors = (vector for embeddings, _ in chunks for vector in embeddings)
        embeddings = np.fromiter(vectors, np.dtype((np.float32, chunks.dim())), len(rows))  # one copy in memory
    return embeddings, rows, problems(data, rows)


def _begin_cache(chunks, run):
    """Make or check the folder of the chunks; it removes damaged chunks and chunks of another run with a warning."""
    _require_cache(chunks.folder, run)
    try:
        _begin(chunks, run)
        chunks.rows()
    except ValueError as error:
        warnings.warn(f"{str(error).partition(', expected')[0]}. Its embeddings are made again.", stacklevel=3)
        chunks.remove()
        _begin(chunks, run)


def _require_cache(folder, run):
    file = folder / _RUN
    if folder.exists() and not (file.is_file() and set(read_json(file)) == set(run)):
        received = f"Received cache={str(folder)!r}, a folder of something else"
        raise FileExistsError(f"{received}, expected a new folder or one of earlier embeddings. Choose another one.")


def remove_cached(folder: FilePath) -> None:
    """Remove the chunks that `embed_cached` wrote from a folder, and the folder if nothing else is in it."""
    chunks = _Chunks(Path(folder).expanduser())
    if (chunks.folder / _RUN).is_file():
        chunks.remove()


def _filled(chunks, model, data, batch_size):
    """Embed what is missing in the chunks; returns the rows of all."""
    size = rows_per_block(batch_size)
    for embeddings, rows in embed_blocks(model, data, batch_size, start=chunks.rows_done(size)):
        chunks.write(embeddings, rows, number=int(rows[0]) // size)
    return chunks.rows()


@dataclass(frozen=True, eq=False)
class _Chunks:
    """The chunks of a run in a folder, one in memory at a time: embeddings and rows."""

    folder: Path

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for file in self.files():
            yield _read_chunk(file)

    def files(self) -> list[Path]:
        """The files of the chunks, in the order of their rows."""
        return sorted(self.folder.glob("[0-9]*.npz"))

    def write(self, embeddings: np.ndarray, rows: np.ndarray, number: int) -> None:
        with atomic_write(self.folder / f"{number:09}.npz") as new:
            np.savez(new, embeddings=embeddings, rows=rows)

    def remove(self) -> None:
        """Remove the chunks, and the folder if nothing else is in it."""
        for file in [*self.files(), self.folder / _RUN]:
            sweep(file)
            file.unlink()
        with contextlib.suppress(OSError):  # a user's file is in it
            self.folder.rmdir()

    def rows_done(self, size: int) -> int:
        """Number of rows before the first block that is missing."""
        files = self.files()
        return (int(files[-1].stem) + 1) * size if files else 0

    def rows(self) -> np.ndarray:
        """The embedded rows."""
        return np.concatenate([np.empty(0, np.int64), *(rows for _, rows in self)])

    def dim(self) -> int:
        """Numbers of an embedding."""
        return next(iter(self))[0].shape[1]


def _read_chunk(file):
    """Embeddings `(n, dim)` and rows `(n,)` of a chunk."""
    try:
        with file.open("rb") as content, np.load(content, allow_pickle=False) as saved:
            embeddings, rows = saved["embeddings"], saved["rows"]
        is_chunk = rows.dtype == np.int64 and rows.ndim == 1 and embeddings.shape == (len(rows), *embeddings.shape[1:2])
        require(is_chunk and embeddings.ndim == 2, "other arrays", "embeddings and their rows")
    except Exception as error:  # Each damage fails in its own way.
        received = f"Received {str(file)!r}, a chunk of an unfinished run that is damaged ({error})"
        raise ValueError(f"{received}. Remove its folder to start over.") from error
    return embeddings, rows


def _begin(chunks, run):
    file = chunks.folder / _RUN
    if not chunks.folder.exists() or (file.is_file() and not chunks.files()):
        with atomic_write(chunks.folder, lambda folder: {_RUN}) as new:
            new.mkdir()
            (new / _RUN).write_text(json.dumps(run))
    saved = read_json(file) if file.is_file() else {}
    other = [name for name in run if saved.get(name) != run[name]]
    received = f"an unfinished run in {str(chunks.folder)!r} with another {' and another '.join(other)}"
    models = f" ({saved.get('model')}, now {run['model']})" if "model" in other else ""
    require(not other, received + models, "the same. Finish that run, or remove the folder to start over")


def _run_of(model, data, batch_size):
    """The fingerprints of the set and of the model with the preprocessing of the set, and the batch size."""
    model_fingerprint = fingerprint(model, getattr(data, "load", None))
    return {"set": set_fingerprint(data), "model": model_fingerprint, "batch size": int(batch_size)}


def set_fingerprint(data: Any) -> str:
    """A checksum that tells a set or an array from others; an array is read once, see `sha256_of_rows`."""
    return data.fingerprint() if hasattr(data, "fingerprint") else sha256_of_rows(data)
