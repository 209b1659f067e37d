"""Examples that cannot be used are found and named."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from tests.datasets.conftest import decode
from tfdml.datasets import LabeledSet, Preprocessing
from tfdml.datasets.integrity import FileCheck

PIXELS = np.random.default_rng(0).integers(0, 256, (9, 40, 60, 3), np.uint8)
PNG = [tf.io.encode_png(image).numpy() for image in PIXELS]
LOAD = tf.function(Preprocessing(size=8))  # traced once for all tests
JPEG = tf.io.encode_jpeg(PIXELS[0]).numpy()


def files(folder, contents, labels=None, **options):
    """A set of files with some contents; None for a file that is missing."""
    for row, content in enumerate(contents):
        if content is not None:
            (folder / f"{row}.png").write_bytes(content)
    return LabeledSet(
        paths=np.array([str(folder / f"{row}.png") for row in range(len(contents))]),
        labels=np.zeros(len(contents), int) if labels is None else labels,
        class_names=("ant", "bee"),
        **{"load": decode, **options},
    )


def reasons(part, **options):
    """Row -> reason."""
    return {row: reason for row, _, reason in part.check_files(**options).problems}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_files_that_cannot_be_loaded_are_named_and_the_rest_loads(workers, tmp_path):
    part = files(tmp_path, [PNG[0], b"", JPEG, JPEG[: len(JPEG) // 2], b"hello", PNG[1][:60], None, PNG[2]], load=LOAD)
    found = part.check_files(workers)
    assert found.usable_rows.tolist() == [0, 2, 7]
    assert part.take(found.usable_rows).examples().shape == (3, 8, 8, 3)
    assert [row for row, _, _ in found.problems] == [1, 3, 4, 5, 6]
    assert [name for _, name, _ in found.problems] == [str(tmp_path / f"{row}.png") for row in (1, 3, 4, 5, 6)]
    empty, cut, text, _, missing = [reason for _, _, reason in found.problems]
    assert empty == "an empty file"
    assert cut.startswith("an image that cannot be decoded, expected a whole file.")
    assert text == "5 bytes that are not an image, expected a JPEG, PNG, GIF, BMP or WebP file."
    assert missing == "No such file or directory"


def test_the_first_of_equal_files_is_kept(tmp_path):
    part = files(tmp_path, [PNG[0], PNG[1], PNG[0], PNG[0]], labels=[0, 1, 0, 0])
    same = f"the same content as row 0, {tmp_path / '0.png'}"
    assert reasons(part) == {2: same, 3: same}


def test_equal_files_under_different_labels_are_all_listed(tmp_path):
    part = files(tmp_path, [PNG[0], PNG[1], PNG[0], PNG[0]], labels=[0, 1, 1, 0])
    found = reasons(part)
    assert set(found) == {0, 2, 3}
    assert found[0] == f"the same content as row 2, {tmp_path / '2.png'}, with the other label 'bee'"
    assert found[2] == f"the same content as row 0, {tmp_path / '0.png'}, with the other label 'ant'"


def test_boxes_outside_their_image_are_named(tmp_path):
    boxes = [[0, 0, 60, 40], [-0.5, 0, 61, 41], [-2, 0, 60, 40], [0, 0, 62, 40], [0, 0, 60, 42], [5, 0, 5, 40]]
    boxes = np.array([*boxes, [0, np.nan, 60, 40]], float)
    found = reasons(files(tmp_path, PNG[:7], boxes=boxes))
    assert set(found) == {2, 3, 4, 5, 6}
    assert found[3] == "the box (0, 0, 62, 40), which exceeds the image of 60 x 40 pixels"
    assert found[5] == "the box (5, 0, 5, 40), which is empty"


def test_boxes_are_compared_with_the_upright_image(tmp_path):
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(PIXELS[0]).save(tmp_path / "0.png", exif=exif)
    part = files(tmp_path, [None], boxes=np.array([[0.0, 0.0, 40.0, 60.0]]))
    assert reasons(part) == {}


def test_two_boxes_of_one_file_are_two_examples(tmp_path):
    boxes = np.array([[0, 0, 20, 20], [20, 0, 40, 20], [0, 0, 20, 20]], float)
    assert set(reasons(files(tmp_path, [PNG[0]] * 3, boxes=boxes))) == {2}


def test_a_load_that_takes_boxes_gets_them(tmp_path):
    def corner(key):
        path, box = key
        tf.debugging.assert_less(box[2], np.float64(50), "the box is wide")
        return tf.io.decode_png(tf.io.read_file(path))[:4, :4]

    corner.boxes = True
    boxes = np.array([[0, 0, 20, 20], [0, 0, 60, 20]], float)
    found = reasons(files(tmp_path, PNG[:2], boxes=boxes, load=corner))
    assert set(found) == {1}
    assert "the box is wide" in found[1]


def test_an_example_of_another_shape_is_named(tmp_path):
    small = tf.io.encode_png(PIXELS[3, :20]).numpy()
    part = files(tmp_path, [*PNG[:3], small], load=decode)
    assert reasons(part) == {3: "loads to shape (20, 60, 3), most examples to (40, 60, 3)"}


@pytest.mark.parametrize("load", [None, lambda image: image[:2]])
def test_arrays_are_searched_for_duplicates_and_boxes(load):
    images = PIXELS[[0, 1, 0, 2]]
    boxes = np.array([[0.0, 0.0, 60.0, 40.0]] * 3 + [[30.0, 30.0, 90.0, 70.0]])
    part = LabeledSet(images=images, labels=[0, 0, 0, 1], class_names=("a", "b"), boxes=boxes, load=load)
    found = reasons(part)
    assert found[2] == "the same content as row 0, 0"
    assert found[3] == "the box (30, 30, 90, 70), which exceeds the image of 60 x 40 pixels"
    assert set(found) == {2, 3}


class Source:
    """Records of a file name and pixels, of which one cannot be read."""

    def __len__(self):
        return 4

    def __getitem__(self, row):
        if row == 1:
            raise OSError("the disk is gone")
        return {"name": f"{row}", "image": PIXELS[0] if row == 2 else PIXELS[row]}


def test_records_that_cannot_be_read_are_named():
    part = LabeledSet(source=Source(), labels=[0] * 4, class_names=("a",), load=lambda record: record["image"])
    found = part.check_files()
    assert found.problems == ((1, "1", "the disk is gone"),)
    assert found.usable_rows.tolist() == [0, 2, 3]  # The names differ, so rows 0 and 2 are different records.


def test_a_verification_prints_what_it_found():
    problems = tuple((row, f"{row}.png", "an empty file") for row in range(25))
    lines = str(FileCheck(problems, np.arange(1000))).splitlines()
    assert lines[0] == "1,025 examples, 25 with a problem"
    assert lines[1] == "  row 0  0.png  an empty file"
    assert len(lines) == 22
    assert lines[-1] == "  and 5 more in problems"
    assert str(FileCheck(((0, "\x1b[2J\n.png", "an empty file"),), np.arange(3))).endswith(
        r"\x1b[2J\n.png  an empty file"
    )
    assert repr(FileCheck((), np.arange(3))) == "3 examples, 0 with a problem"


def test_transparent_images_are_counted_unless_a_background_is_behind_them(tmp_path):
    opaque, clear = (np.full((40, 60, 1), level, np.uint8) for level in (255, 254))
    pixels = [np.concatenate([image, alpha], axis=2) for image, alpha in zip(PIXELS, [opaque, clear], strict=False)]
    part = files(tmp_path, [*(tf.io.encode_png(image).numpy() for image in pixels), PNG[2]], load=Preprocessing(size=8))
    found = part.check_files()
    assert (found.problems, found.transparent) == ((), (str(tmp_path / "1.png"),))
    assert (
        str(found).splitlines()[1].startswith(f"1 image has transparent pixels, {tmp_path / '1.png'}: a network sees")
    )
    assert replace(part, load=Preprocessing(size=8, background=255)).check_files().transparent == ()
    arrays = LabeledSet(images=np.array(pixels), labels=[0, 0], class_names=("a",), load=Preprocessing(size=8))
    assert arrays.check_files().transparent == ("1",)


def test_workers_are_a_positive_number_and_a_set_may_be_empty(tmp_path):
    part = files(tmp_path, PNG[:1])
    with pytest.raises(ValueError, match="Received workers=0, expected a whole number of at least 1"):
        part.check_files(0)
    assert part.take([]).check_files().problems == ()
