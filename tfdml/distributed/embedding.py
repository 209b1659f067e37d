"""Bulk embedding on a cluster: shards of a set, each embedded by an actor and written once."""

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfdml import export
from tfdml._core.atomic import atomic_write
from tfdml._core.checks import is_labeled_set, require, require_whole
from tfdml._core.checksums import fingerprint, sha256_of
from tfdml._core.optional import optional_import, tf
from tfdml._core.stored import read_json
from tfdml._core.terminal import show_progress, write_table
from tfdml.distributed.cluster import RETRIES, Resources, claimed, connected, ended, num_parallel_tasks
from tfdml.distributed.folders import RUN, begun, record_of, write_record
from tfdml.embedding import files
from tfdml.embedding.files import Embeddings, read_embeddings
from tfdml.embedding.in_memory import Problem, embed_blocks, not_loaded
from tfdml.embedding.to_disk import file_states, set_fingerprint
from tfdml.typing import Embedder, Examples, FilePath

_SKIPPED = "skipped.csv"


@dataclass(frozen=True, eq=False)
class EmbeddedShards:
    """Embeddings in shards, written by `embed`. A row number counts over the embedded set.

    Attributes:
        run: what they were made of and with: checksums of the `set` and of the `model`, `examples`, sizes.
        records: facts about each shard: its `name`, `rows` embedded, `dim`, `skipped` examples, and `sha256`.
    """

    folder: Path
    run: dict[str, Any]
    records: tuple[dict[str, Any], ...]

    def __len__(self) -> int:
        """Number of embeddings."""
        return sum(record["rows"] for record in self.records)

    @property
    def fingerprint(self) -> str:
        """The `tfdml.models.fingerprint` of the model and, if the set had one, of its preprocessing."""
        return self.run["model"]

    @property
    def names(self) -> list[str]:
        """Names of the shards that have embeddings."""
        return [record["name"] for record in self.records if record["rows"]]

    @property
    def paths(self) -> list[Path]:
        """Parquet files of the shards, as `tfdml.search.search_on_disk` takes them."""
        return [self.folder / f"{name}.parquet" for name in self.names]

    @cached_property
    def starts(self) -> np.ndarray:
        """`(shards + 1,)` int64: the number of embeddings before each shard of `paths`, and of all."""
        return np.cumsum([0, *(record["rows"] for record in self.records if record["rows"])])

    @property
    def dim(self) -> int:
        """Numbers of an embedding."""
        return max(record["dim"] for record in self.records)

    @property
    def skipped(self) -> tuple[Problem, ...]:
        """`(row, name, reason)` of the examples that could not be loaded."""
        return tuple((row, name, reason) for record in self.records for row, name, reason in record["skipped"])

    def read(self, number: int) -> Embeddings:
        """The embeddings of one shard of `paths`; a ValueError if a column differs from its checksum."""
        return read_embeddings(self.paths[number])

    def __iter__(self) -> Iterator[Embeddings]:
        """The embeddings, shard by shard."""
        return (self.read(number) for number in range(len(self.paths)))


