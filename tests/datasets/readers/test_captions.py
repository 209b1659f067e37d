"""Captions of images: tables, texts beside the files, lists, and what is wrong with them."""

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from tfdml.datasets import LabeledSet, Preprocessing, with_captions

ARRAYS = LabeledSet(images=np.zeros((2, 8, 8, 3), "uint8"), labels=np.arange(2), class_names=("ant", "bee"))


@pytest.fixture
def files(tmp_path):
    """A set of two files that are not read."""
    paths = np.array([str(tmp_path / "photos" / name) for name in ("a.png", "b.png")])
    (tmp_path / "photos").mkdir()
    return LabeledSet(paths=paths, labels=np.arange(2), class_names=("ant", "bee"), load=Preprocessing(size=8))


def test_a_table_has_one_row_or_several_of_each_image_and_of_others(files, tmp_path):
    table = "path,caption\nphotos/b.png, two bees \nphotos/a.png,an ant\nphotos/b.png,bees\nphotos/z.png,no image\n"
    (tmp_path / "captions.csv").write_text(table)
    found = with_captions(files, tmp_path / "captions.csv")
    assert found.captions.tolist() == [("an ant",), ("two bees", "bees")]
    assert found.take([1]).captions.tolist() == [("two bees", "bees")]
    columns = {"path": ["photos/a.png", "photos/b.png"], "caption": ["an ant", "bees"]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "captions.parquet")
    assert with_captions(files, str(tmp_path / "captions.parquet")).captions.tolist() == [("an ant",), ("bees",)]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_byte_order_mark_is_no_part_of_a_caption(files, tmp_path, mark):
    for name, text in (("a", "an ant\n"), ("b", "bees\n")):
        (tmp_path / "photos" / f"{name}.txt").write_text(mark + text, encoding="utf-8")
    (tmp_path / "captions.csv").write_text(f"{mark}path,caption\nphotos/a.png,an ant\nphotos/b.png,bees\n", "utf-8")
    for source in ([], [tmp_path / "captions.csv"]):
        assert with_captions(files, *source).captions.tolist() == [("an ant",), ("bees",)]
    (tmp_path / "photos" / "b.txt").write_text(mark, encoding="utf-8")
    with pytest.raises(ValueError, match=r"1 of 2 images without a caption, .* first .*b\.png"):
        with_captions(files)


def test_the_lines_of_a_text_beside_an_image_are_its_captions(files, tmp_path):
    (tmp_path / "photos" / "a.txt").write_text("an ant\n\n ant, red \n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"1 of 2 images without a caption, .* first .*b\.png"):
        with_captions(files)
    (tmp_path / "photos" / "b.txt").write_text("bees")
    assert with_captions(files).captions.tolist() == [("an ant", "ant, red"), ("bees",)]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("path,text\n", "with the columns path, text, expected the columns path and caption"),
        ("path,caption\nphotos/a.png,ant\n,bee\n", r"captions\.csv' with a row without a path"),
        ("path,caption\nphotos/a.png,ant\n", r"1 of 2 images without a caption, .* first .*b\.png"),
        ("path,caption\nphotos/a.png,ant\nphotos/b.png, \n", r"or with an empty one, first .*b\.png.*to its folder"),
    ],
)
def test_a_table_that_does_not_fit_the_set_is_an_error(files, tmp_path, table, message):
    (tmp_path / "captions.csv").write_text(table)
    with pytest.raises(ValueError, match=message):
        with_captions(files, tmp_path / "captions.csv")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (["a", "b", "c"], "captions of 3 images, and a set of 2"),
        ([["a", float("nan")], ()], "2 of 2 images without a caption, or with an empty one, first 0"),
        ("captions.csv", "images without paths"),
    ],
)
def test_other_captions_make_another_set_and_unfit_ones_are_errors(source, message):
    captions = (None, ["ant", "bee"], ["ant", "wasp"], [[" ant"], ("bee",)])
    sets = [ARRAYS if each is None else with_captions(ARRAYS, each) for each in captions]
    assert [sets[1].fingerprint() == each.fingerprint() for each in sets] == [False, True, False, True]
    with pytest.raises(ValueError, match=message):
        with_captions(ARRAYS, source)
