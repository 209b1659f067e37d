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


def test_the_embedded_clips_have_their_sizes_and_protocols(validation):
    assert len(validation) == 16
    assert {(len(clip), clip.size) for clip in validation} == {(30, (160, 120))}
    assert validation[0].protocol == "moving-pieces/photograph-disjoint-validation/ope/frames-30-seed-0/v1"
    assert {clip.image(0).shape for clip in validation} == {(120, 160, 3)}
    boxes = np.concatenate([clip.boxes for clip in validation])
    assert boxes.min() > 0  # inside the frame
    assert ((boxes[:, :2] + boxes[:, 2:]) < [160, 120]).all()
    covers = np.concatenate([clip.cover for clip in validation])
    assert covers.max() == 8
    assert covers.min() < 4


def test_pixels_are_the_same_on_every_machine_in_any_order(validation):
    clip = validation[3]
    later = clip.image(17)
    assert hashlib.sha256(clip.image(0).tobytes()).hexdigest() == PIXELS
    np.testing.assert_array_equal(clip.image(17), later)
    np.testing.assert_array_equal(clip.image(-13), later)
    with pytest.raises(IndexError, match="frame 30 of a clip of 30 frames"):
        clip.frames[30]


PIXELS = "e025c82e254181f7aa13b8357840ee015e5b6420194e77a584a257f381e9fecd"


def test_the_box_holds_the_piece_and_touches_it():
    piece = motion.piece(np.array([7], np.uint64), 0, 5)
    angles = np.linspace(0, 2 * np.pi, 3601)
    circle = np.stack([np.cos(angles), np.sin(angles)])
    for box, center, shape in zip(motion.boxes(piece), piece.centers, piece.shapes, strict=True):
        edge = center[:, None] + shape @ circle
        expected = [*edge.min(axis=1), *np.ptp(edge, axis=1)]
        np.testing.assert_allclose(box, expected, atol=1e-3)


def test_a_piece_is_drawn_in_its_box_alone():
    piece = motion.piece(np.array([7], np.uint64), 0, 3)
    black, white = np.zeros((130, 170, 3), np.uint8), np.full((64, 64, 3), 255, np.uint8)
    frames = drawing.Drawn(np.array([1], np.uint64), black, np.zeros((3, 2)), ((white, np.array([32.0, 32.0]), piece),))
    for number, (x, y, w, h) in enumerate(motion.boxes(piece)):
        rows, columns = np.nonzero(frames[number].max(axis=2) > 100)
        extent = [columns.min(), rows.min(), np.ptp(columns) + 1, np.ptp(rows) + 1]
        np.testing.assert_allclose(extent, [x, y, w, h], atol=1.6)


def test_the_cover_is_the_visible_share_in_eighths():
    still = motion.Piece(
        np.array([[80.0, 60.0]] * 3), np.tile(10 * np.eye(2), (3, 1, 1)), np.array([10.0, 10.0]), np.ones(3)
    )
    discs = still._replace(centers=np.array([[80.0, 60.0], [100.0, 60.0], [88.0, 60.0]]))
    # Two circles of radius 10 at a distance of 8 share 2 r^2 acos(d / 2r) - d / 2 sqrt(4 r^2 - d^2) of pi r^2: 50.5%.
    assert motion.cover(still, discs).tolist() == [0, 8, 4]
    assert motion.cover(still, None).tolist() == [8, 8, 8]
    outside = still._replace(centers=np.array([[160.0, 60.0]] * 3))
    assert motion.cover(outside, None).tolist() == [4, 4, 4]


def test_the_window_of_the_background_is_the_bilinear_one():
    photograph = np.random.default_rng(0).integers(0, 256, (140, 180, 3), dtype=np.uint8)
    x, y = np.arange(160)[None, :], np.arange(120)[:, None]
    np.testing.assert_array_equal(drawing.window(photograph, 3.3, 7.9), drawing.bilinear(photograph, x + 3.3, y + 7.9))
    np.testing.assert_allclose(drawing.bilinear(photograph, x * 1.0, y), photograph[:120, :160])
