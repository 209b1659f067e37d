"""Writers of an index that are killed at any moment."""

import signal
import subprocess
import sys

import numpy as np
import pytest

from tests.moments import copied_at_every_operation
from tests.search.index.test_index_files import files_of, flipped
from tfdml import search

# A process that starts a writer for each line that it reads, so that the package is imported once. The writer is killed
# before the file operation whose number it reads. The index always holds the ids below a multiple of 10, all found by
# their vectors.
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
        if event == "open" or event.startswith(("os.", "shutil.")):
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
@pytest.mark.parametrize("make", [search.Exact, search.Scann])
@pytest.mark.parametrize("rebuilt", [False, True])
def test_the_old_or_the_new_index_is_whole_before_every_file_operation_of_adding_and_saving(tmp_path, make, rebuilt):
    vectors = np.random.default_rng(0).normal(size=(20_000, 16)).astype("float32")
    folder = tmp_path / "home" / "index"
    make(vectors[:10], metadata={"name": [f"name {i}" for i in range(10)]}).save(folder)
    index = search.load(folder)
    with copied_at_every_operation(folder.parent, tmp_path / "copies") as copies:
        change(index, vectors)
        if rebuilt:
            index.rebuild()
        index.save(folder)
    sizes = [assert_whole(copy / "index") for copy in copies]
    assert sizes == sorted(sizes)
    assert (min(sizes), max(sizes)) == (10, 20)
    assert len(sizes) > 30
    killed_half_way = copies[len(copies) // 2]
    search.load(killed_half_way / "index").save(killed_half_way / "index")
    assert [place.name for place in killed_half_way.iterdir()] == ["index"]


@pytest.mark.parametrize("make", [search.Exact, search.Scann, search.Faiss])
def test_a_flipped_bit_in_any_file_of_an_index_that_changed_is_found(tmp_path, make):
    x = (1000 + np.random.default_rng(0).normal(size=(40, 3))).astype("float32")
    names = [f"n{i}" for i in range(40)]
    index = make(x[:30], names[:30], metric="euclidean", metadata={"a": names[:30]})
    index.add(x[30:], names[30:], metadata={"a": names[30:]})
    index.remove(names[:3])
    index.save(tmp_path)
    kinds = {path.name.split("-")[0] for path in files_of(tmp_path) if path.parent == tmp_path}
    assert kinds == {"index.json", "ids", "gallery", "metadata", "alive", "center"}
    for path in files_of(tmp_path):
        for _ in flipped(path, np.linspace(0, path.stat().st_size - 1, min(path.stat().st_size, 12)).astype(int)):
            with pytest.raises(ValueError, match=r"damaged|format"):
                search.load(tmp_path)
    assert len(search.load(tmp_path)) == 37
