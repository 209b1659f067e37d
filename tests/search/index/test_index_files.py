"""Index folders: damage is an error."""

from types import SimpleNamespace

import numpy as np
import pytest

from tfdml import search
from tfdml.search.approximate import scann
from tfdml.search.index import files

X = np.random.default_rng(0).standard_normal((6, 3)).astype("float32")
IDS = np.array([2**62, 5, -7, 0, 11, 3])


def files_of(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def flipped(path, places):
    """Writes the file with one bit flipped, once per place, and its own content in the end."""
    content = path.read_bytes()
    for place in places:
        path.write_bytes(content[:place] + bytes([content[place] ^ (1 << place % 8)]) + content[place + 1 :])
        yield place
    path.write_bytes(content)


def test_a_searcher_of_another_size_is_refused(tmp_path, monkeypatch):
    search.Scann(np.tile(X, (50, 1)), method="partitioned", leaves=4).save(tmp_path)
    monkeypatch.setattr(scann, "_load", lambda folder: SimpleNamespace(size=lambda: 299))
    with pytest.raises(ValueError, match="do not fit together"):
        search.load(tmp_path)


def test_scann_never_reads_a_file_with_a_flipped_bit(tmp_path, monkeypatch):
    search.Scann(np.tile(X, (50, 1)), method="partitioned", leaves=4).save(tmp_path)

    def refuse(folder):
        raise AssertionError(f"ScaNN was given {folder}")

    monkeypatch.setattr(scann, "_load", refuse)
    with pytest.raises(AssertionError, match="ScaNN was given"):
        search.load(tmp_path)
    for path in (path for path in files_of(tmp_path) if path.name != "index.json" and path.stat().st_size):
        for _ in flipped(path, np.linspace(0, path.stat().st_size - 1, 9).astype(int)):
            with pytest.raises(ValueError, match="is damaged"):
                search.load(tmp_path)


@pytest.mark.parametrize("load", [search.load, search.Exact.load])
def test_a_class_loads_while_another_version_takes_the_place(tmp_path, load, monkeypatch):
    search.Exact(X, IDS).save(tmp_path / "index")
    read, replaced = files.read_array, []

    def read_late(*arguments, **options):
        if not replaced:
            replaced.append(search.Exact(X[:2], IDS[:2]).save(tmp_path / "index"))
        return read(*arguments, **options)

    monkeypatch.setattr("tfdml.search.index.segment_files.read_array", read_late)
    assert len(load(tmp_path / "index")) == 2
