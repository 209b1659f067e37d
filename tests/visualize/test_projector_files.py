"""The folder of TensorBoard's projector, read with TensorBoard's own records."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorboard.plugins.projector import ProjectorConfig

from tfdml.datasets import LabeledSet
from tfdml.visualize import projector

X = np.random.default_rng(0).standard_normal((5, 3)).astype("float32")
IMAGES = np.broadcast_to(np.random.default_rng(1).integers(0, 256, (5, 1, 1, 3), dtype=np.uint8), (5, 4, 4, 3))
PART = LabeledSet(images=IMAGES, labels=[0, 1, 1, 0, 1], class_names=("ant", "bee\twasp"))


def config(folder):
    return text_format.Parse((folder / "projector_config.pbtxt").read_text(), ProjectorConfig())


def test_the_folder_holds_embeddings_classes_and_thumbnails(tmp_path):
    folder = projector(tmp_path / "new" / "folder", X, PART, thumbnail=2)
    (entry,) = config(folder).embeddings
    np.testing.assert_array_equal(np.loadtxt(folder / entry.tensor_path, dtype="float32"), X)  # to the last bit
    lines = (folder / entry.metadata_path).read_text().splitlines()
    assert lines == ["class\trow", "ant\t0", "bee wasp\t1", "bee wasp\t2", "ant\t3", "bee wasp\t4"]
    assert entry.sprite.single_image_dim == [2, 2]
    sprite = tf.io.decode_png((folder / entry.sprite.image_path).read_bytes()).numpy()
    assert sprite.shape == (6, 6, 3)  # a square of 3 x 3 thumbnails
    for row in range(5):
        tile = sprite[2 * (row // 3) :, 2 * (row % 3) :][:2, :2]
        np.testing.assert_array_equal(tile, np.broadcast_to(IMAGES[row, 0, 0], (2, 2, 3)))


def test_several_embeddings_are_listed_in_their_order(tmp_path):
    projector(tmp_path, {"trained": X, "before": 2 * X}, PART)
    entries = config(tmp_path).embeddings
    assert [entry.tensor_name for entry in entries] == ["trained", "before"]
    np.testing.assert_array_equal(np.loadtxt(tmp_path / entries[1].tensor_path, dtype="float32"), 2 * X)


def test_without_examples_there_are_rows_and_no_thumbnails(tmp_path):
    projector(tmp_path, X)
    (entry,) = config(tmp_path).embeddings
    assert not entry.HasField("sprite")
    assert (tmp_path / entry.metadata_path).read_text().split() == list("01234")  # one column has no head


def test_labels_replace_those_of_a_set_and_paths_are_a_column(tmp_path):
    part = LabeledSet(paths=np.array(list("abcde")), labels=[0] * 5, class_names=("x",), load=lambda path: tf.zeros(3))
    projector(tmp_path, X, part, [9, 9, 8, 8, 8])
    lines = (tmp_path / "metadata.tsv").read_text().splitlines()
    assert lines[:2] == ["class\trow\tpath", "9\t0\ta"]


def test_thumbnails_of_images_of_different_sizes_keep_their_aspect_ratio(tmp_path):
    images = [np.full(shape, 250, np.uint8) for shape in [(4, 8), (8, 4), (16, 16), (2, 2)]]
    projector(tmp_path, X[:4], images, thumbnail=8)
    sprite = tf.io.decode_png((tmp_path / "sprite.png").read_bytes()).numpy()[..., 0]
    assert [int((tile == 250).sum()) for half in np.split(sprite, 2) for tile in np.split(half, 2, 1)] == [
        32,
        32,
        64,
        64,
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.nan * X,), "NaN, infinite or too large"),
        ((np.zeros((0, 3)),), r"embeddings of \[0\] examples"),
        (({},), "no embeddings"),
        (({"a": X, "b": X[:2]},), r"embeddings of \[2, 5\] examples"),
        (({"a/b": X},), "embeddings of the name 'a/b'"),
        (({"metadata": X},), "embeddings of the name 'metadata'"),
        ((X, PART.take([0])), "5 embeddings of 1 examples"),
        ((X, PART, [0, 1]), r"labels of shape \(2,\)"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(arguments, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        projector(tmp_path / "folder", *arguments)
    assert not (tmp_path / "folder").exists()


def test_more_thumbnails_than_browsers_draw_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"5 examples with thumbnails of 4096 pixels, expected at most 4\. Show fewer"):
        projector(tmp_path, X, PART, thumbnail=4096)
    with pytest.raises(ValueError, match="thumbnail=0"):
        projector(tmp_path, X, PART, thumbnail=0)
