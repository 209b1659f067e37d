"""Folders of image files."""

import numpy as np
import pytest
import tensorflow as tf

from tfdml.datasets import folder, load_image


def write_image(path, image):
    path.parent.mkdir(parents=True, exist_ok=True)
    encode = tf.io.encode_jpeg if path.suffix in (".jpg", ".JPG") else tf.io.encode_png
    tf.io.write_file(str(path), encode(image))


@pytest.fixture
def root(tmp_path):
    for name in ("cat/2.png", "cat/10.JPG", "ant/deep/er.png", "bee/b.jpg"):
        write_image(tmp_path / name, np.full((6, 8, 3), 100, np.uint8))
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    (tmp_path / "README").write_text("no class")
    write_image(tmp_path / "cat" / ".thumbs" / "t.png", np.zeros((1, 1, 3), np.uint8))
    write_image(tmp_path / ".hidden" / "h.png", np.zeros((1, 1, 3), np.uint8))
    return tmp_path


def test_classes_and_files_come_in_sorted_order(root):
    files = folder(root)
    assert files.class_names == ("ant", "bee", "cat")
    expected = [str(root / name) for name in ("ant/deep/er.png", "bee/b.jpg", "cat/10.JPG", "cat/2.png")]
    assert files.paths.tolist() == expected
    assert files.labels.tolist() == [0, 1, 2, 2]
    assert files.labels.dtype == np.int64
    assert len(files) == 4
    assert folder(str(root)).paths.tolist() == expected


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"missing', which is no folder"):
        folder(tmp_path / "missing")


def test_a_folder_without_subfolders_is_named(tmp_path):
    write_image(tmp_path / "a.png", np.zeros((1, 1, 3), np.uint8))
    with pytest.raises(ValueError, match=r"has no subfolder. Expected one subfolder a class"):
        folder(tmp_path)


def test_classes_without_images_are_named(root):
    (root / "dog").mkdir()
    (root / "eel").mkdir()
    (root / "eel" / "eel.tiff").write_bytes(b"")
    with pytest.raises(ValueError, match=r"no image \(.*\): dog, eel. Fill or remove"):
        folder(root)


@pytest.mark.parametrize("channels", [1, 3])
def test_images_load_in_the_graph_with_a_static_shape(root, channels):
    files = folder(root)
    loaded = tf.data.Dataset.from_tensor_slices(files.paths).map(load_image((4, 5), channels=channels))
    assert loaded.element_spec == tf.TensorSpec((4, 5, channels), tf.uint8)
    for image in loaded.as_numpy_iterator():
        np.testing.assert_allclose(image, 100, atol=1)


def test_shrinking_averages_instead_of_skipping_pixels(tmp_path):
    stripes = np.zeros((64, 64, 3), np.uint8)
    stripes[:, ::2] = 255
    write_image(tmp_path / "stripes.png", stripes)
    np.testing.assert_allclose(load_image(8)(str(tmp_path / "stripes.png"))[1:-1, 1:-1], 127.5, atol=8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "Received size=0, expected a positive side"),
        ({"size": (3, -1)}, r"Received size=\(3, -1\)"),
        ({"size": 8, "channels": 2}, r"Received channels=2, expected 1 \(grey\) or 3 \(colour\)"),
    ],
)
def test_wrong_sizes_and_channels_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        load_image(**options)
