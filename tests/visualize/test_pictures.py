"""Images of every form as pixels."""

import base64

import numpy as np
import pytest
import tensorflow as tf

from tfdml.datasets import LabeledSet
from tfdml.visualize.pictures import pictures, shows_images, thumbnails

RGB = np.arange(24, dtype=np.uint8).reshape(2, 4, 3) * 10


def only(image, side=8):
    (found,) = pictures([image], [0], side)
    assert found.dtype == np.uint8
    return found


@pytest.mark.parametrize(
    "image",
    [RGB, RGB.astype("int64"), RGB / 255, (RGB / 255).astype("float32"), np.dstack([RGB, RGB[..., :1]])],
    ids=["uint8", "int64", "float64", "float32", "with alpha"],
)
def test_pixels_of_color_images_are_those_of_the_image(image):
    np.testing.assert_array_equal(only(image), RGB)


@pytest.mark.parametrize("image", [RGB[..., :1], RGB[..., 0], RGB[..., :1] / 255], ids=["one", "none", "float"])
def test_gray_images_have_three_equal_channels(image):
    np.testing.assert_array_equal(only(image), np.stack([RGB[..., 0]] * 3, axis=-1))


def test_bools_are_black_and_white():
    np.testing.assert_array_equal(only(np.array([[True, False]]))[..., 0], [[255, 0]])


def test_values_outside_the_range_stretch_all_images_alike():
    low, high = np.full((1, 1), -1.0), np.full((1, 1), 3.0)
    found = pictures([low, high, np.zeros((1, 1))], range(3), 8)
    assert [int(image[0, 0, 0]) for image in found] == [0, 255, 64]  # 255 (0 + 1) / 4 = 63.75
    found = pictures([np.full((1, 1), 510), np.full((1, 1), 102)], range(2), 8)
    assert [int(image[0, 0, 0]) for image in found] == [255, 51]  # 102 / 2


def test_rows_are_those_asked_for_and_images_keep_their_sizes():
    images = [np.full((height, 5), 9 * height, np.uint8) for height in range(1, 5)]
    found = pictures(images, [2, 0], 8)
    assert [image.shape for image in found] == [(3, 5, 3), (1, 5, 3)]
    assert [int(image.max()) for image in found] == [27, 9]
    assert pictures(images, [], 8) == []


def test_larger_images_are_reduced_with_their_aspect_ratio():
    image = np.repeat(np.uint8([[0, 200]]), 20, axis=1).repeat(10, axis=0)  # left black, right gray
    found = only(image, side=4)
    assert found.shape == (1, 4, 3)
    assert found[0, [0, 3], 0].tolist() == [0, 200]


def test_files_of_different_sizes_are_read_one_at_a_time(tmp_path):
    sides, paths = (3, 5, 4), []
    for side in sides:
        paths.append(str(tmp_path / f"{side}.png"))
        (tmp_path / f"{side}.png").write_bytes(tf.io.encode_png(np.full((side, side, 3), 10 * side, np.uint8)).numpy())

    def load(path):
        return tf.io.decode_png(tf.io.read_file(path), channels=3)

    part = LabeledSet(paths=np.array(paths), labels=np.zeros(3, int), class_names=("a",), load=load)
    found = pictures(part, [0, 2, 1], 8)
    assert [(image.shape[0], int(image[0, 0, 0])) for image in found] == [(3, 30), (4, 40), (5, 50)]


def test_a_load_is_applied_to_images_in_memory():
    part = LabeledSet(images=np.stack([RGB, RGB]), labels=np.zeros(2, int), class_names=("a",), load=lambda x: 255 - x)
    np.testing.assert_array_equal(pictures(part, [1], 8)[0], 255 - RGB)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros(4), r"shape \(4,\) and type float64 in row 0, expected an image"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\)"),
        (np.zeros((0, 2)), r"shape \(0, 2\)"),
        (np.full((2, 2), np.nan), "an image with NaN or infinite values in row 0"),
        (np.array([["a"]]), "type <U1"),
    ],
)
def test_other_examples_are_refused(image, message):
    with pytest.raises(ValueError, match=message):
        pictures([image], [0], 8)


def test_the_first_example_says_whether_a_set_shows_images():
    assert shows_images([RGB])
    assert shows_images(RGB[None, ..., :1])
    assert not shows_images(np.zeros((3, 4)))
    assert not shows_images([])
    assert not shows_images(None)


def pixels_of(uri):
    """The gray levels of a PNG in a data URI."""
    return tf.io.decode_png(base64.b64decode(uri.removeprefix("data:image/png;base64,")), 1)[..., 0].numpy().tolist()


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        (np.array([[[0.0], [0.5], [1.0]]]), [[[0, 128, 255]]]),
        (np.array([[-1.0, 3.0]]), [[[0, 255]]]),
        (np.array([[7, 7]]), [[[0, 0]]]),
        (np.zeros((2, 2, 5)), []),
        (np.zeros(9), []),
        (np.array(["text"]), []),
    ],
)
def test_numbers_of_any_range_become_gray_levels_and_other_examples_have_no_thumbnail(example, expected):
    uris = thumbnails([example], [0])
    assert [pixels_of(uri) for uri in uris.values()] == expected
