"""Files and folders are complete at all times: concurrent writers and readers, crashes at the worst moment."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tfdml._core import atomic as _atomic
from tfdml._core.atomic import atomic_write, read_whole, recovered

PARTS = 4

# Other processes load the module by itself, which takes milliseconds; all of tfdml takes seconds.
PROGRAM = f"""
import importlib.util, os, pathlib, signal, sys, time
spec = importlib.util.spec_from_file_location("files", {_atomic.__file__!r})
files = importlib.util.module_from_spec(spec)
spec.loader.exec_module(files)
path = pathlib.Path(sys.argv[1])
listed = (lambda folder: set("0123")) if "folder" in sys.argv else None
if "fallback" in sys.argv:
    files._RENAMEAT2 = None
"""

HAMMER = """
count, end = 0, time.monotonic() + 0.7
while time.monotonic() < end:
    text = f"{os.getpid()} {count} " * 9_999
    with files.atomic_write(path, listed) as new:
        if "folder" in sys.argv:
            new.mkdir()
            for part in range(4):
                (new / str(part)).write_text(text)
        else:
            new.write_text(text)
    count += 1
print(count)
"""

HALF = """
with files.atomic_write(path, listed) as new:
    if "folder" in sys.argv:
        new.mkdir()
        new /= "0"
    new.write_text("half")
    print("half", flush=True)
    time.sleep(60)
"""

DIE_BETWEEN_RENAMES = """
files.os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
with files.atomic_write(path, listed) as new:
    new.mkdir()
    for part in range(4):
        (new / str(part)).write_text("new")
