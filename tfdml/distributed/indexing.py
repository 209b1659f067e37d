"""Indexes in shards: built on a cluster, read as one, or searched where they lie."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tfdml import search
from tfdml._core.checks import as_vectors, require, require_one_of, require_whole
from tfdml._core.checksums import require_same_model
from tfdml.distributed.cluster import RETRIES, Resources, claimed, connected, ended, num_parallel_tasks, results
from tfdml.distributed.embedding import EmbeddedShards, read_shards
from tfdml.distributed.folders import begun, record_of, write_record
from tfdml.embedding.files import metadata_of
from tfdml.search.builders import index_builder
from tfdml.search.index import shards as index_shards
from tfdml.typing import FilePath, Filter


def build_index(
    embeddings: EmbeddedShards | FilePath,
    path: FilePath,
    *,
    index: str = "exact",
    metric: str = "cosine",
    ids: str = "row",
    resources: Resources | None = None,
    **options: Any,
) -> Any:
    """Build an index in shards, one for each shard of embeddings, on a cluster of Ray.

    `tfdml.search.load`, `tfdml search` and `tfdml serve` read the folder as one index; `SearchActors` searches it on
    the cluster. An exact index of shards has the ids and scores of one index of all vectors. A call that was stopped
    goes on with the shards that are not built. `index.save(path)`, `tfdml index` and `tfdml migrate` write one index in
    the place of the shards.

    Example:

        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.UnitNormalization()])
        >>> x = np.array([[3.0, 4.0], [0.0, 2.0], [1.0, 0.0]], "float32")
        >>> shards = tfdml.distributed.embed(model, x, "shards", batch_size=2, shard_size=2, actors=1)
        >>> index = tfdml.distributed.build_index(shards, "index")
        >>> ids, scores = index.search(np.array([[0.0, 1.0]], "float32"), 2)
        >>> ids, scores.round(4)
        (array([[1, 0]]), array([[1. , 0.8]], dtype=float32))

    Args:
        embeddings: the result of `embed`, or its folder.
        path: a new folder, or one of the same call.
        index: "exact", "scann" or "faiss".
        metric: "cosine", "dot" or "euclidean".
        ids: "row", the row numbers of the set, or "path".
        resources: what building a shard takes of a node, as in `embed`.
        options: of `tfdml.search.Scann` or `Faiss`, as JSON can hold them.

    Returns:
        The index, as `tfdml.search.load` reads it. Its metadata are, where the set had them, `path`, `label`, `box`,
        and `_root`, `_size` and `_checksum`, for `tfdml index` to recognize the files.

    Raises:
        BlockingIOError, FileExistsError: as `embed`.
        ValueError: a folder of other embeddings or options; embeddings without paths.
    """
    require_one_of(("exact", "scann", "faiss"), index=index)
    require_one_of(("row", "path"), ids=ids)
    shards = embeddings if isinstance(embeddings, EmbeddedShards) else read_shards(embeddings)
    settings = {"kind": index, "metric": metric, "ids": ids, "options": options}
    run = {"model": shards.fingerprint, "embeddings": [r["sha256"] for r in shards.records if r["rows"]], **settings}
    with begun(Path(path).expanduser().absolute(), run) as folder:
        missing = [(number,) for number, name in enumerate(shards.names) if record_of(folder, name) is None]
        shared = shards, folder, settings
        for _ in results(_build, missing, label="shards built", shared=shared, resources=resources):
            pass
        entries = [record for name in shards.names if (record := record_of(folder, name)) is not None]
        index_shards.write_manifest(folder, {"model": shards.fingerprint, **settings}, entries)
    return search.load(folder)


def _build(shared, number):
    shards, path, settings = shared
    embeddings = shards.read(number)
    ids = embeddings.rows if settings["ids"] == "row" else embeddings.paths
    require(ids is not None, "ids='path' for embeddings without paths", "ids='row'")
    index = index_builder(settings["kind"])(
        embeddings.embeddings,
        ids,
        metric=settings["metric"],
        metadata=metadata_of(embeddings),
        model=embeddings,
        **settings["options"],
    )
    name = shards.names[number]
    index.save(path / name)
    return write_record(path, name, {"name": name, "vectors": len(index)})


class SearchActors:
    """An index in shards, searched by actors that each hold some of them, for what one machine's memory does not hold.

    Results equal `tfdml.search.load`. An actor whose node is lost starts on another one, up to three times.

    Example:

        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.UnitNormalization()])
        >>> x = np.array([[3.0, 4.0], [0.0, 2.0], [1.0, 0.0]], "float32")
        >>> shards = tfdml.distributed.embed(model, x, "shards", batch_size=2, shard_size=2, actors=1)
        >>> _ = tfdml.distributed.build_index(shards, "index")
        >>> with tfdml.distributed.SearchActors("index", actors=1) as index:
        ...     ids, scores = index.search(np.array([[0.0, 1.0]], "float32"), 2)
        >>> ids, scores.round(4)
        (array([[1, 0]]), array([[1. , 0.8]], dtype=float32))

    Args:
        path: folder that `build_index` wrote, under the same name on all nodes.
        actors: number of actors; None for as many as the processors of the cluster allow, at most one per shard.
        resources: what an actor takes of a node, as in `embed`.

    Attributes:
        dim, metric: of the vectors.
        fingerprint: fingerprint of their model; None if it is not stated.

    Raises:
        FileNotFoundError, ValueError: a shard that is missing or damaged, by name; resources that no node has.
    """

    def __init__(self, path: FilePath, *, actors: int | None = None, resources: Resources | None = None) -> None:
        ray, claims = connected(), claimed(resources)
        self._ray, folder = ray, Path(path).expanduser().absolute()
        entries = index_shards.read_manifest(folder)["shards"]
        count = min(len(entries), num_parallel_tasks(claims)) if actors is None else actors
        require_whole("actors", count, 1, len(entries))
        actor = ray.remote(_Searcher).options(max_restarts=RETRIES, max_task_retries=RETRIES, **claims)
        groups = np.array_split(np.arange(len(entries)), count)
        self._actors = [actor.remote(folder, [entries[number] for number in group]) for group in groups]
        facts = self._all("facts")
        self.metric, self.dim, self.fingerprint = facts[0][:3]
        self._count = sum(fact[3] for fact in facts)

    def __len__(self) -> int:
        """Number of vectors."""
        return self._count

    def search(
        self,
        queries: npt.ArrayLike,
        k: int,
        *,
        where: Filter | None = None,
        model: Any = None,
        other_model: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `tfdml.search.Exact.search`; `where` is an expression or a dict, None for all vectors."""
        require_same_model("queries", model, "the index", self.fingerprint, other_model=other_model)
        queries = as_vectors(queries, "queries")
        require(queries.shape[1] == self.dim, f"queries of dim {queries.shape[1]}", f"{self.dim} as in the index")
        require(
            where is None or not hasattr(where, "__array__"),
            "where as an array",
            "an expression of metadata, or a dict",
        )
        answers = self._all("search", self._ray.put(queries), k, where)
        count = sum(count for _, count in answers)
        require_whole("k", k, 1, count)
        return index_shards.merged_results((answer for answer, _ in answers if answer is not None), k, self.metric)

    def close(self) -> None:
        """End the actors."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []

    def __enter__(self) -> "SearchActors":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _all(self, method, *arguments):
        """The results of a method of all actors, in their order."""
        references = [getattr(actor, method).remote(*arguments) for actor in self._actors]
        try:
            return self._ray.get(references)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except self._ray.exceptions.RayError as error:
            raise ended("an actor that holds shards", error) from error


class _Searcher:
    """An actor: some shards of an index, as one."""

    def __init__(self, path, entries):
        self.path, self.entries, self.index = path, entries, None

    def _read(self):
        if self.index is None:  # in a method, whose errors Ray passes on as they are
            self.index = index_shards.combined(
                [index_shards.read_shard(self.path, entry, search.load) for entry in self.entries]
            )
        return self.index

    def facts(self):
        """Metric, dim, fingerprint of the model, and number of vectors."""
        index = self._read()
        return index.metric, index.dim, index.fingerprint, len(index)

    def search(self, queries, k, where):
        """Ids and scores of the nearest, None where nothing passes; and the number of vectors that pass."""
        index = self._read()
        count = len(index) if where is None else int(index.mask(where).sum())
        return (index.search(queries, min(k, count), where=where) if count and k > 0 else None), count
