"""Archives: their records in order, classes, and what is broken."""

import re
import tarfile
import tracemalloc

import numpy as np
import pyarrow
import pytest
import tensorflow as tf
from pyarrow import parquet

from tfdml.datasets import Preprocessing, archives


def view(content):
    """In place of a Preprocessing, which takes seconds to trace."""
    return tf.io.decode_png(content, channels=3)


def png(value):
    return tf.io.encode_png(np.full((4, 4, 3), value, np.uint8)).numpy()


def write_tar(path, members):
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            (path.parent / "member").write_bytes(content)
            archive.add(path.parent / "member", name)
    return path


def write_tfrecord(path, images, **classes):
    with tf.io.TFRecordWriter(str(path)) as file:
        for row, image in enumerate(images):
            features = {"image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image]))}
            for name, values in classes.items():
                features[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=[values[row]]))
            file.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    return path


def values(images):
    return images.examples()[:, 0, 0, 0].tolist()


def test_a_tar_file_has_its_images_and_their_classes(tmp_path):
    members = {"a/0.png": png(0), "a/0.cls": b"cat\n", "a/0.json": b"{}", "a/1.x.PNG": png(1), "a/1.cls": b"dog"}
    path = write_tar(tmp_path / "a.tar", members)
    images = archives(path, load=Preprocessing(size=4))
    assert values(images) == [0, 1]
    assert images.names.tolist() == [f"{path}/a/0.png", f"{path}/a/1.x.PNG"]
    assert [images.class_names[label] for label in images.labels] == ["cat", "dog"]


def test_several_archives_follow_each_other_and_are_read_at_random(tmp_path):
    tar = write_tar(tmp_path / "a.tar", {f"{i}.png": png(i) for i in range(5)})
    record = write_tfrecord(tmp_path / "b.tfrecord-00000-of-00001", [png(i) for i in range(10, 14)])
    table = pyarrow.table({"image": [png(i) for i in range(20, 26)]})
    parquet.write_table(table, tmp_path / "c.parquet", row_group_size=4)
    images = archives([tar, record, tmp_path / "c.parquet"], load=view)
    assert values(images) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 20, 21, 22, 23, 24, 25]
    assert images.class_names == ("unlabeled",)
    some = images.take([14, 0, 6, 13, 5])
    assert values(some) == [25, 0, 11, 24, 10]
    assert some.names[2] == f"{record}/1"


def test_classes_of_records_and_of_tables(tmp_path):
    record = write_tfrecord(tmp_path / "a.tfrecord", [png(0), png(1)], label=[7, 5])
    cells = [{"bytes": png(2), "path": None}, {"bytes": png(3), "path": None}]
    parquet.write_table(pyarrow.table({"picture": cells, "label": ["5", "9"]}), tmp_path / "b.parquet")
    images = archives(record, label="label")
    assert [images.class_names[label] for label in images.labels] == ["7", "5"]
    images = archives(tmp_path / "b.parquet", image="picture", label="label", load=view)
    assert values(images) == [2, 3]
    assert [images.class_names[label] for label in images.labels] == ["5", "9"]


def test_an_archive_that_ends_early_keeps_its_whole_records(tmp_path):
    record = write_tfrecord(tmp_path / "a.tfrecord", [png(0), png(1), png(2)])
    record.write_bytes(record.read_bytes()[:-30])
    tar = write_tar(tmp_path / "b.tar", {f"{i}.png": png(i) for i in range(3)})
    tar.write_bytes(tar.read_bytes()[: 2 * 1024 + 700])
    images = archives([record, tar], load=view)
    assert images.names.tolist()[:2] == [f"{record}/0", f"{record}/1"]
    assert images.skipped[0] == (str(record), "ends within record 2, or is no TFRecord file")
    rows = {int(row) for _, rows in images.loadable(2) for row in rows}
    assert {0, 1, 2} <= rows


def test_one_broken_record_is_one_broken_row(tmp_path):
    path = write_tfrecord(tmp_path / "a.tfrecord", [png(0), b"", png(2)])
    with tf.io.TFRecordWriter(str(tmp_path / "b.tfrecord")) as file:
        file.write(
            tf.train.Example.FromString(next(iter(tf.data.TFRecordDataset(str(path)))).numpy()).SerializeToString()
        )
        file.write(b"no example")
    images = archives([path, tmp_path / "b.tfrecord"], load=view)
    assert [row for row, _, _ in images.unreadable_files()] == [1, 4]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.zip", b"", "expected a .tar, .tfrecord or .parquet file"),
        ("a.tar", b"nothing", "which cannot be read"),
        ("a.parquet", b"nothing", "Parquet"),
        ("a.tfrecord", b"", "1 archives without an image"),
    ],
)
def test_other_files_are_errors(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(message)):
        archives(tmp_path / name)


def test_missing_files_features_and_columns_are_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="which does not exist"):
        archives(tmp_path / "a.tar")
    record = write_tfrecord(tmp_path / "a.tfrecord", [png(0)])
    with pytest.raises(ValueError, match="a record without the feature 'image', expected one of image/encoded"):
        archives(record, image="image")
    parquet.write_table(pyarrow.table({"other": [b""]}), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=re.escape("without the column ['image'], expected one of other")):
        archives(tmp_path / "b.parquet")


def tar_header(name, size, kind=b"0"):
    """The 512 bytes before a member, whatever its size is in truth."""
    fields = [name.encode().ljust(100, b"\0"), b"0000644\0", b"0000000\0" * 2, b"%011o\0" % size, b"00000000000\0"]
    head = b"".join(fields) + b" " * 8 + kind + b"\0" * 100 + b"ustar\x0000" + b"\0" * 247
    return head[:148] + b"%06o\0 " % sum(head) + head[156:]


def in_blocks(content):
    return content + bytes(-len(content) % 512)


LONG = b"a" * 10**6 + b".png"
HOLES = b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n32 GNU.sparse.name=sparse.png\n30 GNU.sparse.realsize=9999\n"
HOSTILE = {
    "a sparse member": tar_header("x", len(HOLES), b"x")
    + in_blocks(HOLES)
    + tar_header("b.png", 10**6)
    + b"9\n" * 5 * 10**5,
    "a name of a million characters": tar_header("x", len(LONG), b"L") + in_blocks(LONG) + tar_header("a", 0),
    "a class of a million bytes": tar_header("0.cls", 10**6) + bytes(10**6),
    "a size above that of the archive": tar_header("b.png", 2**32) + b"cut",
    "a header of 8 GiB": tar_header("x", 2**32, b"L") + in_blocks(LONG),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_member_ends_its_archive_in_little_memory(case, tmp_path):
    content = png(7)
    good = tar_header("0.png", len(content)) + in_blocks(content)
    (tmp_path / "a.tar").write_bytes(good + HOSTILE[case] + bytes(1024))
    tracemalloc.start()
    images = archives(tmp_path / "a.tar", load=view)
    assert tracemalloc.get_traced_memory()[1] < 12 * 2**20
    tracemalloc.stop()
    assert values(images) == [7]
    assert images.skipped[0][1].startswith("ends after 0.png: ")


def test_classes_of_archives_have_one_spelling(tmp_path):
    members = {"0.png": png(0), "0.cls": "caf\u00e9".encode(), "1.png": png(1), "1.cls": " cafe\u0301\n".encode()}
    assert archives(write_tar(tmp_path / "a.tar", members), load=view).class_names == ("caf\u00e9",)
