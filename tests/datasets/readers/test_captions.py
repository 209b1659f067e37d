"""Captions of images: tables, texts beside the files, lists, and what is wrong with them."""

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from tfdml.datasets import LabeledSet, Preprocessing, with_captions

TABLE = "path,caption\nphotos/b.png, two bees \nphotos/a.png,an ant\nphotos/b.png,bees\nphotos/z.png,no image\n"


@pytest.fixture
def files(tmp_path):
    """A set of two files."""
    paths = np.array([str(tmp_path / "photos" / name) for name in ("a.png", "b.png")])
    (tmp_path / "photos").mkdir()
    names = ("ant", "bee")
    return LabeledSet(paths=paths, labels=np.arange(2), class_names=names, load=Preprocessing(size=8))


def arrays():
    images = np.arange(2 * 8 * 8 * 3, dtype="uint8").reshape(2, 8, 8, 3)
    return LabeledSet(images=images, labels=np.arange(2), class_names=("ant", "bee"))


def test_a_table_has_one_row_or_several_of_each_image_and_of_others(files, tmp_path):
    (tmp_path / "captions.csv").write_text(TABLE)
    found = with_captions(files, tmp_path / "captions.csv")
    assert found.captions.tolist() == [("an ant",), ("two bees", "bees")]
    assert found.take([1]).captions.tolist() == [("two bees", "bees")]
    columns = {"path": ["photos/a.png", "photos/b.png"], "caption": ["an ant", "bees"]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "captions.parquet")
    assert with_captions(files, str(tmp_path / "captions.parquet")).captions.tolist() == [("an ant",), ("bees",)]


def test_the_lines_of_a_text_beside_an_image_are_its_captions(files, tmp_path):
    (tmp_path / "photos" / "a.txt").write_text("an ant\n\n ant, red \n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"1 of 2 images without a caption, first .*b\.png"):
        with_captions(files)
    (tmp_path / "photos" / "b.txt").write_text("bees")
    assert with_captions(files).captions.tolist() == [("an ant", "ant, red"), ("bees",)]


def test_other_captions_make_another_set():
    one, other = (with_captions(arrays(), ["an ant", text]) for text in ("a bee", "a wasp"))
    assert one.captions.tolist() == [("an ant",), ("a bee",)]
    assert one.fingerprint() != other.fingerprint() != arrays().fingerprint()
    assert one.fingerprint() == with_captions(arrays(), [["an ant", "an ant "], "a bee"]).fingerprint()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("path,text\n", r"with the columns path, text, expected the columns path and caption"),
        ("path,caption\nphotos/a.png,ant\n,bee\n", r"1 rows without a path, first row \[1\]"),
        (
            "path,caption\nphotos/a.png,ant\n",
            r"1 of 2 images without a caption, first .*b\.png.*to its folder",
        ),
        ("path,caption\nphotos/a.png,ant\nphotos/b.png, \n", r"1 of 2 images with an empty caption, first .*b\.png"),
    ],
)
def test_a_table_that_does_not_fit_the_set_is_an_error(files, tmp_path, table, message):
    (tmp_path / "captions.csv").write_text(table)
    with pytest.raises(ValueError, match=message):
        with_captions(files, tmp_path / "captions.csv")


def test_lists_of_another_length_and_sets_without_paths_are_errors(tmp_path):
    with pytest.raises(ValueError, match="captions of 3 images, and a set of 2"):
        with_captions(arrays(), ["a", "b", "c"])
    with pytest.raises(ValueError, match="1 of 2 images without a caption, first row 1"):
        with_captions(arrays(), ["a", ()])
    with pytest.raises(ValueError, match="1 of 2 images with an empty caption, first row 0"):
        with_captions(arrays(), [["a", float("nan")], "b"])
    with pytest.raises(ValueError, match="images without paths"):
        with_captions(arrays(), tmp_path / "captions.csv")
