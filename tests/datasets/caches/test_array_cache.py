"""Arrays that are kept in a file between runs."""

import pathlib

import numpy as np
import pytest

from tests.damage import flip
from tfdml.datasets.caches.array_cache import cache_folder, cached

ARRAYS = {"a": np.arange(1000), "b": np.ones((2, 3), np.float32)}


def never():
    raise AssertionError("built although the cache holds it")


def assert_whole(arrays):
    assert set(arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)


def test_arrays_are_built_once_and_then_read(tmp_path):
    path = tmp_path / "deep" / "x.npz"
    assert_whole(cached(path, lambda: ARRAYS))
    assert_whole(cached(path, never))
    assert [file.name for file in path.parent.iterdir()] == ["x.npz"]


def truncate(path):
    path.write_bytes(path.read_bytes()[:2000])


def damage_the_archive(path):
    """The number of a compression method that does not exist."""
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 10] ^= 1 << 6
    path.write_bytes(content)


def empty(path):
    path.write_bytes(b"")


def change_an_array(path):
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, **{**arrays, "b": arrays["b"] + 1})


def drop_the_checksum(path):
    np.savez(path, **ARRAYS)


@pytest.mark.parametrize(
    "damage", [truncate, lambda path: flip(path, 24_000), damage_the_archive, empty, change_an_array, drop_the_checksum]
)
def test_a_damaged_file_is_rebuilt_with_a_warning(tmp_path, damage):
    path = tmp_path / "x.npz"
    cached(path, lambda: ARRAYS)
    damage(path)
    with pytest.warns(UserWarning, match=r"x.npz is damaged .* It is rebuilt"):
        assert_whole(cached(path, lambda: ARRAYS))
    assert_whole(cached(path, never))


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(UserWarning, match=r"could not be kept in .*Set TFDML_CACHE to a folder"):
        assert_whole(cached(tmp_path / "file" / "x.npz", lambda: ARRAYS))


def test_the_folder_is_that_of_the_environment_or_the_home(monkeypatch, tmp_path):
    assert cache_folder() == tmp_path / "user-cache"
    monkeypatch.delenv("TFDML_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "tfdml"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(pathlib.Path, "home", lambda: tmp_path / "home")
    assert cache_folder() == tmp_path / "home" / ".cache" / "tfdml"
