"""Index folders: what they hold, and what replaces them."""

import numpy as np
import pytest

from tfdml import search
from tfdml.search.index import files

X = np.random.default_rng(0).standard_normal((40, 3)).astype("float32")
NAMES = [f"n{i}" for i in range(40)]


def files_of(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("load", [search.load, search.Exact.load])
def test_a_class_loads_while_another_version_takes_the_place(tmp_path, load, monkeypatch):
    search.Exact(X).save(tmp_path / "index")
    read, replaced = files.read_array, []

    def read_late(*arguments, **options):
        if not replaced:
            replaced.append(search.Exact(X[:2]).save(tmp_path / "index"))
        return read(*arguments, **options)

    monkeypatch.setattr("tfdml.search.index.segment_files.read_array", read_late)
    assert len(load(tmp_path / "index")) == 2


def test_an_index_that_was_loaded_replaces_its_own_folder_and_any_other_index(tmp_path):
    search.Exact(X[:30], NAMES[:30]).save(tmp_path / "index")
    index = search.load(tmp_path / "index")
    index.add(X[30:], NAMES[30:])
    before = {path.name for path in files_of(tmp_path / "index")}
    index.save(tmp_path / "index")
    kept = before - {"index.json", "SHA256SUMS"}
    assert kept < {path.name for path in files_of(tmp_path / "index")}  # the same content has the same name
    search.Exact(X[:3]).save(tmp_path / "index")
    index.save(tmp_path / "index")
    assert search.load(tmp_path / "index").ids.tolist() == NAMES


def test_a_place_without_an_index_or_that_cannot_be_written_is_an_error(tmp_path):
    for name in ("nowhere", "."):
        with pytest.raises(FileNotFoundError, match=r"expected a folder with index\.json"):
            search.load(tmp_path / name)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        search.Exact(X).save(tmp_path / "file" / "index")
