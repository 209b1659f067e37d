"""Sets of faces from miniature copies in their original formats."""

import struct

import numpy as np
import pytest
import tensorflow as tf

from tests.datasets.public.miniatures import LFW_FILES, PAIRS, PEOPLE, write_files, write_lfw
from tfdml.datasets import Preprocessing
from tfdml.datasets.public import casia_webface, lfw
from tfdml.datasets.public import faces as benchmarks


def jpeg(level):
    return tf.io.encode_jpeg(np.full((9, 9, 3), level, "uint8")).numpy()


@pytest.fixture
def faces(tmp_path, monkeypatch):
    counts, lists = write_lfw(tmp_path)
    monkeypatch.setattr(benchmarks, "COUNTS", benchmarks.COUNTS | counts)
    monkeypatch.setattr(benchmarks, "LISTS", benchmarks.LISTS | lists)
    return tmp_path


def test_people_become_classes_and_their_sets_groups(faces):
    found, _ = lfw(faces)
    assert found.paths.tolist() == [str(faces / file) for file in LFW_FILES]
    assert found.class_names == ("Ann_Bell", "Bob_Cole", "Zed")
    assert found.labels.tolist() == [0, 0, 0, 2, 1, 1]
    assert found.groups.tolist() == [0, 0, 0, 0, 1, 1]
    assert found.protocol == "lfw/view2/10-fold/v1"


def test_pairs_are_rows_of_the_faces_in_the_order_of_the_list(faces):
    found, pairs = lfw(faces)
    stems = [path.rpartition("/")[2][:-4] for path in found.paths.tolist()]
    named = [(stems[a], stems[b]) for a, b in zip(pairs.first, pairs.second, strict=True)]
    assert named == [
        ("Ann_Bell_0001", "Ann_Bell_0003"),
        ("Ann_Bell_0002", "Zed_0001"),
        ("Bob_Cole_0001", "Bob_Cole_0002"),
        ("Bob_Cole_0002", "Zed_0001"),
    ]
    assert (found.labels[pairs.first] == found.labels[pairs.second]).tolist() == pairs.same.tolist()
    assert pairs.folds.tolist() == [0, 0, 1, 1]
    assert pairs.names[pairs.first[0]] == "Ann_Bell/Ann_Bell_0001.jpg"


def test_lists_of_view_1_and_aligned_images_are_read_by_name(faces, monkeypatch):
    monkeypatch.setitem(benchmarks.LISTS, "pairsDevTest.txt", (2, "lfw/view1/test/v1"))
    (faces / "pairsDevTest.txt").write_text("1\nAnn_Bell\t1\t2\nAnn_Bell\t1\tZed\t1\n")
    (faces / "lfw").rename(faces / "lfw_funneled")
    found, pairs = lfw(faces, images="lfw_funneled", pairs="pairsDevTest.txt")
    assert "lfw_funneled" in found.paths[0]
    assert pairs.folds is None
    assert found.protocol == "lfw/view1/test/v1"
    with pytest.raises(ValueError, match=r"Received pairs='dev.txt', expected one of"):
        lfw(faces, pairs="dev.txt")


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("people.txt", "2\n2\n", "3\n2\n", r"'the end' in people.txt .* expected a number of sets or of people"),
        ("people.txt", "2\n2\n", "1\n2\n", "with 6 lines, expected 4 by the sizes of its sets"),
        ("people.txt", "Zed\t1\n", "", "'1' in people.txt .* expected a name and a number of images"),
        ("people.txt", "Zed\t1", "Zed\t0", "'Zed 0' in people.txt .* expected a name and a number of images"),
        ("people.txt", "Zed\t1", "Zed", "'Zed' in people.txt .* expected a name and a number of images"),
        ("people.txt", "Zed\t1", "Zed\t2", "7 images of 3 classes in lfw, expected 6 of 3"),
        ("people.txt", PEOPLE, "", "'the end' in people.txt"),
        ("pairs.txt", "Zed\t1\nBob", "Zed\t2\nBob", r"a pair with \['Zed/Zed_0002.jpg'\], expected images of people"),
        ("pairs.txt", "2\t1\n", "4\t1\n" + PAIRS[4:], "a list of 8 pairs, expected 4. It is of another set"),
    ],
)
def test_damaged_lists_of_lfw_are_errors(faces, file, old, new, message):
    text = (faces / file).read_text()
    assert old in text
    (faces / file).write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        lfw(faces)