"""


@pytest.fixture(params=["file", "folder", "folder fallback"])
def kind(request, monkeypatch):
    """What is written; "fallback" where the system cannot exchange two names."""
    if "fallback" in request.param:
        monkeypatch.setattr(_atomic, "_RENAMEAT2", None)
    return request.param


FOLDERS = pytest.mark.parametrize("kind", ["folder", "folder fallback"], indirect=True)


def start(code, path, kind):
    arguments = [sys.executable, "-c", PROGRAM + code, str(path), *kind.split()]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def write(path, text, kind):
    if kind == "file":
        path.write_text(text)
        return
    path.mkdir()
    for part in range(PARTS):
        (path / str(part)).write_text(text)


def listed(folder):
    """Names of the files of a folder that `write` wrote."""
    return {str(part) for part in range(PARTS)}


def replace(path, text, kind):
    with atomic_write(path, None if kind == "file" else listed) as new:
        write(new, text, kind)


def look(path):
    """What all parts say, where they say the same and none is missing."""
    parts = [path / str(part) for part in range(PARTS)] if path.is_dir() else [path]
    (text,) = {part.read_text() for part in parts}
    return text


def names(folder):
    return sorted(place.name for place in folder.iterdir())


def test_a_new_version_takes_the_place_of_the_old_one(tmp_path, kind):
    for text in ("one", "two"):
        replace(tmp_path / "deep" / "thing", text, kind)
    assert look(tmp_path / "deep" / "thing") == "two"
    assert names(tmp_path / "deep") == ["thing"]


def test_an_error_leaves_the_old_version(tmp_path, kind):
    replace(tmp_path / "thing", "old", kind)

    def write_half():
        with atomic_write(tmp_path / "thing", None if kind == "file" else listed) as new:
            write(new, "half", kind)
            raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError, match="out of luck"):
        write_half()
    assert look(tmp_path / "thing") == "old"
    assert names(tmp_path) == ["thing"]


def test_an_error_of_the_rename_leaves_the_old_version(tmp_path, kind, monkeypatch):
    replace(tmp_path / "thing", "old", kind)

    def full(*names):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "replace", full)
    monkeypatch.setattr(_atomic, "_RENAMEAT2", None)
    with pytest.raises(OSError, match="no space left"):
        replace(tmp_path / "thing", "new", kind)
    assert look(tmp_path / "thing") == "old"
    assert names(tmp_path) == ["thing"]


@FOLDERS
def test_a_folder_does_not_replace_a_file_nor_a_file_a_folder(tmp_path, kind):
    replace(tmp_path / "file", "a", "file")
    replace(tmp_path / "folder", "b", kind)
    with pytest.raises(FileExistsError, match="which is a file, expected the name of a folder"):
        replace(tmp_path / "file", "c", kind)
    with pytest.raises(FileExistsError, match="which is a folder, expected the name of a file"):
        replace(tmp_path / "folder", "c", "file")
    assert (look(tmp_path / "file"), look(tmp_path / "folder")) == ("a", "b")


FOREIGN = ["notes.txt", ".hidden", "deep/er/notes.txt", "link", "deep/link"]


@FOLDERS
@pytest.mark.parametrize("name", FOREIGN)
def test_a_folder_with_a_file_that_its_writer_does_not_know_stays_as_it_is(tmp_path, kind, name):
    replace(tmp_path / "thing", "old", kind)
    (tmp_path / "thing" / name).parent.mkdir(parents=True, exist_ok=True)
    if name.endswith("link"):
        (tmp_path / "thing" / name).symlink_to(tmp_path)
    else:
        (tmp_path / "thing" / name).write_text("mine")
    with pytest.raises(FileExistsError, match=f"a folder with '{name}', which is not a file of an earlier version"):
        replace(tmp_path / "thing", "new", kind)
    assert look(tmp_path / "thing") == "old"
    assert os.path.lexists(tmp_path / "thing" / name)
    assert names(tmp_path) == ["thing"]


@FOLDERS
def test_a_file_that_comes_while_a_folder_is_written_stays(tmp_path, kind):
    replace(tmp_path / "thing", "old", kind)

    def write_beside_a_user():
        with atomic_write(tmp_path / "thing", listed) as new:
            write(new, "new", kind)
            (tmp_path / "thing" / "notes.txt").write_text("mine")

    with pytest.raises(FileExistsError, match=r"notes\.txt"):
        write_beside_a_user()
    assert look(tmp_path / "thing") == "old"
    assert names(tmp_path) == ["thing"]


@FOLDERS
def test_empty_folders_are_replaced(tmp_path, kind):
    (tmp_path / "thing" / "deep").mkdir(parents=True)
    replace(tmp_path / "thing", "new", kind)
    assert look(tmp_path / "thing") == "new"


@pytest.mark.parametrize("target", ["real/thing", "real/none"])
def test_a_link_stays_and_its_target_is_written(tmp_path, kind, target):
    (tmp_path / "real").mkdir()
    replace(tmp_path / "real" / "thing", "old", kind)
    (tmp_path / "link").symlink_to(target)
    replace(tmp_path / "link", "new", kind)
    assert (tmp_path / "link").readlink() == Path(target)
    assert look(recovered(tmp_path / "link")) == look(tmp_path / target) == "new"
    assert names(tmp_path) == ["link", "real"]
    assert names(tmp_path / "real") == sorted({"thing", Path(target).name})


def test_a_link_to_itself_is_an_error_and_stays(tmp_path):
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(OSError, match="link"):
        replace(tmp_path / "link", "new", "file")
    assert (tmp_path / "link").is_symlink()


def test_nothing_of_an_old_folder_stays_in_a_new_one(tmp_path, kind):
    for name in ("old", "new"):
        with atomic_write(tmp_path / "thing", lambda folder: {"old"}) as new:
            new.mkdir()
            (new / name).touch()
    assert names(tmp_path / "thing") == ["new"]


def test_a_temporary_name_keeps_the_suffix(tmp_path):
    with atomic_write(tmp_path / "model.keras") as new:
        assert new.suffix == ".keras"
        assert not new.exists()
        new.touch()


def test_every_look_is_whole_while_two_processes_write(tmp_path, kind):
    path = tmp_path / "thing"
    replace(path, "start", kind)
    writers = [start(HAMMER, path, kind) for _ in range(2)]
    seen, missing = set(), 0
    while any(writer.poll() is None for writer in writers):
        missing += not path.exists()
        words = read_whole(path, look).split(" ")
        assert words == ["start"] or len(words) == 2 * 9_999 + 1
        seen.add(words[0])
    counts = [int(writer.communicate()[0]) for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert min(counts) > 5
    assert seen >= {str(writer.pid) for writer in writers}
    assert missing == 0 or "fallback" in kind
    assert names(tmp_path) == ["thing"]


def test_every_look_is_whole_while_four_threads_write(tmp_path, kind):
    path = tmp_path / "thing"
    replace(path, "start", kind)
    with ThreadPoolExecutor(5) as pool:
        written = [pool.submit(replace, path, str(number), kind) for number in range(40)]
        while not all(one.done() for one in written):
            assert read_whole(path, look)
    assert [one.result() for one in written] == [None] * 40
    assert names(tmp_path) == ["thing"]


def test_what_a_killed_writer_left_is_removed_by_the_next_and_what_a_living_one_has_is_kept(tmp_path, kind):
    path = tmp_path / "thing"
    replace(path, "old", kind)
    with start(HALF, path, kind) as writer:
        assert writer.stdout.readline() == "half\n"
        replace(path, "newer", kind)
        (left,) = set(names(tmp_path)) - {"thing"}
        assert str(writer.pid) in left
        writer.kill()
    assert look(path) == "newer"
    assert names(tmp_path) == [left, "thing"]
    replace(tmp_path / "other thing", "new", kind)
    assert left in names(tmp_path)
    replace(path, "newest", kind)
    assert look(path) == "newest"
    assert names(tmp_path) == ["other thing", "thing"]


def die_between_the_renames(path):
    replace(path, "old", "folder")
    with start(DIE_BETWEEN_RENAMES, path, "folder fallback") as writer:
        pass
    assert writer.returncode == -signal.SIGKILL
    assert not path.exists()


@FOLDERS
def test_a_reader_puts_back_the_folder_of_a_writer_that_died_between_two_renames(tmp_path, kind):
    die_between_the_renames(tmp_path / "thing")
    assert read_whole(tmp_path / "thing", look) == "old"
    assert recovered(tmp_path / "thing") == tmp_path / "thing"
    replace(tmp_path / "thing", "new", kind)
    assert names(tmp_path) == ["thing"]


@FOLDERS
def test_so_does_the_next_writer_before_it_begins(tmp_path, kind):
    die_between_the_renames(tmp_path / "thing")
    with contextlib.suppress(RuntimeError), atomic_write(tmp_path / "thing", listed):
        assert look(tmp_path / "thing") == "old"
        raise RuntimeError
    assert look(tmp_path / "thing") == "old"
    assert names(tmp_path) == ["thing"]


def test_a_reader_that_may_not_write_is_told_where_the_folder_is(tmp_path, monkeypatch):
    die_between_the_renames(tmp_path / "thing")

    def read_only(*names):
        raise OSError(errno.EROFS, "read-only file system")

    monkeypatch.setattr(os, "rename", read_only)
    assert look(recovered(tmp_path / "thing")) == "old"


def test_the_last_folder_set_aside_is_the_one_put_back(tmp_path):
    others = [(".partial-5-0123abcd-thing2", 40), (".partial-5-0123abcd-other-thing", 50), (".partial-thing", 60)]
    for name, time in [*((f".partial-{time}-0123abcd-thing", time) for time in (20, 30, 10)), *others]:
        write(tmp_path / name, "", "folder")
        write(tmp_path / name / "old", name, "folder")
        os.utime(tmp_path / name, times=(0, time))
    assert look(recovered(tmp_path / "thing")) == ".partial-30-0123abcd-thing"


def test_what_was_replaced_is_not_put_back_while_another_writer_sets_its_successor_aside(tmp_path, monkeypatch):
    replace(tmp_path / "thing", "old", "folder")
    monkeypatch.setattr(_atomic, "_RENAMEAT2", None)
    rename = os.replace

    def overtaken(new, path):
        rename(new, path)
        os.rename(path, tmp_path / "aside")

    monkeypatch.setattr(os, "replace", overtaken)
    replace(tmp_path / "thing", "new", "folder")
    assert names(tmp_path) == ["aside"]
    assert look(tmp_path / "aside") == "new"


def test_where_nothing_is_there_the_reader_says_so(tmp_path):
    assert recovered(tmp_path / "none" / "thing") == tmp_path / "none" / "thing"
    with pytest.raises(FileNotFoundError):
        read_whole(tmp_path / "thing", look)


def test_a_read_that_is_overtaken_is_repeated(tmp_path, kind):
    path, reads = tmp_path / "thing", []
    replace(path, "old", kind)

    def read(place):
        reads.append(look(place))
        if len(reads) < 3:
            replace(path, "new", kind)
        if len(reads) == 1:
            raise KeyError("a file of the other version")
        return reads[-1]

    assert read_whole(path, read) == "new"
    assert len(reads) == 3


def test_all_is_on_the_disk_before_the_rename_and_the_rename_before_the_old_one_goes(tmp_path, monkeypatch):
    replace(tmp_path / "thing", "old", "folder")
    events = []

    def follow(module, name, describe):
        function = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *given, **named: [events.append(describe(*given)), function(*given, **named)][1]
        )

    follow(os, "fsync", lambda file: Path(os.readlink(f"/proc/self/fd/{file}")).name)
    follow(_atomic, "_exchanged", lambda new, path: "exchange")
    follow(_atomic.shutil, "rmtree", lambda workspace: "remove")
    replace(tmp_path / "thing", "new", "folder")
    assert sorted(events[:PARTS]) == list("0123")
    assert events[PARTS:] == ["new", "exchange", tmp_path.name, "remove"]


def test_without_locks_writers_stay_apart_and_what_one_left_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(_atomic, "fcntl", None)
    path = tmp_path / "thing"
    with atomic_write(path) as new:
        replace(path, "first", "file")
        new.write_text("second")
    assert look(path) == "second"
    assert names(tmp_path) == ["thing"]
    with start(HALF, path, "file") as writer:
        assert writer.stdout.readline() == "half\n"
        writer.kill()
    replace(path, "third", "file")
    assert len(names(tmp_path)) == 2
    die_between_the_renames(tmp_path / "folder")
    with contextlib.suppress(RuntimeError), atomic_write(tmp_path / "folder", listed):
        raise RuntimeError
    assert look(tmp_path / "folder") == "old"
