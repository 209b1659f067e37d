"""Migration of an index to a new model: its items are embedded again while it answers."""

import contextlib
import json
import math
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tfdml._core.atomic import atomic_write, only_writer, read_whole, require_replaceable, sweep
from tfdml._core.checks import are_all_the_same, require, require_whole
from tfdml._core.checksums import as_fingerprint, require_same_model
from tfdml._core.optional import optional_import
from tfdml._core.stored import read_arrays, read_json
from tfdml.search.exact import Exact
from tfdml.search.index.ids import Ids
from tfdml.search.index.loading import is_of, migration_of, read_index, store_at
from tfdml.search.upgrades.adapters import LinearAdapter
from tfdml.search.upgrades.upgrade import rebuilt
from tfdml.typing import FilePath

_RUN, _INDEX, _FORMAT = "run.json", "index", "tfdml.migration/1"
_NEW = ".new"  # the first index, until it is whole
_SOURCE, _EMBEDDED, _ADAPTED = "vector", "embedded", "adapted"  # the column that says which vector an item has
_PRIORITY = "requests"
_GROWTH = 1.25  # An index is published each time when this many times as many items are embedded.
_HELD_BACK = 10  # Each tenth item is not used to learn the adapter.
_MAX_QUERIES = 1_000

Embed = Callable[[np.ndarray, Any], npt.ArrayLike]


class Progress(NamedTuple):
    """The state of a migration: items that are embedded again, that cannot be embedded, and all; see `migrate`.

    `recall` is estimated from `measured` items.
    """

    embedded: int
    failed: int
    items: int
    recall: float
    seconds_left: float
    measured: int = 0

    def __str__(self) -> str:
        measured = "" if math.isnan(self.recall) else f", Recall@1 {self.recall:.1%} from {self.measured:,} items"
        failed = f", {self.failed:,} cannot be embedded" if self.failed else ""
        left = time.strftime("%H:%M:%S", time.gmtime(self.seconds_left))
        return f"{self.embedded:,} of {self.items:,} items embedded again{failed}{measured}, {left} left"


def migrate(path: FilePath, embed: Embed, *, model: Any, batch_size: int = 256) -> Iterator[Progress]:
    """Embed the items of an index again by a new model, while the index answers queries of both models.

    * `load(path, model=new)` returns an index of the new model from the first batch on: vectors that are not embedded
      again are mapped by a `LinearAdapter`, so that all vectors are in the space of the new model. Its column `vector`
      says "embedded" or "adapted". The adapter is learned again each time when a quarter more items are embedded.
      `load(path)`, and `load(path, model=old)`, return the old index, until the new one replaces it in one step.
    * Items come in the order of the column `requests` of the metadata, if there is one, large numbers first, and then
      newest first.
    * What other writers add, update or remove in the index at `path` until the exchange is followed. A writer that read
      the old index and saves it after the exchange gets a ValueError.
    * A call after an interrupt or a kill resumes after the last batch: the folder `path + ".migrating"` has the new
      vectors until the end. Files of others in it stay.
    * Items that cannot be embedded keep adapted vectors, and the column `vector`. A later call tries them again until
      the migration ends.
    * Memory holds the old and the new vectors; the disk needs room for three copies of the new ones.

    See also: `upgrade` for an index whose examples are gone, `tfdml migrate` for an index with a column `path`.

    Example:

        >>> old = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [0.8, -0.6]])
        >>> new = old[:, ::-1] * [1.0, -1.0]  # the new model turns by a right angle
        >>> tfdml.search.Exact(old, model="old").save("products")
        >>> for progress in tfdml.search.migrate("products", lambda ids, _: new[ids], model="new", batch_size=3):
        ...     index = tfdml.search.load("products", model="new")
        ...     print(progress.embedded, index.metadata["vector"].to_pylist() if index.metadata else "all embedded")
        3 ['adapted', 'embedded', 'embedded', 'embedded']
        4 all embedded

    Args:
        path: folder of an index that `Exact.save`, `Scann.save`, `Faiss.save` or `Lance.save` wrote.
        embed: function from ids `(n,)` and their rows of the metadata, a `pyarrow.Table` or None, to embeddings of the
            new model, `(n, new_dim)`; a row with NaN for an item that cannot be embedded.
        model: the new model, as for an index.
        batch_size: number of items that are embedded and written at the same time.

    Returns:
        An iterator of the progress after each batch: `embedded`, `failed` and `items` are numbers of items. `recall` is
        the estimated share of items that their own new vector finds first, among the items that are embedded and
        among the others: as many as of `measured` held-back items (each tenth, at most 1,000), on which no adapter is
        learned; NaN before it is measured. `seconds_left` is estimated. The migration ends with the iterator.

    Raises:
        BlockingIOError: another process migrates the index.
        FileNotFoundError: there is no index.
        ValueError: an index of the new model; an unfinished migration to another model; a column `requests` without
            numbers, or `vector` of your own; none of the first items can be embedded; embeddings of another shape,
            complex ones, or one embedding for all items.
    """
    require("://" not in str(path), f"path={str(path)!r}", "a folder. Copy the table with save, and migrate the copy")
    path = Path(os.path.realpath(Path(path).expanduser()))
    sweep(path)
    fingerprint = as_fingerprint(model)
    require_whole("batch_size", batch_size, 1)
    if fingerprint is None:
        raise ValueError("Received model=None, expected the new model, its fingerprint, or a text that names it.")
    work, index = _Work(migration_of(path), fingerprint), read_whole(path, read_index)
    work.require_same_run(index)
    received = f"an index of the model {fingerprint[:12]}, to which it is migrated"
    expected = "an index of another model. There is nothing to do"
    require(not is_of(index, fingerprint) or work.folder.exists(), received, expected)
    _require_columns(index.metadata)
    return _steps(path, work, embed, batch_size)