def test_missing_files_of_lfw_show_the_tree(faces):
    (faces / LFW_FILES[0]).unlink()
    with pytest.raises(ValueError, match=r"without lfw/Ann_Bell/Ann_Bell_0001.jpg \(1 of 6 (.|\n)*people.txt"):
        lfw(faces)
    (faces / "pairs.txt").unlink()
    with pytest.raises(ValueError, match=r"has no pairs.txt. Expected these files:\nLFW/"):
        lfw(faces)


def test_a_pickle_is_refused_and_never_opened(tmp_path):
    (tmp_path / "lfw.bin").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    for root in (tmp_path, tmp_path / "lfw.bin"):
        with pytest.raises(ValueError, match=r"lfw.bin, a pickle, which can run any program(.|\n)*people.txt"):
            lfw(root)


def test_folders_of_people_keep_their_numbers_with_gaps(tmp_path, monkeypatch):
    write_files(tmp_path, ["0000045/001.jpg", "0000045/003.jpg", "0000099/001.jpg"])
    monkeypatch.setitem(benchmarks.COUNTS, "casia-webface", (3, 2))
    found = casia_webface(tmp_path)
    assert found.class_names == ("0000045", "0000099")
    assert found.labels.tolist() == [0, 0, 1]
    assert found.protocol == "casia-webface/train-only/v1"
    write_files(tmp_path, ["0000099/002.jpg"])
    with pytest.raises(ValueError, match="4 images of 2 classes in casia-webface, expected 3 of 2"):
        casia_webface(tmp_path)


# Packed files, by a writer that follows dmlc-core: a record is divided where it holds the magic number at a multiple
# of four bytes.

MAGIC = struct.pack("<I", 0xCED7230A)


