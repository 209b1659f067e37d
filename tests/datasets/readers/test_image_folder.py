"""Folders of image files."""

import inspect
import sys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tfdml.datasets import Preprocessing, folder


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
    for name in ("cat/.thumbs/t.png", ".hidden/h.png", "cat/@eaDir/2.png", "__MACOSX/a.png"):
        write_image(tmp_path / name, np.zeros((1, 1, 3), np.uint8))
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


def test_what_is_passed_over_is_listed_with_the_reason(root):
    (root / "cat" / "broken.png").symlink_to(root / "nowhere.png")
    (root / "bee" / "more").symlink_to(root / "ant")
    expected = {
        ".hidden": "hidden",
        "README": "suffix ''",
        "__MACOSX": "of a system or program",
        "bee/more": "a link to a folder",
        "cat/.thumbs": "hidden",
        "cat/@eaDir": "of a system or program",
        "cat/broken.png": "not a file",
        "cat/notes.txt": "suffix '.txt'",
    }
    assert folder(root).skipped == tuple((str(root / name), reason) for name, reason in sorted(expected.items()))


def test_image_files_that_are_not_read_are_counted_in_one_warning(root):
    for name in ("ant/a.TIFF", "ant/b.tiff", "ant/deep/c.tif", "bee/d.heic", "bee/.e.tiff", "f.avif"):
        (root / name).write_bytes(b"II*")
    with pytest.warns(UserWarning, match=r"not read: 1 \.avif, 1 \.heic, 1 \.tif, 3 \.tiff\. Expected \.bmp") as warned:
        files = folder(root)
    assert len(warned) == 1
    assert warned[0].filename == __file__
    assert len(files) == 4
    assert (str(root / "bee/d.heic"), "suffix '.heic'") in files.skipped


def test_every_kind_that_is_read_is_listed_and_loads_whatever_it_is_named(tmp_path):
    (tmp_path / "a").mkdir()
    pixels = np.full((6, 8, 3), (200, 100, 50), np.uint8)
    kinds = {"bmp": "BMP", "gif": "GIF", "jfif": "JPEG", "jpe": "JPEG", "jpeg": "JPEG", "jpg": "PNG", "png": "WEBP"}
    for suffix, kind in {**kinds, "webp": "WEBP", "WEBP": "JPEG"}.items():
        Image.fromarray(pixels).save(tmp_path / "a" / f"{kind}.{suffix}", kind)
    files = folder(tmp_path)
    assert len(files) == 9
    assert files.skipped == ()
    for path in files.paths:
        np.testing.assert_allclose(Preprocessing(size=(6, 8))(path).numpy().astype(int), pixels, atol=6)


def test_files_above_a_limit_are_refused(tmp_path):
    write_image(tmp_path / "a.png", np.zeros((6, 8, 3), np.uint8))
    size = (tmp_path / "a.png").stat().st_size
    path = str(tmp_path / "a.png")
    assert Preprocessing(size=4, max_bytes=size, max_pixels=48)(path).shape == (4, 4, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="8 x 6 pixels, expected at most 47"):
        Preprocessing(size=4, max_pixels=47)(path)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{size} bytes, expected at most {size - 1}"):
        Preprocessing(size=4, max_bytes=size - 1)(path)


def test_a_folder_without_subfolders_has_images_without_a_label(tmp_path):
    (tmp_path / "a.heic").touch()
    with pytest.raises(ValueError, match=r"has no image .* expected one subfolder of .* Convert its files .* 1 \.heic"):
        folder(tmp_path)
    (tmp_path / "a.heic").unlink()
    for name in ("B-7.png", "A-12.jpg", "B-7.jpg"):
        write_image(tmp_path / name, np.zeros((1, 1, 3), np.uint8))
    (tmp_path / "prices.csv").touch()
    (tmp_path / "@eaDir").mkdir()
    items = folder(tmp_path)
    assert items.class_names == ()
    assert items.paths.tolist() == [str(tmp_path / name) for name in ("A-12.jpg", "B-7.jpg", "B-7.png")]
    assert items.labels.tolist() == [-1, -1, -1]
    assert [reason for _, reason in items.skipped] == ["of a system or program", "suffix '.csv'"]


def test_one_class_has_one_spelling(tmp_path):
    for number, name in enumerate(("caf\u00e9", "cafe\u0301", "caf\u00e9\u00a0", "tea")):
        write_image(tmp_path / "train" / name / f"{number}.png", np.zeros((1, 1, 3), np.uint8))
    write_image(tmp_path / "test" / "cafe\u0301" / "4.png", np.zeros((1, 1, 3), np.uint8))
    train, test = folder(tmp_path, splits=("train", "test"))
    assert train.class_names == test.class_names == ("caf\u00e9", "tea")
    assert (sorted(train.labels.tolist()), test.labels.tolist()) == ([0, 0, 0, 1], [0])


def test_classes_that_differ_in_case_only_are_named_in_one_warning(tmp_path):
    for name in ("China", "china", "A", "a"):  # single letters may be the classes of a script
        write_image(tmp_path / name / "1.png", np.zeros((1, 1, 3), np.uint8))
    with pytest.warns(UserWarning, match="the classes 'China' and 'china', which differ in upper and lower") as warned:
        assert len(folder(tmp_path).class_names) == 4
    assert len(warned) == 1
    assert warned[0].filename == __file__


def test_a_folder_of_splits_is_no_folder_of_classes(split_root):
    with pytest.raises(ValueError, match=r"subfolders test, train are splits .* Pass splits=\('test', 'train'\)"):
        folder(split_root)
    assert len(folder(split_root / "train")) == 2


