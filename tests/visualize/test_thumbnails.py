"""Thumbnails of items: what is written is what is read, and damage is named."""

import io
import zipfile

import numpy as np
import pytest
from PIL import Image

from tfdml.datasets import LabeledSet, Preprocessing
from tfdml.visualize import Thumbnails, write_thumbnails

IMAGES = [np.full((height, 8, 3), 30 * height, np.uint8) for height in (8, 4, 2)]


def decoded(jpeg):
    picture = Image.open(io.BytesIO(jpeg))
    assert picture.format == "JPEG"
    return np.asarray(picture)


@pytest.fixture
def path(tmp_path):
    return write_thumbnails(tmp_path / "thumbnails.npz", ["b", "../a", "é"], IMAGES, size=6)


@pytest.mark.parametrize(
    "images",
    [
        IMAGES,
        iter(IMAGES),
        np.stack([image[:2] for image in IMAGES]),
        LabeledSet(images=np.stack([image[:2] for image in IMAGES]), labels=[0, 0, 1], class_names=("a", "b")),
    ],
    ids=["list", "iterator", "array", "labeled set"],
)
def test_each_image_is_a_jpeg_by_its_id_and_its_longer_edge_is_reduced(tmp_path, images):
    path = write_thumbnails(tmp_path / "thumbnails.npz", [7, -1, 2**40], images, size=4)
    thumbnails = Thumbnails.load(path)
    assert list(thumbnails) == [7, -1, 2**40]
    for id, image in zip(thumbnails, IMAGES, strict=True):
        pixels = decoded(thumbnails[id])
        assert max(pixels.shape) == 4
        assert abs(pixels.astype(int) - image[0, 0]).max() < 8
    assert 8 not in thumbnails
    assert "7" not in thumbnails


@pytest.mark.parametrize("boxes", [None, np.array([[0, 0, 40, 10]] * 2, float)], ids=["whole", "boxes"])
def test_the_photographs_of_a_set_are_shown_and_not_what_the_network_gets(boxes, tmp_path):
    paths = [str(tmp_path / name) for name in ("wide.png", "small.png")]
    for path, shape in zip(paths, [(20, 40, 3), (10, 5, 3)], strict=True):
        Image.fromarray(np.full(shape, 200, np.uint8)).save(path)
    view = Preprocessing(size=16, fit="pad", boxes=boxes is not None)
    columns = {"paths": np.array(paths), "labels": np.zeros(2, int), "boxes": boxes}
    photos = LabeledSet(**columns, class_names=("a",), load=view)
    thumbnails = Thumbnails.load(write_thumbnails(tmp_path / "thumbnails.npz", [0, 1], photos, size=20))
    pictures = [decoded(thumbnails[row]) for row in (0, 1)]
    assert [picture.shape for picture in pictures] == [(10, 20, 3) if boxes is None else (5, 20, 3), (10, 5, 3)]
    assert min(picture.min() for picture in pictures) > 190  # no black border


def test_text_ids_are_kept_as_they_are_and_small_images_keep_their_size(path):
    thumbnails = Thumbnails.load(path)
    assert set(thumbnails) == {"b", "../a", "é"}
    assert [decoded(thumbnails[id]).shape for id in ("b", "../a", "é")] == [(6, 6, 3), (3, 6, 3), (2, 6, 3)]
    with pytest.raises(KeyError):
        thumbnails["a"]


def test_numpy_reads_the_file_and_the_same_images_give_the_same_file(path, tmp_path):
    again = write_thumbnails(tmp_path / "again.npz", ["b", "../a", "é"], IMAGES, size=6)
    assert again.read_bytes() == path.read_bytes()
    with np.load(path, allow_pickle=False) as file:
        assert sorted(file) == ["ids", "jpegs", "offsets"]
        assert file["jpegs"][: file["offsets"][1]].tobytes() == Thumbnails.load(path)["b"]


def test_the_jpegs_stay_on_the_disk_and_survive_a_new_file(path):
    thumbnails = Thumbnails.load(path)
    assert isinstance(thumbnails._jpegs, np.memmap)
    old = thumbnails["b"]
    write_thumbnails(path, ["b"], IMAGES[1:2])
    assert thumbnails["b"] == old != Thumbnails.load(path)["b"]


def test_no_images_are_a_file_without_thumbnails(tmp_path):
    assert len(Thumbnails.load(write_thumbnails(tmp_path / "none.npz", [], []))) == 0


@pytest.mark.parametrize(
    ("ids", "images", "options", "reason"),
    [
        ([1, 1], IMAGES[:2], {}, "2 ids, of which 1 differ"),
        ([1.5], IMAGES[:1], {}, "type float64, expected"),
        ([[1]], IMAGES[:1], {}, r"shape \(1, 1\)"),
        (np.array([None]), IMAGES[:1], {}, "type object"),
        ([1, 2], IMAGES, {}, "3 images for 2 ids"),
        ([1], [np.zeros(3)], {}, "expected an image"),
        ([1], IMAGES[:1], {"size": 0}, "size=0"),
        ([1], IMAGES[:1], {"size": 10**6}, "size=1000000"),
    ],
)
def test_what_cannot_be_written_is_named_and_the_old_file_stays(path, ids, images, options, reason):
    before = path.read_bytes()
    with pytest.raises(ValueError, match=reason):
        write_thumbnails(path, ids, images, **options)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


GOOD = {"ids": np.arange(2), "offsets": np.array([0, 4, 9]), "jpegs": np.zeros(9, np.uint8)}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ids": np.zeros(2, int)}, "distinct"),
        ({"ids": np.arange(3)}, "of 3 ids"),
        ({"ids": np.array([{}, 1], object)}, "allow_pickle=False"),
        ({"offsets": np.array([0, 9, 4])}, "do not ascend"),
        ({"offsets": np.array([-1, 4, 9])}, "do not ascend"),
        ({"offsets": np.array([0.0, 4, 9])}, "float64"),
        ({"offsets": np.array([0, 4, 10])}, "9 bytes of thumbnails, expected 10"),
        ({"jpegs": np.zeros((3, 3), np.uint8)}, "uint8"),
        ({"jpegs": np.zeros(9, np.int64)}, "int64"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, changes, reason):
    np.savez(tmp_path / "thumbnails.npz", **GOOD | changes)
    with pytest.raises(ValueError, match=reason):
        Thumbnails.load(tmp_path / "thumbnails.npz")


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "thumbnails.npz"
    with pytest.raises(FileNotFoundError):
        Thumbnails.load(path)
    np.savez_compressed(path, **GOOD)
    with pytest.raises(ValueError, match="compressed"):
        Thumbnails.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ids.npy", "no array")
    with pytest.raises(ValueError, match="expected a file that write_thumbnails wrote"):
        Thumbnails.load(path)
    np.savez(path, **GOOD)
    with pytest.raises(ValueError, match="a damaged thumbnail of id 1"):
        Thumbnails.load(path)[1]
