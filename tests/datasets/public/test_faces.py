"""Labeled Faces in the Wild from a miniature copy in its original format."""

import pytest

from tests.datasets.public.miniatures import LFW_FILES, PAIRS, PEOPLE, write_lfw
from tfdml.datasets.public import faces as benchmarks
from tfdml.datasets.public import lfw


@pytest.fixture
def faces(tmp_path, monkeypatch):
    counts, lists = write_lfw(tmp_path)
    monkeypatch.setattr(benchmarks, "COUNTS", benchmarks.COUNTS | counts)
    monkeypatch.setattr(benchmarks, "LISTS", benchmarks.LISTS | lists)
    return tmp_path


def test_people_become_classes_and_their_sets_groups(faces):
    found, _ = lfw(faces)
    assert found.paths.tolist() == [str(faces / file) for file in LFW_FILES]
    assert found.class_names == ("Ann_Bell", "Bob_Cole", "Zed")
    assert found.labels.tolist() == [0, 0, 0, 2, 1, 1]
    assert found.groups.tolist() == [0, 0, 0, 0, 1, 1]
    assert found.protocol == "lfw/view2/10-fold/v1"


def test_pairs_are_rows_of_the_faces_in_the_order_of_the_list(faces):
    found, pairs = lfw(faces)
    stems = [path.rpartition("/")[2][:-4] for path in found.paths.tolist()]
    named = [(stems[a], stems[b]) for a, b in zip(pairs.first, pairs.second, strict=True)]
    assert named == [
        ("Ann_Bell_0001", "Ann_Bell_0003"),
        ("Ann_Bell_0002", "Zed_0001"),
        ("Bob_Cole_0001", "Bob_Cole_0002"),
        ("Bob_Cole_0002", "Zed_0001"),
    ]
    assert (found.labels[pairs.first] == found.labels[pairs.second]).tolist() == pairs.same.tolist()
    assert pairs.folds.tolist() == [0, 0, 1, 1]
    assert pairs.names[pairs.first[0]] == "Ann_Bell/Ann_Bell_0001.jpg"


def test_lists_of_view_1_and_aligned_images_are_read_by_name(faces, monkeypatch):
    monkeypatch.setitem(benchmarks.LISTS, "pairsDevTest.txt", (2, "lfw/view1/test/v1"))
    (faces / "pairsDevTest.txt").write_text("1\nAnn_Bell\t1\t2\nAnn_Bell\t1\tZed\t1\n")
    (faces / "lfw").rename(faces / "lfw_funneled")
    found, pairs = lfw(faces, images="lfw_funneled", pairs="pairsDevTest.txt")
    assert "lfw_funneled" in found.paths[0]
    assert pairs.folds is None
    assert found.protocol == "lfw/view1/test/v1"
    with pytest.raises(ValueError, match=r"Received pairs='dev.txt', expected one of"):
        lfw(faces, pairs="dev.txt")


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("people.txt", "2\n2\n", "3\n2\n", r"'the end' in people.txt .* expected a number of sets or of people"),
        ("people.txt", "2\n2\n", "1\n2\n", "with 6 lines, expected 4 by the sizes of its sets"),
        ("people.txt", "Zed\t1\n", "", "'1' in people.txt .* expected a name and a number of images"),
        ("people.txt", "Zed\t1", "Zed\t0", "'Zed 0' in people.txt .* expected a name and a number of images"),
        ("people.txt", "Zed\t1", "Zed", "'Zed' in people.txt .* expected a name and a number of images"),
        ("people.txt", "Zed\t1", "Zed\t2", "7 images of 3 classes in lfw, expected 6 of 3"),
        ("people.txt", PEOPLE, "", "'the end' in people.txt"),
        ("pairs.txt", "Zed\t1\nBob", "Zed\t2\nBob", r"a pair with \['Zed/Zed_0002.jpg'\], expected images of people"),
        ("pairs.txt", "2\t1\n", "4\t1\n" + PAIRS[4:], "a list of 8 pairs, expected 4. It is of another set"),
    ],
)
def test_damaged_lists_of_lfw_are_errors(faces, file, old, new, message):
    text = (faces / file).read_text()
    assert old in text
    (faces / file).write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        lfw(faces)


def test_missing_files_of_lfw_show_the_tree(faces):
    (faces / LFW_FILES[0]).unlink()
    with pytest.raises(ValueError, match=r"without lfw/Ann_Bell/Ann_Bell_0001.jpg \(1 of 6 (.|\n)*people.txt"):
        lfw(faces)
    (faces / "pairs.txt").unlink()
    with pytest.raises(ValueError, match=r"has no pairs.txt. Expected these files:\nLFW/"):
        lfw(faces)


def test_a_pickle_is_refused_and_never_opened(tmp_path):
    (tmp_path / "lfw.bin").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    for root in (tmp_path, tmp_path / "lfw.bin"):
        with pytest.raises(ValueError, match=r"lfw.bin, a pickle, which can run any program(.|\n)*people.txt"):
            lfw(root)
