"""Files and folders that are either whole or not there."""

import pytest

from tfdml._files import replacing


def write(path, text, *, folder):
    if folder:
        path.mkdir()
        path = path / "inside"
    path.write_text(text)


def read(path):
    return (path / "inside" if path.is_dir() else path).read_text()


@pytest.mark.parametrize("folder", [False, True])
def test_a_new_version_takes_the_place_of_the_old_one(tmp_path, folder):
    for text in ("one", "two"):
        with replacing(tmp_path / "deep" / "thing") as partial:
            write(partial, text, folder=folder)
    assert read(tmp_path / "deep" / "thing") == "two"
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["thing"]


@pytest.mark.parametrize("folder", [False, True])
def test_an_error_leaves_the_old_version(tmp_path, folder):
    write(tmp_path / "thing", "old", folder=folder)

    def write_half():
        with replacing(tmp_path / "thing") as partial:
            write(partial, "half", folder=folder)
            raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError, match="out of luck"):
        write_half()
    assert read(tmp_path / "thing") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["thing"]


@pytest.mark.parametrize("folder", [False, True])
def test_what_a_dead_process_left_is_swept_up(tmp_path, folder):
    write(tmp_path / ".partial-thing", "half", folder=not folder)
    with replacing(tmp_path / "thing") as partial:
        write(partial, "whole", folder=folder)
    assert [path.name for path in tmp_path.iterdir()] == ["thing"]


def test_nothing_of_an_old_folder_stays_in_a_new_one(tmp_path):
    for name in ("old", "new"):
        with replacing(tmp_path / "thing") as partial:
            partial.mkdir()
            (partial / name).touch()
    assert [path.name for path in (tmp_path / "thing").iterdir()] == ["new"]