@dataclass(frozen=True)
class _Work:
    """The folder of a migration: its model, new vectors in files, and the index that answers the new model."""

    folder: Path
    model: str

    def has_begun(self):
        return (self.folder / _RUN).is_file()

    def require_same_run(self, index):
        """Raise an error for a folder of another migration, or of something else; a finished migration is removed."""
        run = read_json(self.folder / _RUN) if self.has_begun() else None
        if run is not None and run.get("model") != self.model and is_of(index, str(run.get("model"))):
            with only_writer(self.folder, "path"):
                self.remove()  # it was ended after the exchange
        if self.has_begun():
            received = f"an unfinished migration to the model {str(run.get('model'))[:12]} in {str(self.folder)!r}"
            expected = f"one to {self.model[:12]}. Finish that one, or remove the folder"
            require(run == {"format": _FORMAT, "model": self.model}, received, expected)
        elif self.folder.exists() and any(file.name[0] != "." for file in self.folder.iterdir()):
            received = f"Received {str(self.folder)!r}, a folder of something else"
            raise FileExistsError(f"{received}, expected a free name for the files of the migration. Move it.")

    def begin(self):
        if not self.has_begun():
            with atomic_write(self.folder / _RUN) as new:
                new.write_text(json.dumps({"format": _FORMAT, "model": self.model}))

    def files(self):
        return sorted(file for file in self.folder.glob("*.npz") if re.fullmatch("[0-9]{9}", file.stem))

    def require_own_files(self):
        """Raise a FileExistsError that names a file of others in the index."""
        index = self.folder / _INDEX
        require_replaceable(index, store_at(index).files_at)

    def remove(self):
        """Remove the files of the migration, and the folder if nothing else is in it.

        Its run is the last file, since it says what the others are.
        """
        if (self.folder / _INDEX).exists():
            self.require_own_files()
            os.replace(self.folder / _INDEX, self.folder / f".partial-{secrets.token_hex(4)}")  # at once for readers
        for folder in (self.folder / _NEW, *self.folder.glob(".partial-*")):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (*self.folder.glob(".lock-*"), *self.files(), self.folder / _RUN):
            file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # files of others
            self.folder.rmdir()

    def write(self, ids, old, new):
        """Keep the new vectors of items, with their ids and old vectors: another old vector is another item."""
        number = int(self.files()[-1].stem) + 1 if self.files() else 0
        with atomic_write(self.folder / f"{number:09}.npz") as file:
            np.savez(file, ids=ids, old=old, new=new)

    def vectors(self, index, old):
        """The new vectors of the items, `(n, new_dim)`, NaN where there is none; None if there are no files."""
        new, ids = None, Ids(index.ids)
        for batch in map(_read_batch, self.files()):
            rows = ids.find(batch["ids"])
            rows = np.where((old[rows] == batch["old"]).all(axis=1), rows, -1)
            new = np.full((len(old), batch["new"].shape[1]), np.nan, np.float32) if new is None else new
            new[rows[rows >= 0]] = batch["new"][rows >= 0]
        return new


