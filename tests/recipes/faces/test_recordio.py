"""Sets of faces from miniature records; a writer that follows dmlc-core is the oracle."""

import struct

import numpy as np
import pytest

from recipes.faces import casia, casia_webface, packed_faces
from tests.datasets.public.miniatures import jpeg

MAGIC = struct.pack("<I", 0xCED7230A)
# Three images of two people; the second holds the magic number twice, and no length is divisible by 4.
IMAGES = [jpeg(0) + b"\0", jpeg(1) + b"\0" * (-len(jpeg(1)) % 4) + MAGIC + MAGIC + b"abc", jpeg(2) + b"\0\0"]


def packed(payload):
    """A record, divided where it holds the magic number at a multiple of four bytes."""
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


def record(labels, image, key):
    if isinstance(labels, int):
        return struct.pack("<IfQQ", 0, labels, key, 0) + image
    return struct.pack("<IfQQ", len(labels), 0, key, 0) + struct.pack(f"<{len(labels)}f", *labels) + image


@pytest.fixture
def records(tmp_path, monkeypatch):
    """The images, then two records with the ranges of keys of the people; the third key is the magic number."""
    monkeypatch.setitem(casia.COUNTS, "records", (3, 2))
    payloads = [record([4.0, 6.0], b"", 0)]
    payloads += [record(*row) for row in zip((0, [0.0, 7.0], 1), IMAGES, (1, 2, 0xCED7230A), strict=True)]
    payloads += [record([1.0, 3.0], b"", 4), record([3.0, 4.0], b"", 5)]
    places = np.cumsum([0, *map(len, map(packed, payloads))])[:-1]
    (tmp_path / "train.rec").write_bytes(b"".join(map(packed, payloads)))
    lines = [f"{key}\t{place}" for key, place in enumerate(places)]
    (tmp_path / "train.idx").write_text("\n".join(lines[::-1]) + "\n")
    (tmp_path / "property").write_text("2,9,9\n")
    return tmp_path


def test_images_of_records_come_with_their_labels_and_without_other_records(records):
    found = casia_webface(records)
    assert found.labels.tolist() == [0, 0, 1]
    assert found.class_names == ("0", "1")
    assert found.protocol == "casia-webface/train-only/v1"
    assert [found.source[row] for row in range(3)] == IMAGES
    assert found.source.__getitems__([2, 0]) == [IMAGES[2], IMAGES[0]]


def test_a_packed_copy_has_any_number_of_images_and_no_protocol(records, monkeypatch):
    monkeypatch.undo()  # the counts of CASIA-WebFace
    copy = packed_faces(records)
    assert copy.labels.tolist() == [0, 0, 1]
    assert (copy.class_names, copy.protocol, copy.source[2]) == (("0", "1"), None, IMAGES[2])
    with pytest.raises(ValueError, match="3 images of 2 people, expected 490,623 of 10,572"):
        casia_webface(records)
    (records / "train.rec").unlink()
    with pytest.raises(ValueError, match=r"which has no train\.rec"):
        packed_faces(records)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("train.idx", "0\t0\n1\tx\n", r"the line \['1 x'\]"),
        ("train.idx", "0\t0\n1\t48\n", r"without the keys \[2"),
        ("train.idx", "0\t4\n", "at byte 4, expected a record"),
        ("train.idx", "0\t999999\n", "at byte 999,999, which ends early"),
        ("property", "1,9,9\n", r"labels \[1.\]"),
    ],
)
def test_damaged_files_are_errors(records, file, content, message):
    (records / file).write_text(content)
    with pytest.raises(ValueError, match=message):
        casia_webface(records)
