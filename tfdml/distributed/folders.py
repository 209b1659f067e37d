"""Folders of a run: the arguments of its call, and a record for each finished shard."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfdml._core.atomic import atomic_write, only_writer
from tfdml._core.checks import require
from tfdml._core.stored import read_json
from tfdml.typing import FilePath

RUN = "run.json"


@contextlib.contextmanager
def begun(path: FilePath, run: dict[str, Any]) -> Iterator[Path]:
    """Hold the folder of a run, new or of an earlier call of the same one: no other call writes it in the block."""
    folder = Path(path).expanduser()
    with only_writer(folder, "folder"):
        _begin(folder, run)
        yield folder


def _begin(folder, run):
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / RUN
    if not file.is_file():
        other = next((entry.name for entry in sorted(folder.iterdir()) if not entry.name.startswith(".partial-")), None)
        if other is not None:
            received = f"Received {str(folder)!r}, a folder with {other!r} and without {RUN}"
            raise FileExistsError(f"{received}, expected a new folder, or one of the same run. Choose another one.")
        _write(file, run)
    saved = read_json(file)
    changed = [name for name in run if saved.get(name) != run[name]]
    differences = [f"{name} {saved.get(name)!r} where this call has {run[name]!r}" for name in changed]
    received = f"{str(folder)!r}, a run of {' and '.join(differences)}"
    require(not changed, received, "the folder of a run with the same arguments. Finish it, or choose another folder")


def write_record(folder: Path, name: str, record: dict[str, Any]) -> dict[str, Any]:
    """Write the record of a shard, after its files; returns it."""
    _write(folder / f"{name}.json", record)
    return record


def record_of(folder: Path, name: str) -> dict[str, Any] | None:
    """The record of a shard that is finished, else None."""
    file = folder / f"{name}.json"
    return read_json(file) if file.is_file() else None


def _write(file, content):
    with atomic_write(file) as new:
        new.write_text(json.dumps(content, indent=1))