def test_images_beside_the_class_folders_have_no_label_and_come_last(root):
    write_image(root / "a.png", np.zeros((1, 1, 3), np.uint8))
    files = folder(root)
    assert files.paths[-1] == str(root / "a.png")
    assert (files.class_names, files.labels.tolist()) == (("ant", "bee", "cat"), [0, 1, 2, 2, -1])


def test_folders_that_are_named_have_images_without_a_label(root):
    files = folder(root, no_label="bee")
    assert (files.class_names, files.labels.tolist()) == (("ant", "cat"), [0, -1, 1, 1])
    assert folder(root, no_label=("bee", "ant")).labels.tolist() == [-1, -1, 0, 0]
    with pytest.raises(ValueError, match="no_label='dog', which no class is called, expected some of 'ant', 'bee'"):
        folder(root, no_label="dog")


def test_folders_without_images_are_left_out_and_named(root):
    (root / "dog").mkdir()
    (root / "eel").mkdir()
    (root / "eel" / "eel.tiff").write_bytes(b"")
    with pytest.warns(UserWarning, match=r"2 folders without images, first .*dog|1 \.tiff") as warned:
        files = folder(root)
    assert len(warned) == 2
    assert files.class_names == ("ant", "bee", "cat")
    assert {(str(root / name), "a folder without images") for name in ("dog", "eel")} <= set(files.skipped)


@pytest.fixture
def split_root(tmp_path):
    for name in ("train/cat/1.png", "train/ant/2.png", "test/cat/3.png", "test/dog/4.png", "seen/eel/5.png"):
        write_image(tmp_path / name, np.full((6, 8, 3), 100, np.uint8))
    (tmp_path / "README").write_text("about")
    (tmp_path / "test" / "dog" / "notes.txt").write_text("no image")
    return tmp_path


def test_splits_come_in_the_order_given_and_share_the_names_of_common_classes(split_root):
    test, train = folder(split_root, splits=("test", "train"))
    assert train.class_names == test.class_names == ("ant", "cat", "dog")
    assert train.paths.tolist() == [str(split_root / name) for name in ("train/ant/2.png", "train/cat/1.png")]
    assert (train.labels.tolist(), test.labels.tolist()) == ([0, 1], [1, 2])
    assert np.asarray(test.examples()).shape == (2, 224, 224, 3)


def test_splits_without_a_common_class_have_their_own_names(split_root):
    train, seen = folder(split_root, splits=["train", "seen"])
    assert (train.class_names, seen.class_names) == (("ant", "cat"), ("eel",))


def test_what_is_outside_the_splits_is_listed_in_every_part(split_root):
    outside = {(str(split_root / name), "outside the splits") for name in ("README", "seen")}
    train, test = folder(split_root, splits=("train", "test"))
    assert set(train.skipped) == outside
    assert set(test.skipped) == outside | {(str(split_root / "test/dog/notes.txt"), "suffix '.txt'")}


def test_images_in_unread_formats_are_counted_over_all_splits(split_root):
    for name in ("train/cat/a.heic", "test/cat/b.heic"):
        (split_root / name).write_bytes(b"")
    with pytest.warns(UserWarning, match=r"not read: 2 \.heic") as warned:
        folder(split_root, splits=("train", "test"))
    assert warned[0].filename == __file__


@pytest.mark.parametrize("splits", ["train", (), ("train", "train"), (1, 2)])
def test_splits_that_are_not_different_names_are_refused(split_root, splits):
    with pytest.raises(ValueError, match=r"Received splits=.*, expected different names, such as"):
        folder(split_root, splits=splits)


def test_a_missing_folder_or_split_is_named(split_root):
    with pytest.raises(ValueError, match=r"missing', which is not a folder"):
        folder(split_root / "missing")
    with pytest.raises(ValueError, match=r"validation', which is not a folder"):
        folder(split_root, splits=("train", "validation"))


@pytest.fixture
def deep_root(tmp_path):
    """A class whose middle file lies 400 folders deep, and 300 more calls than now are possible."""
    folders = [tmp_path / "ant" / "/".join("d" * depth) for depth in range(401)]
    for each in folders:
        each.mkdir(parents=each == folders[0])
    files = [tmp_path / "ant" / "c.png", folders[-1] / "last.png", tmp_path / "ant" / "e.png"]
    for file in files:
        file.write_bytes(b"")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 300)
    yield tmp_path, files
    sys.setrecursionlimit(limit)
    files[1].unlink()
    for each in folders[:0:-1]:
        each.rmdir()


def test_a_tree_that_is_deeper_than_the_stack_is_read_in_order(deep_root):
    root, files = deep_root
    assert folder(root).paths.tolist() == list(map(str, files))


LATIN_1 = "caf\udce9"  # as Python reads the name of a file in Latin-1


def test_names_that_are_not_utf8_are_listed_and_counted_in_one_warning(root):
    reason = "a name that is not UTF-8"
    for name in (f"cat/{LATIN_1}.png", f"{LATIN_1}/1.png", f"ant/{LATIN_1}/2.png"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"")
    with pytest.warns(UserWarning, match=r"3 files or folders whose names are not UTF-8, first .*caf.udce9") as warned:
        photos = folder(root)
    assert warned[0].filename == __file__
    assert photos.class_names == ("ant", "bee", "cat")
    assert len(photos) == 4
    listed = [str(root / name) for name in (r"caf\udce9", r"ant/caf\udce9", r"cat/caf\udce9.png")]
    assert [name for name, why in photos.skipped if why == reason] == listed
    assert photos.describe().skipped[reason] == 3
    str(photos.describe()).encode()
    assert not photos.take([0]).check_files().problems
    photos.fingerprint()


def test_a_folder_below_a_name_that_is_not_utf8_is_an_error(root):
    (root / LATIN_1 / "class").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"Received a path with '.*caf.udce9', expected names in UTF-8\. Rename it"):
        folder(root / LATIN_1)