def embed(
    model: Embedder | FilePath | Callable[[], Embedder],
    data: Examples,
    path: FilePath,
    *,
    batch_size: int = 256,
    shard_size: int = 2**16,
    actors: int | tuple[int, int] | None = None,
    resources: Resources | None = None,
) -> EmbeddedShards:
    """Embed a set of any size on a cluster of Ray.

    * Each actor loads the model once. For each shard, it writes a Parquet file with the columns of
      `tfdml.models.write_embeddings` (for `read_embeddings` and `search_on_disk`), and then its record.
    * Where a node is lost, its actor starts on another one, up to three times, and embeds its shard again. A stopped
      run resumes with the unfinished shards.
    * Examples that cannot be loaded are skipped; `skipped.csv` lists them with their reasons.
    * A checksum, as in `LabeledSet.fingerprint`, detects a changed set.
    * Embeddings do not depend on the cluster, and equal `tfdml.models.embed` if `batch_size` divides `shard_size`.

    The folder, the model if it is a path, and files of the set must have the same names on all nodes: a shared disk.
    Arrays are sent to each node once.

    See also: `tfdml.models.write_embeddings` on one machine, `build_index` and `join` for what follows.

    Example: five vectors in shards of two, by one actor on this machine.

        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.UnitNormalization()])
        >>> x = np.array([[3.0, 4.0], [0.0, 2.0], [1.0, 0.0], [0.0, 1.0], [0.0, 3.0]], "float32")
        >>> shards = tfdml.distributed.embed(model, x, "shards", batch_size=2, shard_size=2, actors=1)
        >>> shards.names, shards.dim
        (['part-000000', 'part-000001', 'part-000002'], 2)

    Args:
        model: folder of an export, a `.keras` file, a Keras model, or a function that makes a model.
        data: a labeled set, such as `tfdml.datasets.folder` and `table`, or an array.
        path: a new folder, or one of the same run.
        batch_size: number of examples embedded at the same time.
        shard_size: number of examples of a shard.
        actors: number of actors, at least and at most; None: 1 to as many as the processors of the cluster allow. With
            a smallest number above what is left of a cluster that loses nodes, the run waits for new ones.
        resources: what an actor takes of a node, as options of Ray: `{"num_cpus": 2, "num_gpus": 1, "memory": 2**30}`;
            None for one processor. TensorFlow gets `num_cpus` threads.

    Returns:
        The shards; they iterate over records of `tfdml.models.read_embeddings`: `paths`, `dim`, `starts` (the number of
        embeddings before each), `skipped` as `(row, name, reason)`, `fingerprint` of the model, `read(number)`.

    Raises:
        BlockingIOError: another process writes `path`; the message names it.
        FileExistsError: a folder with other files; they stay.
        RuntimeError: an actor whose process or node ended four times, such as one that takes more memory than there is.
        ValueError: no examples; a folder of another run; an embedding that is not finite; resources that no node has.
    """
    for package in ("ray", "pyarrow"):
        optional_import(package, feature="tfdml.distributed", extra="ray")
    for name, size in (("batch_size", batch_size), ("shard_size", shard_size)):
        require_whole(name, size, 1)
    require(len(data) > 0, "a set without examples", "at least one. Check its filters and files")
    folder = Path(path).expanduser().absolute()
    run = {
        "set": set_fingerprint(data),
        "model": fingerprint(opened(model), getattr(data, "load", None)),
        "examples": len(data),
        "batch_size": batch_size,
        "shard_size": shard_size,
    }
    with begun(folder, run):
        starts = [start for start in range(0, len(data), shard_size) if record_of(folder, _name(start, run)) is None]
        if starts:
            _embed(model, data, folder, run, starts, actors, claimed(resources))
        shards = read_shards(folder)
        with atomic_write(folder / _SKIPPED) as new:
            write_table(new, [("row", "name", "reason"), *shards.skipped])
    return shards


def read_shards(path: FilePath) -> EmbeddedShards:
    """The shards that `embed` wrote, as it returned them; an error names a shard that is missing or not finished."""
    path = Path(path).expanduser()
    if not (path / RUN).is_file():
        raise FileNotFoundError(f"Received {str(path)!r} without {RUN}, expected a folder that embed wrote.")
    run = read_json(path / RUN)
    names = [_name(start, run) for start in range(0, run["examples"], run["shard_size"])]
    records = [record_of(path, name) for name in names]
    unfinished = [name for name, record in zip(names, records, strict=True) if record is None]
    received = f"{str(path)!r}, in which {len(unfinished)} of {len(names)} shards are not finished ({unfinished[:1]})"
    require(not unfinished, received, "all of them. Call embed again, which goes on there")
    shards = EmbeddedShards(path, run, tuple(record for record in records if record is not None))
    sizes = [record["bytes"] for record in shards.records if record["rows"]]
    for file, size in zip(shards.paths, sizes, strict=True):
        if not file.is_file():
            raise FileNotFoundError(
                f"Received {str(path)!r} without the shard {file.name!r}. Remove its .json file and embed again."
            )
        received = f"the shard {str(file)!r} of {file.stat().st_size:,} bytes"
        require(file.stat().st_size == size, received, f"{size:,} as written. Remove its .json file and embed again")
    return shards


