"""One index of shards: each is an index of its own on disk, and a search covers all of them."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfdml._core.atomic import atomic_write
from tfdml._core.checks import require
from tfdml._core.stored import read_json
from tfdml.search.index.files import files_of_index, seen
from tfdml.search.index.items import Items
from tfdml.search.nearest import merged

MANIFEST, _RUN = "shards.json", "run.json"
_FORMAT = "tfdml.shards/1"


def combined(shards: Sequence[Any]) -> Any:
    """The first of several indexes of one kind, with its settings of search, and the items of all, in their order."""
    first = shards[0]
    for number, shard in enumerate(shards):
        facts, expected = _facts(shard), _facts(first)
        other = [f"{name} {facts[name]!r}" for name in facts if facts[name] != expected[name]]
        require(not other, f"shard {number} of {', '.join(other)}", f"{expected} as shard 0. Build it again")
    first._items = Items(tuple(segment for shard in shards for segment in shard._items.segments))
    ids = np.sort(first.ids)
    repeated = ids[1:][ids[1:] == ids[:-1]]
    require(not len(repeated), f"the id {repeated[:1]} in two shards", "ids of one shard each")
    return first


def _facts(index):
    ids = index._items.segments[0].ids.kind
    return {"kind": index.kind, "metric": index.metric, "dim": index.dim, "ids": ids, "model": index.fingerprint}


def merged_results(
    results: Iterable[tuple[np.ndarray, np.ndarray]], k: int, metric: str
) -> tuple[np.ndarray, np.ndarray]:
    """The `k` best of several searches' `(ids, scores)` of the same queries; equal scores in their order.

    Each result is `(q, at most k)`. Small Euclidean scores are best, and large scores of the other metrics.
    """
    sign = -1 if metric == "euclidean" else 1
    (ids, scores), *others = results
    values = sign * scores
    for more_ids, more_scores in others:
        ids, values = merged(ids, values, more_ids, sign * more_scores, k)
    return ids, sign * values


def write_manifest(folder: Path, facts: dict[str, Any], shards: Sequence[dict[str, Any]]) -> None:
    """Write the manifest of a folder of shards: facts about all, and the `name` and number of `vectors` of each."""
    with atomic_write(folder / MANIFEST) as new:
        new.write_text(json.dumps({"format": _FORMAT, **facts, "shards": list(shards)}, indent=1))


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder of shards."""
    if not (folder / MANIFEST).is_file():
        raise FileNotFoundError(f"Received {str(folder)!r} without {MANIFEST}, expected a folder of shards.")
    manifest = read_json(folder / MANIFEST)
    entries = manifest.get("shards")
    is_valid = manifest.get("format") == _FORMAT and isinstance(entries, list) and len(entries) > 0
    is_valid = is_valid and all(isinstance(entry, dict) and {"name", "vectors"} <= set(entry) for entry in entries)
    is_valid = is_valid and all(entry["name"] not in ("", ".", "..") for entry in entries)  # not the folder itself
    require(is_valid, f"{str(folder / MANIFEST)!r} of another form", f"the format {_FORMAT} with its shards")
    return manifest


def read_shards(folder: Path, load: Callable[[Path], Any]) -> Any:
    """The index of all shards of a folder; `load` reads one shard, and errors name it."""
    version = seen(folder)
    index = combined([read_shard(folder, entry, load) for entry in read_manifest(folder)["shards"]])
    index._known = version
    return index


def replaceable_files(folder: Path) -> frozenset[str]:
    """Names of the files of the index or of the shards in a folder; empty for a folder of another kind."""
    if not (folder / MANIFEST).is_file():
        return files_of_index(folder)
    names = [Path(str(entry["name"])).name for entry in read_manifest(folder)["shards"]]
    files = (f"{name}/{file}" for name in names for file in files_of_index(folder / name))
    return frozenset({MANIFEST, _RUN, *(f"{name}.json" for name in names), *files})


def read_shard(folder: Path, entry: dict[str, Any], load: Callable[[Path], Any]) -> Any:
    """The index of one shard of a manifest; its errors name it."""
    path = folder / Path(str(entry["name"])).name
    try:
        index = load(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"Received {str(folder)!r}, whose shard {path.name!r} is missing. {error}") from error
    except ValueError as error:
        raise ValueError(f"Received {str(folder)!r}, whose shard {path.name!r} is damaged. {error}") from error
    received = f"{str(folder)!r}, whose shard {path.name!r} has {len(index)} vectors"
    require(len(index) == entry["vectors"], received, f"{entry['vectors']} as in {MANIFEST}. Build it again")
    return index
