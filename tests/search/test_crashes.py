"""Writers of an index that are killed at random moments."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.search.test_files import files_of, flipped
from tfdml import search

# A process that starts a writer for each line that it reads, so that the package is imported once. The index always
# holds the ids below a multiple of 10, all found by their vectors.
WRITERS = """
import os, sys
import numpy as np
import pyarrow.parquet
from tfdml import search

folder, kind = sys.argv[1:]
vectors = np.random.default_rng(0).normal(size=(20_000, 16)).astype("float32")

def add_for_ever():
    index = search.load(folder)
    print(os.getpid(), flush=True)
    while True:
        ids = np.arange(len(index), len(index) + 10)
        index.add(vectors[ids], ids, metadata={"name": [f"name {i}" for i in ids]})
        index.update(ids[:1], vectors[ids[:1]])
        if kind == "rebuild":
            index.rebuild()
        index.save(folder)

for _ in sys.stdin:
    writer = os.fork()
    if not writer:
        add_for_ever()
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


def killed(writers, folder, seconds):
    """The size of the index that a writer leaves which is killed so long after it loaded it."""
    writers.stdin.write("start\n")
    writers.stdin.flush()
    writer = int(writers.stdout.readline())
    time.sleep(seconds)
    os.kill(writer, signal.SIGKILL)
    assert int(writers.stdout.readline()) == -signal.SIGKILL
    return assert_whole(folder)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["add", "rebuild"])
def test_an_index_is_whole_after_kill_9_at_15_random_moments_of_adding_and_saving(tmp_path, kind):
    vectors = np.random.default_rng(0).normal(size=(20_000, 16)).astype("float32")
    search.Exact(vectors[:10], metadata={"name": [f"name {i}" for i in range(10)]}).save(tmp_path / "index")
    program = [sys.executable, "-c", WRITERS, str(tmp_path / "index"), kind]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writers:
        moments = np.random.default_rng(1).uniform(0, 0.4, size=15)
        sizes = [killed(writers, tmp_path / "index", seconds) for seconds in moments]
        writers.stdin.close()
    assert sizes == sorted(sizes)
    assert len(set(sizes)) > 5
    search.load(tmp_path / "index").save(tmp_path / "index")
    assert [place.name for place in tmp_path.iterdir()] == ["index"]


@pytest.mark.parametrize("make", [search.Exact, search.Scann])
def test_a_flipped_bit_in_any_file_of_an_index_that_changed_is_found(tmp_path, make):
    x = np.random.default_rng(0).normal(size=(40, 3)).astype("float32")
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