def packed(payload):
    parts, start = [], 0
    for i in range(0, len(payload) // 4 * 4, 4):
        if payload[i : i + 4] == MAGIC:
            parts.append(payload[start:i])
            start = i + 4
    parts.append(payload[start:])
    kinds = [0] if len(parts) == 1 else [1, *[2] * (len(parts) - 2), 3]
    return b"".join(
        MAGIC + struct.pack("<I", kind << 29 | len(part)) + part + b"\0" * (-len(part) % 4)
        for kind, part in zip(kinds, parts, strict=True)
    )


def image_record(labels, image, key):
    if isinstance(labels, int):
        return struct.pack("<IfQQ", 0, labels, key, 0) + image
    return struct.pack("<IfQQ", len(labels), 0, key, 0) + struct.pack(f"<{len(labels)}f", *labels) + image


def aligned(content):
    """Content filled up to a multiple of four bytes."""
    return content + b"\0" * (-len(content) % 4)


# Three images of two people, then two records with the range of keys of each person; lengths not divisible by 4.
IMAGES = [jpeg(40) + b"\0", aligned(jpeg(80)) + MAGIC + MAGIC + b"abc", jpeg(120)]


def write_records(root, images=IMAGES, labels=(0, [0.0, 7.0], 1), first=None):
    number = len(images)
    records = [image_record([number + 1.0, number + 3.0], b"", 0)] if first is None else [first]
    records += [
        image_record(label, image, key) for key, (label, image) in enumerate(zip(labels, images, strict=True), 1)
    ]
    records += [image_record([1.0, 3.0], b"", number + 1), image_record([3.0, 4.0], b"", number + 2)]
    content, lines = b"", []
    for key, record in enumerate(records):
        lines.append(f"{key}\t{len(content)}")
        content += packed(record)
    (root / "train.rec").write_bytes(content)
    (root / "train.idx").write_text("\n".join(lines[::-1]) + "\n")
    (root / "property").write_text("2,9,9\n")


@pytest.fixture
def records(tmp_path, monkeypatch):
    write_records(tmp_path)
    monkeypatch.setitem(benchmarks.COUNTS, "casia-webface as records", (3, 2))
    return tmp_path


def test_images_of_records_come_with_their_labels_and_without_other_records(records):
    found = casia_webface(records)
    assert found.labels.tolist() == [0, 0, 1]
    assert found.class_names == ("0", "1")
    assert found.protocol == "casia-webface/train-only/v1"
    assert [found.source[row] for row in range(3)] == IMAGES
    assert found.source.__getitems__([2, 0]) == [IMAGES[2], IMAGES[0]]


def test_the_magic_number_inside_an_image_divides_its_record(records):
    # The flag of the second record is 2, so the magic numbers are at multiples of four bytes of the record.
    assert (24 + 8 + IMAGES[1].index(MAGIC)) % 4 == 0
    assert (records / "train.rec").read_bytes().count(MAGIC) == 6 + 2


@pytest.mark.slow
def test_records_are_decoded_when_they_are_read(records):
    found = casia_webface(records, load=Preprocessing(size=4))
    images, labels = next(iter(found.batches(3)))
    assert images.shape == (3, 4, 4, 3)
    np.testing.assert_allclose(images[:, 0, 0, 0], [40, 80, 120], atol=2)
    assert labels.numpy().tolist() == [0, 0, 1]


def test_a_divided_header_is_read_as_a_whole_record(tmp_path, monkeypatch):
    # A key that is the magic number divides the header.
    write_records(tmp_path)
    monkeypatch.setitem(benchmarks.COUNTS, "casia-webface as records", (1, 1))
    header = struct.pack("<IfQQ", 0, 1.0, 0xCED7230A, 0)
    content = [packed(image_record([2.0, 4.0], b"", 0)), packed(header + IMAGES[0])]
    (tmp_path / "train.rec").write_bytes(b"".join(content))
    (tmp_path / "train.idx").write_text(f"0\t0\n1\t{len(content[0])}\n")
    found = casia_webface(tmp_path)
    assert found.labels.tolist() == [1]
    assert found.source[0] == IMAGES[0]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("train.idx", "0\t0\n1\tx\n", r"the line \['1 x'\] in .*train.idx', expected a key and a byte offset"),
        ("train.idx", "0\t0\n0\t0\n", "with a key on two lines"),
        ("train.idx", "1\t0\n", "train.idx without key 0"),
        ("train.idx", "0\t0\n1\t48\n", r"without the keys \[2, 3\] of 3 images"),
        ("train.idx", "0\t4\n", "train.rec' at byte 4, expected a record"),
        ("train.idx", "0\t999999\n", "at byte 999,999, which ends early"),
        ("property", "two,9,9\n", "'two,9,9' in .*property', expected classes,height,width"),
        ("property", "1000000000000,1,1\n", "1,000,000,000,000 classes in .*property'"),
        ("property", "", "'' in .*property'"),
        ("property", "1,9,9\n", r"labels \[1.\] in .*train.rec', expected 0 to 0"),
    ],
)
def test_damaged_packed_files_are_errors(records, file, content, message):
    (records / file).write_text(content)
    with pytest.raises(ValueError, match=message):
        casia_webface(records)


def test_a_packed_file_without_its_index_shows_the_tree(records):
    (records / "train.idx").unlink()
    with pytest.raises(ValueError, match=r"has no train.idx, expected these files:\nCASIA-WebFace/"):
        casia_webface(records)


def test_a_first_record_with_an_image_and_a_cut_file_are_errors(records):
    write_records(records, first=image_record([4.0, 6.0], b"image", 0))
    with pytest.raises(ValueError, match="an image under key 0"):
        casia_webface(records)
    write_records(records)
    content = (records / "train.rec").read_bytes()
    (records / "train.rec").write_bytes(content[: int((records / "train.idx").read_text().split()[5]) + 40])
    with pytest.raises(ValueError, match="which ends early, expected a whole record"):
        casia_webface(records).source[2]
