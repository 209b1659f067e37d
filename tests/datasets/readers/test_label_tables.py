"""Tables of labels and of pairs: rows of a set, from the folder of the table or of the set."""

from pathlib import Path

import numpy as np
import pytest

from tests.worlds import write_png
from tfdml import datasets
from tfdml.datasets.readers.label_tables import labels_of_paths, read_labels, read_pairs


@pytest.fixture
def images(tmp_path):
    for number in range(4):
        write_png(tmp_path / "photos" / f"{number}.png", np.full((8, 8, 3), number, np.uint8))
    return datasets.folder(tmp_path / "photos")


@pytest.mark.parametrize(("place", "prefix"), [("few.csv", ""), ("few.csv", "photos/"), ("photos/few.csv", "")])
def test_paths_begin_at_the_folder_of_the_table_or_of_the_set(images, tmp_path, place, prefix):
    (tmp_path / place).write_text(f"path,label\n{prefix}2.png,b\n{prefix}0.png,a\n{prefix}1.png,\n")
    labels, names = read_labels(tmp_path / place, images)
    assert (labels.tolist(), names) == ([0, -1, 1, -1], ("a", "b"))
    assert read_labels(tmp_path / place, images, root=tmp_path / ("" if prefix else "photos"))[1] == names


def test_a_path_of_another_file_is_an_error_or_passed_over(images, tmp_path):
    Path(tmp_path / "photos" / "broken.txt").write_text("")
    (tmp_path / "photos" / "few.csv").write_text("path,label\n3.png,a\nbroken.txt,b\n")
    with pytest.raises(
        ValueError, match=r"1 path that the set does not have: \[.*broken.txt'\], expected paths of its"
    ):
        read_labels(tmp_path / "photos" / "few.csv", images)
    labels, names = read_labels(tmp_path / "photos" / "few.csv", images, has_all=False)
    assert (labels.tolist(), names) == ([-1, -1, -1, 0], ("a",))


def test_a_path_twice_is_an_error(images, tmp_path):
    (tmp_path / "photos" / "few.csv").write_text("path,label\n3.png,a\n3.png,a\n")
    with pytest.raises(ValueError, match="1 path again, expected each path once"):
        labels_of_paths(tmp_path / "photos" / "few.csv")


def test_pairs_are_rows_of_the_set_in_the_order_of_the_table(images, tmp_path):
    (tmp_path / "pairs.csv").write_text(
        "path,other,same\n3.png,0.png,Yes\n1.png,2.png,no\n0.png,2.png,\n1.png,3.png,0\n"
    )
    pairs = read_pairs(tmp_path / "pairs.csv", images)
    assert (pairs.first.tolist(), pairs.second.tolist()) == ([3, 1, 1], [0, 2, 3])
    assert pairs.same.tolist() == [True, False, False]


def test_a_set_without_files_has_no_paths(tmp_path):
    (tmp_path / "few.csv").write_text("path,label\na.png,a\n")
    images = datasets.LabeledSet(images=np.zeros((2, 8, 8, 3), np.uint8), labels=[0, 0], class_names=("a",))
    with pytest.raises(ValueError, match="for images without files, expected a set of files"):
        read_labels(tmp_path / "few.csv", images)
