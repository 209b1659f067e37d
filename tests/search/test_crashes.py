"""Writers of an index that are killed at random moments."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.search.test_files import files_of, flipped
from tfdml import search

# The index holds whole versions only: after step n it has the ids below 10 (n + 1), all found by their vectors.
WRITER = """
import sys
import numpy as np
from tfdml import search

folder, kind = sys.argv[1:]
vectors = np.random.default_rng(0).normal(size=(20_000, 16)).astype("float32")
index = search.load(folder)
print("ready", flush=True)
while True:
    ids = np.arange(len(index), len(index) + 10)
    index.add(vectors[ids], ids, metadata={"name": [f"name {i}" for i in ids]})
    index.remove(ids[:1])
    index.add(vectors[ids[:1]], ids[:1], metadata={"name": [f"name {ids[0]}"]})
    if kind == "rebuild":
        index.rebuild()
    index.save(folder)
"""


def assert_whole(folder):
    index = search.load(folder)
    vectors = np.random.default_rng(0).normal(size=(20_000, 16)).astype("float32")
    assert len(index) % 10 == 0
    np.testing.assert_array_equal(np.sort(index.ids), np.arange(len(index)))
    np.testing.assert_array_equal(index.search(vectors[index.ids], 1)[0][:, 0], index.ids)
    assert index.metadata["name"].to_pylist() == [f"name {i}" for i in index.ids]
    return len(index)


def killed(folder, kind, seconds):
    """The size of the index that a writer leaves which is killed this long after it started to add."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), kind], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout.readline() == "ready\n"
        time.sleep(seconds)
        writer.kill()
    assert writer.returncode == -signal.SIGKILL
    return assert_whole(folder)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["add", "rebuild"])
def test_an_index_is_whole_after_kill_9_at_random_moments_of_adding_and_saving(tmp_path, kind):
    vectors = np.random.default_rng(0).normal(size=(20_000, 16)).astype("float32")
    search.Exact(vectors[:10], metadata={"name": [f"name {i}" for i in range(10)]}).save(tmp_path / "index")
    sizes = [10] + [killed(tmp_path / "index", kind, s) for s in np.random.default_rng(1).uniform(0, 0.1, size=4)]
    assert sizes == sorted(sizes)
    assert sizes[-1] > 10
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
            with pytest.raises(ValueError, match="damaged|format"):
                search.load(tmp_path)
    assert len(search.load(tmp_path)) == 37
