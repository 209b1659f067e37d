"""Entries in repositories of Hugging Face, in a stand-in of its interface that needs no network."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.damage import flip
from tests.zoo.cards import write_entry
from tests.zoo.local_hub import LocalHub
from tfdml import zoo
from tfdml.zoo import huggingface

ROOT = Path(__file__).parents[2] / "savedmodels"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Stands in for huggingface_hub."""
    hub = LocalHub(tmp_path / "cache")
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    return hub


def contents(folder):
    """Bytes of all files of a folder by relative name."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def squares(tmp_path):
    """The files of an entry without a network."""
    return contents(write_entry(tmp_path / "made", "squares"))


def test_an_entry_that_was_pushed_is_pulled_as_it_was(hub, tmp_path):
    url = zoo.push("user/glyphs-2d", root=ROOT, private=True)
    assert url.startswith("https://huggingface.co/user/glyphs-2d/commit/")
    assert hub.calls == [("HfApi", {}), ("create_repo", {"private": True, "exist_ok": True})]
    assert hub.repos["user/glyphs-2d"]["main"].keys() == {*contents(ROOT / "glyphs-2d"), ".gitattributes"}
    folder = zoo.pull("user/glyphs-2d", root=tmp_path / "mine")
    assert folder == tmp_path / "mine" / "glyphs-2d"
    assert contents(folder) == contents(ROOT / "glyphs-2d")
    assert not [path for path in folder.rglob("*") if path.is_symlink()]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("a flipped bit", r"1/saved_model\.pb: differs"),
        ("another file", r"notes\.txt: not in SHA256SUMS"),
        ("another name", "'glyphs-2d', expected 'other'"),
    ],
)
def test_a_damaged_entry_is_not_pushed(change, message, hub, tmp_path):
    entry = shutil.copytree(ROOT / "glyphs-2d", tmp_path / "glyphs-2d")
    if change == "a flipped bit":
        flip(entry / "1" / "saved_model.pb", 12345)
    elif change == "another file":
        (entry / "notes.txt").write_text("mine")
    else:
        entry = entry.rename(tmp_path / "other")
    with pytest.raises(ValueError, match=message):
        zoo.push(f"user/{entry.name}", root=tmp_path)
    assert hub.calls == []


def test_a_pull_takes_the_files_of_one_commit_and_nothing_else(hub, squares, tmp_path):
    first = hub.commit("user/squares", {**squares, "notes.txt": b"not of the entry"})
    newer = contents(write_entry(tmp_path / "newer", "squares", seed=4))
    hub.before_download = lambda downloads: downloads and hub.commit("user/squares", newer)
    assert contents(zoo.pull("user/squares", root=tmp_path)) == squares
    assert zoo.pull("user/squares", root=tmp_path) == tmp_path / "squares"
    assert zoo.card("squares", root=tmp_path).seed == 4
    assert contents(zoo.pull("user/squares", revision=first, root=tmp_path)) == squares


@pytest.mark.parametrize(("content", "reason"), [(b"changed", "differs from SHA256SUMS"), (None, "missing")])
@pytest.mark.parametrize("name", ["model.json", "1/saved_model.pb"])
def test_a_damaged_or_missing_file_of_a_repository_is_named_before_anything_is_parsed(
    name, content, reason, hub, tmp_path, monkeypatch
):
    files = contents(ROOT / "glyphs-2d") | {name: content}
    hub.commit("user/glyphs-2d", {key: value for key, value in files.items() if value is not None})
    monkeypatch.setattr(huggingface, "read_card", lambda _: pytest.fail("parsed before it was checked"))
    with pytest.raises(ValueError, match=rf"'user/glyphs-2d', downloaded to .*user--glyphs-2d', with {name}: {reason}"):
        zoo.pull("user/glyphs-2d", root=tmp_path / "mine")
    assert list((tmp_path / "mine").iterdir()) == []


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("step", [0, 1, "copy"])
def test_an_interrupted_pull_leaves_the_older_entry_as_it_was(step, error, hub, squares, tmp_path, monkeypatch):
    def stopped(*_):
        raise error

    before = contents(write_entry(tmp_path / "mine", "squares", seed=9))
    hub.commit("user/squares", squares)
    hub.before_download = lambda downloads: downloads == step and stopped()
    if step == "copy":
        monkeypatch.setattr(huggingface.shutil, "copyfile", stopped)
    with pytest.raises(error):
        zoo.pull("user/squares", root=tmp_path / "mine")
    assert contents(tmp_path / "mine" / "squares") == before
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["squares"]


def test_what_is_no_entry_is_not_pulled_and_no_file_of_a_user_is_lost(hub, squares, tmp_path):
    hub.commit("user/other", squares)
    with pytest.raises(ValueError, match="the entry 'squares', expected 'other', the name of its repository"):
        zoo.pull("user/other", root=tmp_path)
    hub.commit("user/llm", {"config.json": b"{}"})
    with pytest.raises(ValueError, match="'user/llm' without SHA256SUMS"):
        zoo.pull("user/llm", root=tmp_path)
    hub.commit("user/outside", {"SHA256SUMS": f"{'0' * 64}  ../x\n".encode()})
    with pytest.raises(ValueError, match="of another form"):
        zoo.pull("user/outside", root=tmp_path)
    assert not (tmp_path / "other").exists() | (tmp_path / "llm").exists() | (tmp_path / "outside").exists()
    with pytest.raises(ValueError, match="expected a folder of entries"):
        zoo.pull("user/squares", root="https://example.org")
    for repo_id in ("user/.hidden", "user/", "user/a b"):
        with pytest.raises(ValueError, match="expected letters, digits"):
            zoo.pull(repo_id, root=tmp_path)
    hub.commit("user/squares", squares)
    (tmp_path / "squares").mkdir()
    (tmp_path / "squares" / "thesis.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"a folder with 'thesis\.txt'"):
        zoo.pull("user/squares", root=tmp_path)