def opened(model: Embedder | FilePath | Callable[[], Embedder]) -> Embedder:
    """A model: loaded from a path, made by a function, or unchanged."""
    if not isinstance(model, str | os.PathLike):
        return model if hasattr(model, "predict_on_batch") else model()
    path = Path(model).expanduser()
    return keras.saving.load_model(path, compile=False) if path.suffix == ".keras" else export.load(path)


def _name(start, run):
    return f"part-{start // run['shard_size']:06}"


def _embed(model, data, path, run, starts, actors, claims):
    ray = connected()
    ray_data = optional_import("ray.data", feature="tfdml.distributed.embed", extra="ray")
    ray_data.DataContext.get_current().enable_progress_bars = False
    actors = (1, min(num_parallel_tasks(claims), len(starts))) if actors is None else actors
    least, most = (actors, actors) if isinstance(actors, int) else actors
    examples = ray.put(data)  # kept for actors that start again
    shards = ray_data.from_items([{"start": start} for start in starts], override_num_blocks=len(starts))
    with warnings.catch_warnings():  # about the two options that end a run whose actors end each time
        warnings.simplefilter("ignore", DeprecationWarning)
        records = shards.map(
            _ShardWriter,
            fn_constructor_args=(model, examples, path, run, claims["num_cpus"], Path.cwd()),
            compute=ray_data.ActorPoolStrategy(min_size=least, max_size=most),
            max_restarts=RETRIES,
            max_task_retries=-1,  # while the actor has starts left
            **{name: amount for name, amount in claims.items() if amount},
        )
    total = -(-run["examples"] // run["shard_size"])
    try:
        for number, record in enumerate(records.iter_rows(), total - len(starts) + 1):
            if record["error"]:
                raise ValueError(record["error"])
            show_progress("shards embedded", number, total)
    except ray.exceptions.RayError as error:
        raise ended("an actor that embeds", error) from error


class _ShardWriter:
    """An actor: a model, and the set whose shards it embeds."""

    def __init__(self, model, data, folder, run, cpus, workplace):
        os.chdir(workplace)  # so that relative names of files are those of the caller
        _limit_threads(max(1, int(cpus)))
        self.model, self.data = opened(model), connected().get(data)
        self.folder, self.run = folder, run

    def __call__(self, shard):
        """Write a shard that no lost node had finished; it returns an error, as Ray Data passes on its text alone."""
        start = int(shard["start"])
        try:
            if record_of(self.folder, _name(start, self.run)) is None:
                _write_shard(self.model, self.data, start, self.folder, self.run)
        except Exception as error:
            reason = str(error) or type(error).__name__
            return {"start": start, "error": f"In the shard that begins with row {start}: {reason}"}
        return {"start": start, "error": ""}


def _limit_threads(number):
    """Let TensorFlow use a number of threads, in a process that has not used it yet."""
    if keras.backend.backend() == "tensorflow":
        with contextlib.suppress(RuntimeError):  # it has been used
            tf.config.threading.set_intra_op_parallelism_threads(number)
            tf.config.threading.set_inter_op_parallelism_threads(number)


def _write_shard(model, data, start, folder, run):
    """Embed a shard, write its file and then its record, and return the record."""
    rows = np.arange(start, min(start + run["shard_size"], run["examples"]))
    examples = data.take(rows) if is_labeled_set(data) else data[rows]
    known = file_states(examples)  # before they are read: another file later is known for one
    blocks = [(vectors, start + numbers) for vectors, numbers in embed_blocks(model, examples, run["batch_size"])]
    embedded = np.concatenate([np.empty(0, np.int64), *(numbers for _, numbers in blocks)])
    skipped = not_loaded(data, np.setdiff1d(rows, embedded))
    name = _name(start, run)
    record = {"name": name, "rows": len(embedded), "dim": 0, "skipped": skipped}
    if blocks:
        file, dim = folder / f"{name}.parquet", blocks[0][0].shape[1]
        with atomic_write(file) as new:
            files.write(new, data, blocks, (len(embedded), dim), skipped, run["model"], known, start)
        record |= {"dim": dim, "bytes": file.stat().st_size, "sha256": sha256_of(file)}
    return write_record(folder, name, record)
