"""Index folders: what they hold, and the error of each damage."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.search.test_search import build, every_folder
from tfdml import search
from tfdml.search.index import files

X = np.random.default_rng(0).standard_normal((40, 3)).astype("float32")
NAMES = [f"n{i}" for i in range(40)]


def files_of(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def flipped(path, places):
    """Writes the file with one bit flipped, once per place, and its own content in the end."""
    content = path.read_bytes()
    for place in places:
        path.write_bytes(content[:place] + bytes([content[place] ^ (1 << place % 8)]) + content[place + 1 :])
        yield place
    path.write_bytes(content)


@every_folder
def test_a_flipped_bit_a_cut_and_a_missing_file_are_found_before_a_searcher_is_read(tmp_path, kind, monkeypatch):
    index = build(kind, 1000 + X[:30], NAMES[:30], metric="euclidean", metadata={"a": NAMES[:30]})
    index.add(1000 + X[30:], NAMES[30:], metadata={"a": NAMES[30:]})
    index.remove(NAMES[:3])
    index.save(tmp_path)
    kinds = {path.name.split("-")[0] for path in files_of(tmp_path) if path.parent == tmp_path}
    assert kinds == {"index.json", "SHA256SUMS", "ids", "gallery", "metadata", "alive", "center"}
    assert {path.suffix for path in files_of(tmp_path)} <= {"", ".json", ".npy", ".parquet", ".pb", ".pbtxt", ".faiss"}
    assert len(search.load(tmp_path)) == 37
    monkeypatch.setattr(search.Scann, "_load_searcher", lambda _, folder: pytest.fail(f"ScaNN was given {folder}"))
    for path in (path for path in files_of(tmp_path) if path.stat().st_size):
        content = path.read_bytes()
        for _ in flipped(path, [len(content) // 2]):
            with pytest.raises(ValueError, match=r"in which|damaged|format"):
                search.load(tmp_path)
        path.write_bytes(content[:-1])
        with pytest.raises(ValueError, match=r"in which|damaged"):
            search.load(tmp_path)
        path.unlink()
        with pytest.raises((ValueError, FileNotFoundError), match=path.name):
            search.load(tmp_path)
        path.write_bytes(content)


def test_a_searcher_of_another_size_is_refused(tmp_path, monkeypatch):
    search.Scann(X).save(tmp_path)
    monkeypatch.setattr(search.Scann, "_load_searcher", lambda *_: SimpleNamespace(size=lambda: 39))
    with pytest.raises(ValueError, match="do not fit together"):
        search.load(tmp_path)


def test_a_pickle_in_a_scann_folder_is_not_loaded(tmp_path):
    search.Scann(X).save(tmp_path)
    (next(tmp_path.glob("scann-*")) / "scann_docids.pkl").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(ValueError, match="Do not load it"):
        search.load(tmp_path)


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


@every_folder
def test_a_save_that_breaks_off_leaves_the_old_index(tmp_path, kind, monkeypatch):
    search.Exact(X).save(tmp_path / "index")
    new = build(kind, X[:20])

    def full(*args):
        raise OSError("No space left on device")

    monkeypatch.setattr("tfdml.search.index.files.write_checksums", full)
    with pytest.raises(OSError, match="No space left"):
        new.save(tmp_path / "index")
    monkeypatch.undo()
    assert len(search.load(tmp_path / "index")) == 40
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


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
