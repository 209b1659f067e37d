"""Segments and settings of an index in its folder."""

import sys
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tfdml._core.checks import METRICS, require
from tfdml.search.index.files import checked, put, read_array
from tfdml.search.index.ids import Ids
from tfdml.search.index.items import Items
from tfdml.search.index.segments import Segment
from tfdml.search.index.tables import read_table, write_table
from tfdml.search.scores import Gallery, append_half_squares


def write_items(folder: Path, items: Items) -> dict[str, Any]:
    """Write all segments; return the entries of `index.json` for them."""
    return {"segments": [_write_segment(folder, segment) for segment in items.segments]}


def _write_segment(folder, segment):
    """Write the components of a segment; return the name of each file."""
    writers = {"ids.npy": _array(segment.ids.values)}
    searcher = segment.searcher and getattr(segment.searcher, "component", "scann")
    if searcher != "scann":  # which keeps the vectors in its own files
        writers["gallery.npy"] = _array(segment.gallery.augmented)
    if searcher is not None:
        writers[searcher] = lambda path: _write_searcher(path, segment.searcher)
    if segment.gallery.is_shifted:
        writers["center.npy"] = _array(segment.gallery.center)
    if segment.metadata is not None:
        writers["metadata.parquet"] = lambda path: write_table(path, segment.metadata)
    if segment.alive is not None:
        writers["alive.npy"] = _array(segment.alive)
    return {Path(name).stem: put(folder, name, write) for name, write in writers.items()}


def _array(array):
    return lambda path: np.save(path, array, allow_pickle=False)


def _write_searcher(path, searcher):
    path.mkdir()
    searcher.serialize(str(path), relative_path=True)


def read_items(folder: Path, manifest: dict[str, Any], load_searcher: Callable[[Path], Any] | None = None) -> Items:
    """Read and check all segments of an index folder; `load_searcher` reads the folder of a searcher."""
    metric, dim = read_settings(folder, manifest)
    records = manifest["segments"]
    segments = tuple(_read_segment(folder, record, metric, dim, load_searcher) for record in records)
    items = Items(segments)
    _require_consistent(len(items) > 0 and all(_are_alike(segments[0], segment) for segment in segments), folder)
    return items


def _are_alike(one, other):
    """Whether two segments have ids of one kind, and metadata of the same columns and types."""
    schemas = [None if segment.metadata is None else segment.metadata.schema for segment in (one, other)]
    return one.ids.kind == other.ids.kind and schemas[0] == schemas[1]


def _require_consistent(is_consistent, folder):
    if not is_consistent:
        raise ValueError(f"The index in {str(folder)!r} is damaged: its files do not fit together. Save it again.")


def _read_segment(folder, record, metric, dim, load_searcher):
    ids = read_ids(folder, record["ids"])
    name = record.get("scann", record.get("faiss"))
    searcher = load_searcher(folder / name) if name is not None and load_searcher is not None else None
    gallery = _read_gallery(folder, record, metric, dim, len(ids))
    metadata = read_table(folder / record["metadata"]) if "metadata" in record else None
    alive = read_array(folder, record["alive"], np.bool_, (len(ids),)) if "alive" in record else None
    _require_consistent(metadata is None or len(metadata) == len(ids), folder)
    _require_consistent(searcher is None or searcher.size() == len(ids), folder)
    return Segment(gallery, ids, metadata, alive, searcher)


def _read_gallery(folder, record, metric, dim, count):
    """The `count` vectors of a segment, memory-mapped. A searcher stores them centered, in its own files."""
    is_euclidean = metric == "euclidean"
    name, width = record.get("gallery"), dim + is_euclidean
    if name is None:
        name, width = f"{record['scann']}/dataset.npy", dim
    rows = read_array(folder, name, np.float32, (count, width), mapped=True)  # before a center of a stated dim is made
    center = _read_center(folder, record, dim) if is_euclidean else None
    augmented = append_half_squares(rows) if "scann" in record and is_euclidean else rows
    gallery = Gallery.from_augmented(augmented, metric, center)
    if not gallery.is_valid():
        raise ValueError(f"The gallery in {str(folder)!r} is damaged: its lengths are wrong. Save the index again.")
    return gallery


def _read_center(folder, record, dim):
    return read_array(folder, record["center"], np.float32, (dim,)) if "center" in record else np.zeros(dim, np.float32)


def read_ids(folder: Path, name: str) -> Ids:
    """Read and check the ids of a segment: one or more, int64 or text."""
    values = read_array(folder, name, (np.int64, np.str_), (None,))
    try:
        require(len(values) > 0 and _is_unicode(values), "ids that are no text, or none", "one per vector")
        return Ids(values)
    except ValueError as error:
        raise ValueError(f"{name} in {str(folder)!r} is damaged: {error} Save the index again.") from error


def _is_unicode(values):
    """Whether all characters of NumPy text are Unicode; True for numbers."""
    if values.dtype.kind != "U" or not values.itemsize:
        return True
    return values.view(np.dtype("u4").newbyteorder(values.dtype.byteorder)).max() <= sys.maxunicode


def read_settings(folder: Path, manifest: dict[str, Any]) -> tuple[str, int]:
    """Metric and dim of an index folder, checked."""
    metric = checked(folder, manifest, "metric", lambda metric: metric in METRICS)
    return metric, checked(folder, manifest, "dim", lambda dim: type(dim) is int and dim > 0)


def read_fingerprint(folder: Path, manifest: dict[str, Any]) -> str | None:
    """The fingerprint of the model of an index folder; None if unknown."""
    return checked(folder, manifest, "model", lambda model: isinstance(model, str)) if "model" in manifest else None


def require_kind(manifest: dict[str, Any], kind: str, folder: str | PathLike) -> None:
    """Raise a ValueError unless the manifest is of this kind of index."""
    if manifest.get("kind") != kind:
        raise ValueError(
            f"Received path={str(folder)!r} with an index of kind {manifest.get('kind')!r}, expected {kind!r}. "
            "tfdml.search.load picks the right class."
        )
