"""Indexes are loaded while others save them, and after a writer died."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tfdml import search
from tfdml._core import atomic as _atomic


def index(size):
    """An index of one-hot vectors, which find themselves."""
    return search.Exact(np.eye(8, dtype="float32")[:size], 100 * size + np.arange(size))


def save_often(folder, size):
    for _ in range(20):
        index(size).save(folder)


def check(loaded):
    """The size of an index, all of whose vectors find their own ids."""
    size = len(loaded.ids)
    found, _ = loaded.search(np.eye(8, dtype="float32")[:size], 1)
    np.testing.assert_array_equal(found[:, 0], 100 * size + np.arange(size))
    return size


@pytest.mark.parametrize("exchange", [True, False])
def test_an_index_loads_at_any_time_while_two_threads_save_others_to_its_folder(tmp_path, monkeypatch, exchange):
    if not exchange:
        monkeypatch.setattr(_atomic, "_RENAMEAT2", None)
    index(3).save(tmp_path / "index")
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
    index(3).save(tmp_path / "index")
    left = tmp_path / ".partial-1-0123abcd-index"
    left.mkdir()
    os.rename(tmp_path / "index", left / "old")
    assert check(search.load(tmp_path / "index")) == 3
    index(5).save(tmp_path / "index")
    assert [place.name for place in tmp_path.iterdir()] == ["index"]


def test_a_folder_without_an_index_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing.*expected a folder with index\.json"):
        search.load(tmp_path / "nothing")
