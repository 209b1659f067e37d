"""Indexes from their folders, during a migration, too."""

import os
from pathlib import Path
from typing import Any

from tfdml._core.atomic import read_whole, sweep
from tfdml._core.checks import require
from tfdml._core.checksums import as_fingerprint, is_same_model, require_same_model
from tfdml.search.approximate.faiss import Faiss
from tfdml.search.approximate.lance import Lance
from tfdml.search.approximate.scann import Scann
from tfdml.search.exact import Exact
from tfdml.search.index import shards
from tfdml.search.index.base import Index
from tfdml.search.index.files import MANIFEST, read_kind
from tfdml.typing import FilePath


def load(path: FilePath, *, model: Any = None, other_model: bool = False) -> Exact | Scann | Faiss | Lance:
    """Read an index that `Exact.save`, `Scann.save`, `Faiss.save` or `Lance.save` wrote, as the class that wrote it.

    It compares every file with its checksum, and maps vectors into memory. The shards of
    `tfdml.distributed.build_index` are read as one index of their class, whose ids follow each other. While another
    process saves to the folder, the result is either the old or the new index. While `migrate` embeds the index again,
    the result is the index of `model`: the old one, or the one that answers queries of the new model.

    Example:

        >>> index = tfdml.search.Exact([[1.0, 0.0], [0.0, 1.0]], ids=["left", "right"])
        >>> index.save("products")
        >>> tfdml.search.load("products").search([[0.0, 2.0]], k=1)[0].tolist()
        [['right']]

    Args:
        path: folder of the index; of a `Lance`, also a URL.
        model: the model of later queries: a Keras model, a model of `tfdml.export.load`, or a
            `tfdml.models.fingerprint`; None: not stated, and not compared.
        other_model: whether to load an index of another model.

    Raises:
        ValueError: the index or a shard, by name, lacks files or is damaged; an index of another model.
    """
    stated = as_fingerprint(model)
    if "://" not in str(path):
        sweep(Path(os.path.realpath(Path(path).expanduser())))  # what a dead writer has left
    index = read_whole(path, read_index)
    if stated is not None and not is_of(index, stated):
        index = _migrating(path, stated) or read_whole(path, read_index)  # a migration that has ended meanwhile
    require_same_model("queries", stated, f"the index in {str(path)!r}", index.fingerprint, other_model=other_model)
    return index


def read_index(folder: Path) -> Exact | Scann | Faiss | Lance:
    """As `load`, from a folder that no other process writes to at the same time."""
    if Lance.is_at(folder):
        return Lance.read(folder)
    if (folder / shards.MANIFEST).is_file():
        return shards.read_shards(folder, read_index)
    classes: dict[str, type[Exact] | type[Scann] | type[Faiss]] = {"exact": Exact, "scann": Scann, "faiss": Faiss}
    kind = read_kind(folder)
    require(kind in classes, f"path={str(folder)!r} of kind {kind!r}", f"one of {', '.join(map(repr, classes))}")
    return classes[kind].read(folder)


def migration_of(path: FilePath) -> Path:
    """The folder with the files of an index's migration; `index` in it answers the new model."""
    folder = Path(os.path.realpath(Path(path).expanduser()))
    return folder.with_name(f"{folder.name}.migrating")


def store_at(path: FilePath) -> type[Index]:
    """The class that knows the version and the files of the index at a path."""
    return Lance if Lance.is_at(path) else Index


def is_index(path: FilePath) -> bool:
    """Whether a folder or a URL holds an index, or the shards of one."""
    return Lance.is_at(path) or any((Path(path) / name).is_file() for name in (MANIFEST, shards.MANIFEST))


def versions_of(path: FilePath) -> tuple[Any, Any]:
    """Numbers that change when an index, or the index of its migration, is replaced; of a table, with each change."""
    migrating = migration_of(path) / "index"
    return store_at(path).version_at(path), store_at(migrating).version_at(migrating)


def is_of(index: Any, model: str) -> bool:
    """Whether an index states this model."""
    return index.fingerprint is not None and is_same_model(index.fingerprint, model)


def _migrating(path, model):
    """The index that a migration to a model has put out; None without one."""
    try:
        index = read_whole(migration_of(path) / "index", read_index)
    except FileNotFoundError:
        return None
    return index if is_of(index, model) else None
