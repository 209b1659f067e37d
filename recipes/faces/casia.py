"""CASIA-WebFace from folders of people or from RecordIO files, and cleaned or packed copies of other sets of faces."""

import os
import pathlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import tfdml
from recipes.checks import require
from recipes.faces.recordio import RecordImages, read_first_labels, read_offsets, read_records

# Images and identities.
COUNTS = {"folders": (494_414, 10_575), "records": (490_623, 10_572)}

_TREE = """
CASIA-WebFace/
    0000045/001.jpg  0000045/002.jpg ...  0000099/001.jpg ...
or
    train.rec  train.idx  property"""


def casia_webface(root: str | os.PathLike[str], *, load: Callable[..., Any] | None = None) -> tfdml.datasets.LabeledSet:
    """CASIA-WebFace: 494,414 images of 10,575 people, all for training.

    Two forms are read: one folder of images per person, and the packed form of face recognition libraries (`train.rec`,
    `train.idx`, `property`) with 490,623 aligned images of 112 x 112 pixels of 10,572 people. Of the latter, only the
    labels are read at once, in about a minute; images stay compressed until `load` decodes them. Some people are also
    in Labeled Faces in the Wild, and some labels are wrong.

    Args:
        root: the folder of the people, or of the three packed files.
        load: `Preprocessing`, or a function from a path, in the packed form from the content of an image file, to an
            example; `Preprocessing(size=224)` by default.

    Returns:
        `LabeledSet` of paths, or of a source. Class names are the folders, or the numbers of the packed form.

    Source: Yi, Lei, Liao, Li, Learning Face Representation from Scratch, 2014. For research, by an agreement.
    """
    path = pathlib.Path(root)
    form = "records" if (path / "train.rec").exists() else "folders"
    is_there = form == "records" or (path.is_dir() and any(entry.is_dir() for entry in path.iterdir()))
    require(is_there, f"root={os.fspath(root)!r}, which is not a folder of folders", f"these files:{_TREE}\n")
    faces = packed_faces(path, load=load) if form == "records" else tfdml.datasets.folder(path, load=load)
    found, expected = (len(faces), len(np.unique(faces.labels))), COUNTS[form]
    require(found == expected, "{:,} images of {:,} people".format(*found), "{:,} of {:,}".format(*expected))
    return replace(faces, protocol="casia-webface/train-only/v1")


def packed_faces(root: str | os.PathLike[str], *, load: Callable[..., Any] | None = None) -> tfdml.datasets.LabeledSet:
    """A copy of any set of faces in packed form, such as a cleaned one: `train.rec`, `train.idx` and `property`.

    The number of images is not checked, and the set has no protocol: say which copy you have trained on. A copy in
    folders of people is `tfdml.datasets.folder(root)`. Arguments and form are those of `casia_webface`.
    """
    path = pathlib.Path(root)
    for name in ("train.rec", "train.idx", "property"):
        require((path / name).is_file(), f"root={str(path)!r}, which has no {name}", f"these files:{_TREE}\n")
    record = str(path / "train.rec")
    offsets = _image_offsets(record, read_offsets(path / "train.idx"))
    labels = read_first_labels(record, offsets)
    number = int((path / "property").read_text().split(",")[0])  # of classes; height and width follow
    is_class = (labels == labels.astype(np.int64)) & (labels >= 0) & (labels < number)
    require(is_class.all(), f"labels {labels[~is_class][:3]} in {record!r}", f"0 to {number - 1}, as in property")
    load = tfdml.datasets.Preprocessing(size=224) if load is None else load
    return tfdml.datasets.LabeledSet(
        source=RecordImages(record, offsets),
        labels=labels.astype(np.int64),
        class_names=tuple(map(str, range(number))),
        load=getattr(load, "from_bytes", load),
    )


def _image_offsets(record, offsets):
    """Offsets of the images, keys 1 to n: key 0 says that n + 1 comes after them, where the ranges of people begin."""
    require(0 in offsets, f"train.idx without key 0 beside {record!r}", "a record that says how many images there are")
    ((labels, image),) = read_records(record, np.array([offsets[0]]))
    require(not image and len(labels) == 2, f"an image under key 0 of {record!r}", "the number of images there")
    keys = range(1, min(int(labels[0]), len(offsets) + 1))
    missing = [key for key in keys if key not in offsets]
    require(not missing, f"train.idx without the keys {missing[:3]} of {len(keys):,} images", "all of them")
    return np.array([offsets[key] for key in keys], np.int64)
