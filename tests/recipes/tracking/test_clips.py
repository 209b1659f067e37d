"""Clips: the record and its errors, and moving pieces that every machine draws alike."""

import hashlib

import numpy as np
import pytest

from recipes.tracking import Clip, clips
from recipes.tracking.data import drawing, motion

FRAMES = [np.full((12, 16, 3), level, np.uint8) for level in (0, 10, 20)]
BOXES = [[1, 2, 5, 6]] * 3


@pytest.fixture(scope="module")
def validation():
    (part,) = clips(splits=("validation",), frames=30)
    return part


def test_a_clip_has_frames_boxes_and_flags():
    boxes = [[1, 2, 5, 6], [1, 2, np.nan, 6], [1, 2, 5, 0]]
    clip = Clip(name="a", frames=FRAMES, boxes=boxes)
    assert len(clip) == 3
    assert repr(clip) == "<Clip 'a': 3 frames>"
    assert clip.image(2)[0, 0].tolist() == [20, 20, 20]
    assert clip.usable.tolist() == [True, False, False]
    flags = {"cover": np.array([8, 0, 2]), "absent": np.array([False, False, True])}
    assert Clip(name="a", frames=FRAMES, boxes=BOXES, **flags).usable.tolist() == [True, False, False]
    assert Clip(name="a", frames=FRAMES, boxes=BOXES[:1]).usable.tolist() == [True, False, False]


def test_pixels_are_the_same_on_every_machine_in_any_order(validation):
    clip = validation[3]
    assert (len(validation), len(clip), clip.size) == (16, 30, (160, 120))
    assert clip.protocol == "moving-pieces/photograph-disjoint-validation/ope/frames-30-seed-0/v1"
    later = clip.image(17)
    assert hashlib.sha256(clip.image(0).tobytes()).hexdigest() == PIXELS
    np.testing.assert_array_equal(clip.image(17), later)
    np.testing.assert_array_equal(clip.image(-13), later)
    with pytest.raises(IndexError, match="frame 30 of a clip of 30 frames"):
        clip.frames[30]


PIXELS = "e025c82e254181f7aa13b8357840ee015e5b6420194e77a584a257f381e9fecd"


def test_a_piece_is_drawn_in_its_box_alone():
    piece = motion.piece(np.array([7], np.uint64), 0, 3)
    black, white = np.zeros((130, 170, 3), np.uint8), np.full((64, 64, 3), 255, np.uint8)
    frames = drawing.Drawn(np.array([1], np.uint64), black, np.zeros((3, 2)), ((white, np.array([32.0, 32.0]), piece),))
    for number, (x, y, w, h) in enumerate(motion.boxes(piece)):
        rows, columns = np.nonzero(frames[number].max(axis=2) > 100)
        extent = [columns.min(), rows.min(), np.ptp(columns) + 1, np.ptp(rows) + 1]
        np.testing.assert_allclose(extent, [x, y, w, h], atol=1.6)
