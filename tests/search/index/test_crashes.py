"""Writers of an index that are killed at any moment, and readers beside two writers."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.moments import copied_at_every_operation
from tfdml import search
from tfdml._core import atomic

# A process that starts a writer for each line that it reads, so that the package is imported once. The writer is killed
# before the file operation whose number it reads, imports not counted. The index always holds the ids below a multiple
# of 10, all found by their vectors.
WRITERS = """
import os, signal, sys
import numpy as np
import pyarrow.parquet
from tfdml import search

folder = sys.argv[1]
vectors = np.random.default_rng(0).normal(size=(20_000, 16)).astype("float32")

def add_for_ever(rebuilt):
    index = search.load(folder)
    while True:
        ids = np.arange(len(index), len(index) + 10)
        index.add(vectors[ids], ids, metadata={"name": [f"name {i}" for i in ids]})
        index.update(ids[:1], vectors[ids[:1]])
        if rebuilt:
            index.rebuild()
        index.save(folder)

def kill_before(operation):
    left = iter(range(operation))
    def count(event, arguments):
        is_operation = event == "open" or event.startswith(("os.", "shutil."))
        if is_operation and os.path.dirname(folder) in str(arguments):
            if next(left, None) is None:
                signal.raise_signal(signal.SIGKILL)
    sys.addaudithook(count)

for line in sys.stdin:
    kind, operation = line.split()
    writer = os.fork()
    if not writer:
        kill_before(int(operation))
        add_for_ever(kind == "rebuild")
    print(os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]), flush=True)
"""


def assert_whole(folder):
    index = search.load(folder)
    vectors = np.random.default_rng(0).normal(size=(20_000, 16)).astype("float32")
    assert len(index) % 10 == 0
    np.testing.assert_array_equal(np.sort(index.ids), np.arange(len(index)))
    np.testing.assert_array_equal(index.search(vectors[index.ids], 1)[0][:, 0], index.ids)
    assert index.metadata["name"].to_pylist() == [f"name {i}" for i in index.ids]
    return len(index)


def killed(writers, folder, kind, operation):
    """The size of the index that a writer leaves which is killed before a file operation."""
    writers.stdin.write(f"{kind} {operation}\n")
    writers.stdin.flush()
    assert int(writers.stdout.readline()) == -signal.SIGKILL
    return assert_whole(folder)


@pytest.mark.nightly
def test_an_index_is_whole_after_kill_9_at_30_random_moments_of_adding_and_saving(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(20_000, 16)).astype("float32")
    search.Exact(vectors[:10], metadata={"name": [f"name {i}" for i in range(10)]}).save(tmp_path / "index")
    program = [sys.executable, "-c", WRITERS, str(tmp_path / "index")]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writers:
        moments = zip(["add", "rebuild"] * 15, np.random.default_rng(1).integers(0, 150, size=30), strict=True)
        sizes = [killed(writers, tmp_path / "index", *moment) for moment in moments]
        writers.stdin.close()
    assert sizes == sorted(sizes)
    assert len(set(sizes)) > 10
    search.load(tmp_path / "index").save(tmp_path / "index")
    assert [place.name for place in tmp_path.iterdir()] == ["index"]


def change(index, vectors):
    ids = np.arange(len(index), len(index) + 10)
    index.add(vectors[ids], ids, metadata={"name": [f"name {i}" for i in ids]})
    index.update(ids[:1], vectors[ids[:1]])


@pytest.mark.slow
def test_the_old_or_the_new_index_is_whole_before_every_file_operation_of_adding_and_saving(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(20_000, 16)).astype("float32")
    folder = tmp_path / "home" / "index"
    search.Exact(vectors[:10], metadata={"name": [f"name {i}" for i in range(10)]}).save(folder)
    index = search.load(folder)
    with copied_at_every_operation(folder.parent, tmp_path / "copies") as copies:
        change(index, vectors)
        index.save(folder)
    sizes = [assert_whole(copy / "index") for copy in copies]
    assert sizes == sorted(sizes)
    assert (min(sizes), max(sizes)) == (10, 20)
    assert len(sizes) > 30
    killed_half_way = copies[len(copies) // 2]
    search.load(killed_half_way / "index").save(killed_half_way / "index")
    assert [place.name for place in killed_half_way.iterdir()] == ["index"]


def index_of(size):
    """An index of one-hot vectors, which find themselves."""
    return search.Exact(np.eye(8, dtype="float32")[:size], 100 * size + np.arange(size))


def save_often(folder, size):
    for _ in range(20):
        index_of(size).save(folder)


def check(loaded):
    """The size of an index, all of whose vectors find their own ids."""
    size = len(loaded.ids)
    found, _ = loaded.search(np.eye(8, dtype="float32")[:size], 1)
    np.testing.assert_array_equal(found[:, 0], 100 * size + np.arange(size))
    return size


@pytest.mark.parametrize("exchange", [True, False])
def test_an_index_loads_at_any_time_while_two_threads_save_others_to_its_folder(tmp_path, monkeypatch, exchange):
    if not exchange:
        monkeypatch.setattr(atomic, "_RENAMEAT2", None)
    index_of(3).save(tmp_path / "index")
    sizes = set()
    with ThreadPoolExecutor() as pool:
        writers = [pool.submit(save_often, tmp_path / "index", size) for size in (5, 7)]
        while not all(writer.done() for writer in writers):
            sizes.add(check(search.load(tmp_path / "index")))
        assert [writer.result() for writer in writers] == [None, None]
    assert sizes <= {3, 5, 7}
    assert check(search.load(tmp_path / "index")) in {5, 7}
    assert [place.name for place in tmp_path.iterdir()] == ["index"]


def test_an_index_that_was_set_aside_when_its_writer_died_is_loaded(tmp_path):
    index_of(3).save(tmp_path / "index")
    left = tmp_path / ".partial-1-0123abcd-index"
    left.mkdir()
    os.rename(tmp_path / "index", left / "old")
    assert check(search.load(tmp_path / "index")) == 3
    index_of(5).save(tmp_path / "index")
    assert [place.name for place in tmp_path.iterdir()] == ["index"]