def _read_batch(file):
    try:
        batch = read_arrays(file)
        is_whole = len(batch["ids"]) == len(batch["old"]) == len(batch["new"]) and batch["new"].ndim == 2
        require(is_whole, "arrays that do not fit together", "those of one batch")
    except Exception as error:  # Each damage fails in its own way.
        received = f"Received a damaged batch {str(file)!r} ({error!r})"
        raise ValueError(f"{received}, expected new vectors. Remove it: its items are embedded again.") from error
    return batch


def _steps(path, work, embed, batch_size):
    """Rounds over the items without a new vector, until a round ends with the index that it began with."""
    with only_writer(work.folder, "path"):
        work.begin()
        is_over = False
        while not is_over:
            index = read_whole(path, read_index)
            is_over = is_of(index, work.model)  # an earlier call was ended after the exchange
            if not is_over:
                yield from _embed_pending(index, index.vectors, work, embed, batch_size)
                work.require_own_files()
                is_over = index.exchange(path, work.folder / _INDEX)
        work.remove()


def _embed_pending(index, old, work, embed, batch_size):
    """Embed all items of an index that have no new vector; at the end, the index of the work is that of all items."""
    new = work.vectors(index, old)
    pending = _order(index, np.arange(len(old)) if new is None else np.flatnonzero(~_is_known(new)))
    began, published, measured = time.monotonic(), 0, (math.nan, 0)
    for start in range(0, max(1, len(pending)), batch_size):
        rows = pending[start : start + batch_size]
        new = _embedded_again(index, old, new, rows, embed, work) if len(rows) else new
        num_embedded, left = int(_is_known(new).sum()), len(pending) - start - len(rows)
        if num_embedded >= _GROWTH * published or not left:
            published, measured = num_embedded, _publish(index, old, new, work, measured, is_last=not left)
        seconds = (time.monotonic() - began) / max(1, start + len(rows)) * left
        recall, num_measured = measured
        yield Progress(num_embedded, len(old) - num_embedded - left, len(old), recall, seconds, num_measured)


def _order(index, rows):
    """Rows of an index, those that are asked for most first, then the newest."""
    table = index.metadata
    counts = np.zeros(len(rows))
    if table is not None and _PRIORITY in table.column_names:
        counts = np.nan_to_num(table[_PRIORITY].cast("double", safe=False).fill_null(0).to_numpy())[rows]
    return rows[np.lexsort((-rows, -counts))]


def _embedded_again(index, old, new, rows, embed, work):
    table = index.metadata
    vectors = embed(index.ids[rows], None if table is None else table.take(rows))
    require_same_model("new vectors", getattr(vectors, "fingerprint", None), "the migration", work.model)
    vectors = np.asarray(vectors)
    received = f"new vectors of shape {vectors.shape} of {len(rows)} items"
    require(vectors.ndim == 2 and len(vectors) == len(rows), received, f"({len(rows)}, dim) from embed")
    require(vectors.dtype.kind not in "cSUmM", f"new vectors of type {vectors.dtype}", "real numbers from embed")
    vectors = vectors.astype(np.float32)
    loaded = np.isfinite(vectors).all(axis=1)
    expected = "at least one. Look at the files and the model; nothing was changed"
    require(new is not None or bool(loaded.any()), f"{len(rows)} items, none of which can be embedded", expected)
    new = np.full((len(old), vectors.shape[1]), np.nan, np.float32) if new is None else new
    if loaded.any():
        require(vectors.shape[1] == new.shape[1], received, f"dim {new.shape[1]}, as of the earlier ones")
        _require_distinct(old, new, rows[loaded], vectors[loaded], work.folder)
        work.write(index.ids[rows[loaded]], old[rows[loaded]], vectors[loaded])
        new[rows[loaded]] = vectors[loaded]
    return new


def _require_distinct(old, new, rows, vectors, folder):
    """Raise a ValueError if all new vectors so far are one vector, and the old ones are not."""
    if len(rows) > 1 and not are_all_the_same(vectors):
        return
    earlier = _is_known(new)
    expected = f"several from embed. Look at the model; the old index stays. Remove {str(folder)!r} to begin again"
    is_one = are_all_the_same(np.concatenate([new[earlier], vectors]))
    is_alike = not is_one or are_all_the_same(np.concatenate([old[earlier], old[rows]]))
    require(is_alike, f"one new vector for all of the {earlier.sum() + len(rows):,} items so far", expected)


