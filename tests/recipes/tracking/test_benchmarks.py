"""OTB and GOT-10k in miniature, with the traps of their files."""

import numpy as np
import pytest

from recipes.tracking import got10k, otb
from recipes.tracking.data import benchmarks as module
from tests.recipes.tracking.miniatures import write_got10k, write_otb


@pytest.fixture
def otb_root(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "COUNTS", module.COUNTS | write_otb(tmp_path))
    return tmp_path


def test_otb_reads_every_form_of_its_files(otb_root):
    clips = {clip.name: clip for clip in otb(otb_root)}
    expected = ["Basketball", "BlurCar1", "Board", "David", "Human4", "Jogging-1", "Jogging-2", "KiteSurf", "Tiger1"]
    assert list(clips) == expected
    for name in ("Basketball", "Board", "BlurCar1", "KiteSurf", "Human4"):
        np.testing.assert_array_equal(clips[name].boxes, [[0, 1, 5, 6], [1, 1, 5, 6], [2, 1, 5, 6]])  # from 0
    assert clips["Jogging-2"].boxes[0].tolist() == [19, 1, 5, 6]
    assert [path[-8:-4] for path in clips["David"].frames] == ["0300", "0301", "0302"]
    assert len(clips["Tiger1"]) == 3  # frames 6 to 8 of 8
    assert clips["Tiger1"].boxes[0].tolist() == [5, 1, 5, 6]
    assert clips["KiteSurf"].frames[0].endswith("jpg/0001.png")
    assert {clip.protocol for clip in clips.values()} == {"otb100/ope/v1"}
    assert [clip.name for clip in otb(otb_root, year=2013)] == [
        "Basketball",
        "David",
        "Jogging-1",
        "Jogging-2",
        "Tiger1",
    ]


@pytest.fixture
def got_root(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "COUNTS", module.COUNTS | write_got10k(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", ["../elsewhere", "/elsewhere"])
def test_a_list_of_got10k_leads_to_no_other_folder(got_root, name):
    (got_root / "val" / "list.txt").write_text(f"{name}\n")
    with pytest.raises(ValueError, match=f"val/list.txt with .'{name}'., expected names of folders in it"):
        got10k(got_root, "val")


def test_got10k_reads_boxes_flags_and_sizes(got_root):
    (clip,) = got10k(got_root, "train")  # without the damaged one
    assert (clip.name, clip.size, clip.protocol) == ("GOT-10k_Train_000001", (1920, 1080), "got10k/train/ao/v1")
    np.testing.assert_array_equal(clip.boxes, [[1, 2, 5, 6]] * 3)
    assert clip.cover.tolist() == [8, 0, 3]
    assert clip.usable.tolist() == [True, False, False]  # hidden, then absent
    (validation,) = got10k(got_root, "val")
    assert validation.protocol == "got10k/val/ao/v1"
    (test,) = got10k(got_root, "test")
    assert (len(test), test.boxes.shape, test.cover, test.size) == (3, (1, 4), None, None)
