"""Files of MNIST's format, in miniature."""

import gzip
import struct

import numpy as np
import pytest

from tfdml.datasets import idx

IMAGES = np.arange(5 * 3 * 2, dtype=np.uint8).reshape(5, 3, 2)
LABELS = np.array([1, 0, 2, 1, 1], np.uint8)


def written(array, kind=8):
    """The bytes of an idx file, by the description of the format."""
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, kind, array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def root(tmp_path):
    for name, rows in (("train", slice(0, 3)), ("t10k", slice(3, 5))):
        with gzip.open(tmp_path / f"{name}-images-idx3-ubyte.gz", "wb") as file:
            file.write(written(IMAGES[rows]))
        (tmp_path / f"{name}-labels-idx1-ubyte").write_bytes(written(LABELS[rows]))
    return tmp_path


def test_both_parts_have_the_images_and_labels_of_the_files(root):
    train, test = idx(root, class_names=("shirt", "bag", "boot"))
    np.testing.assert_array_equal(train.images, IMAGES[:3, ..., None])
    np.testing.assert_array_equal(test.images, IMAGES[3:, ..., None])
    assert train.labels.tolist() == [1, 0, 2]
    assert test.labels.tolist() == [1, 1]
    assert (train.class_names, train.protocol) == (("shirt", "bag", "boot"), None)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t10k-labels-idx1-ubyte", written(LABELS[3:])[:-1], "holds 1 values, and its header says 2"),
        ("t10k-labels-idx1-ubyte", written(LABELS[3:]) + b"\0", "holds more values, and its header says 2"),
        ("t10k-labels-idx1-ubyte", written(LABELS[3:].astype("float32"), kind=13), "does not begin as an idx file"),
        ("t10k-labels-idx1-ubyte", written(IMAGES), "does not begin as an idx file"),
        ("t10k-labels-idx1-ubyte", b"\0", "does not begin as an idx file"),
        ("t10k-labels-idx1-ubyte", written(LABELS), "2 images and 5 labels"),
        ("t10k-labels-idx1-ubyte", written(np.array([1, 3], np.uint8)), "labels from 1 to 3 and 3 class names"),
        ("t10k-images-idx3-ubyte.gz", gzip.compress(written(IMAGES), mtime=0)[:-9], "is cut or damaged"),
        ("t10k-images-idx3-ubyte.gz", b"not compressed", "is cut or damaged"),
    ],
)
def test_a_cut_file_or_one_of_another_set_is_an_error(root, name, content, message):
    (root / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        idx(root, class_names=("shirt", "bag", "boot"))


def test_a_compressed_file_that_unpacks_to_far_more_than_images_is_refused_before_it_is_read(root):
    name = "train-images-idx3-ubyte.gz"
    zeros = struct.pack(">BBBBIII", 0, 0, 8, 3, 2**14, 64, 128)  # of 2**27 bytes, of which gzip makes a thousandth
    with gzip.open(root / name, "wb") as file:
        file.write(zeros)
    with pytest.raises(
        ValueError, match=r"images-idx3-ubyte.gz of \d+ bytes unpacks to 134,217,728, expected at most 100"
    ):
        idx(root)


def test_a_missing_file_is_named_beside_the_expected_tree(root):
    (root / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(ValueError, match="has no train-labels-idx1-ubyte"):
        idx(root)