def _publish(index, old, new, work, measured, is_last):
    """Write the index that answers the new model; returns its recall and the number of items that measured it.

    While too few items are embedded to learn an adapter, it writes nothing, and returns the earlier numbers.
    """
    is_embedded = _is_known(new)
    held_back = is_embedded & (np.arange(len(new)) % _HELD_BACK == 0)
    learned = is_embedded & ~held_back
    if is_embedded.all():
        vectors, table = new, _with_source(index.metadata, None)
        measured = _recall(new, new, new, np.arange(len(new)), index.metric)
    else:
        can_learn = learned.sum() > 1 and not are_all_the_same(old[learned])
        expected = "more, to learn an adapter for the others. Put their images back"
        require(can_learn or not is_last, f"{is_embedded.sum():,} of {len(new):,} items that can be embedded", expected)
        if not can_learn:
            return measured
        adapted = LinearAdapter.learn(old[learned], new[learned], metric=index.metric)(old)
        vectors, table = np.where(is_embedded[:, None], new, adapted), _with_source(index.metadata, is_embedded)
        share, _ = _recall(vectors, vectors, new, np.flatnonzero(is_embedded), index.metric)
        others, count = _recall(vectors, adapted, new, np.flatnonzero(held_back), index.metric)
        measured = float(is_embedded.mean() * share + (1 - is_embedded.mean()) * others), count
    target = work.folder / _INDEX
    made = target if target.exists() else work.folder / _NEW  # A table is made in several steps.
    rebuilt(index, vectors, table, work.model).save(made)
    os.replace(made, target)
    return measured


def _recall(vectors, there, new, rows, metric):
    """The share of rows whose new vector finds the vector that is there first among the vectors, and their number.

    At most `_MAX_QUERIES` of the rows are measured. NaN without rows. What is found may be a copy of the vector.
    """
    if len(rows) and there is vectors and metric != "dot":
        return 1.0, len(rows)  # No other vector is nearer than the vector itself.
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), _MAX_QUERIES)).astype(int)]
    if not len(rows):
        return math.nan, 0
    gallery = vectors.copy()
    gallery[rows] = there[rows]
    ids, _ = Exact(gallery, metric=metric).search(new[rows], 1)
    return float(np.mean((gallery[ids[:, 0]] == gallery[rows]).all(axis=1))), len(rows)


def _with_source(table, is_embedded):
    """Metadata with a column that says which vectors are embedded, `(n,)` bool; None: without the column."""
    if table is not None and _SOURCE in table.column_names:
        table = table.drop_columns(_SOURCE)
    if is_embedded is None:
        return None if table is None or not table.column_names else table
    pyarrow = optional_import("pyarrow", feature="A migration", extra="tables")
    origin = pyarrow.array(np.where(is_embedded, _EMBEDDED, _ADAPTED))
    return pyarrow.table({_SOURCE: origin}) if table is None else table.append_column(_SOURCE, origin)


def _require_columns(table):
    """Raise an error for a column that a migration takes for its own."""
    fields = {} if table is None else {name: table[name].type for name in table.column_names}
    if _SOURCE in fields:
        is_text = str(fields[_SOURCE]) in ("string", "large_string")
        is_own = is_text and set(table[_SOURCE].unique().to_pylist()) <= {_EMBEDDED, _ADAPTED}
        require(is_own, f"metadata with a column {_SOURCE!r}", f"another name, since a migration adds {_SOURCE!r}")
    if _PRIORITY in fields:
        types = optional_import("pyarrow", feature="A migration", extra="tables").types
        are_numbers = any(
            is_type(fields[_PRIORITY]) for is_type in (types.is_integer, types.is_floating, types.is_decimal)
        )
        is_ordered = are_numbers or types.is_boolean(fields[_PRIORITY]) or types.is_null(fields[_PRIORITY])
        expected = "numbers: the items that are asked for most are embedded first. Rename the column"
        require(is_ordered, f"metadata with a column {_PRIORITY!r} of type {fields[_PRIORITY]}", expected)


def _is_known(new):
    return ~np.isnan(new[:, 0])
