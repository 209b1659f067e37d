"""Animations, frame by frame."""

import numpy as np
import pytest
from PIL import Image

from tfdml.datasets import LabeledSet
from tfdml.visualize import animation

# Two classes at the corners of a square; in three frames the first class walks from the left to the right.
PLACES = [0.0, 0.5, 1.0]
FRAMES = [np.array([[x, 1.0], [0.0, 0.0], [1.0, 0.0], [1.0, 0.9]]) for x in PLACES]
LABELS = np.array([3, 8, 8, 8])
BLUE, ORANGE = (0, 114, 178), (230, 159, 0)


def read(path):
    """The frames as arrays, and their times in milliseconds."""
    images, times = [], []
    with Image.open(path) as file:
        for number in range(file.n_frames):
            file.seek(number)
            images.append(np.asarray(file.convert("RGB")).astype(int))
            times.append(file.info["duration"])
        assert file.info["loop"] == 0
    return images, times


def middle(image, color, upper=400):
    """Mean column of the pixels of a color above the legend."""
    return np.flatnonzero((np.abs(image[:upper] - color) < 8).all(axis=2).any(axis=0)).mean()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("gif") / "training.gif"
    assert animation(path, FRAMES, LABELS, captions="abc", title="Title", seconds=0.2) == path
    return read(path)


def test_every_frame_is_there_for_its_time(written):
    images, times = written
    assert times == [200, 200, 2000]
    assert {image.shape for image in images} == {(480, 480, 3)}


def test_points_move_and_the_axes_do_not(written):
    images, _ = written
    blue = [middle(image, BLUE) for image in images]
    assert blue[1] - blue[0] == pytest.approx(blue[2] - blue[1], abs=2)
    assert blue[1] - blue[0] > 100
    assert np.ptp([middle(image, ORANGE) for image in images]) < 1.5


def test_the_background_is_white_and_classes_have_their_exact_colors(written):
    for image in written[0]:
        assert image[0, 0].tolist() == [255, 255, 255]
        for color in (BLUE, ORANGE):
            assert (image == color).all(axis=2).sum() > 5


def test_captions_differ_above_the_axes(written):
    images, _ = written
    heads = [image[:18] for image in images]
    assert all((head < 100).any() for head in heads)
    assert (heads[0] != heads[1]).any()


def test_the_same_frames_give_the_same_file_whether_labels_are_of_a_set_or_not(tmp_path):
    part = LabeledSet(images=np.zeros((4, 1)), labels=LABELS // 8, class_names=("3", "8"))
    animation(tmp_path / "a.gif", FRAMES[:2], LABELS)
    animation(tmp_path / "b.gif", FRAMES[:2], part)
    assert (tmp_path / "a.gif").read_bytes() == (tmp_path / "b.gif").read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"frames": []}, "no frames"),
        ({"frames": [np.zeros((4, 3))]}, r"shapes \[\(4, 3\)\], expected \(n, 2\) for all. Train a model with dim=2"),
        ({"frames": [np.zeros((4, 2)), np.zeros((3, 2))]}, r"shapes \[\(3, 2\), \(4, 2\)\]"),
        ({"frames": [np.zeros((0, 2))]}, r"shapes \[\(0, 2\)\]"),
        ({"frames": [FRAMES[0], FRAMES[1] * np.nan]}, r"frames\[1\] with a value that is NaN"),
        ({"captions": ["one"]}, "1 captions of 3 frames"),
        ({"data": [1, 2]}, r"labels of shape \(2,\)"),
        ({"seconds": 0}, "seconds=0"),
        ({"path": "training.png"}, "training.png', expected a file name that ends in .gif"),
    ],
)
def test_what_is_wrong_is_said(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        animation(**{"path": tmp_path / "a.gif", "frames": FRAMES, **options})
    assert not list(tmp_path.iterdir())
