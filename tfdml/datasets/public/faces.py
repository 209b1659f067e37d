"""Faces: CASIA-WebFace for training and Labeled Faces in the Wild for testing, from their original files."""

import os
import pathlib
from dataclasses import replace

import numpy as np

from tfdml._core.checks import require, require_one_of
from tfdml.datasets.images.preprocessing import Preprocessing
from tfdml.datasets.labeled_set import LabeledSet
from tfdml.datasets.public.files import Loader, existing_paths, read_lists, require_counts
from tfdml.datasets.public.record_io import RecordImages, read_first_labels, read_offsets, read_records
from tfdml.datasets.readers.image_folder import folder
from tfdml.datasets.readers.pair_lists import PairList, lfw_pairs
from tfdml.datasets.text import is_whole, read_lines

# Images and identities.
COUNTS = {
    "lfw": (13_233, 5_749),
    "casia-webface": (494_414, 10_575),
    "casia-webface as records": (490_623, 10_572),
}
# Pairs and protocol of each list of LFW.
LISTS = {
    "pairs.txt": (6_000, "lfw/view2/10-fold/v1"),
    "pairsDevTrain.txt": (2_200, "lfw/view1/train/v1"),
    "pairsDevTest.txt": (1_000, "lfw/view1/test/v1"),
}

_LFW_TREE = """
LFW/
    people.txt  pairs.txt (pairsDevTrain.txt  pairsDevTest.txt)
    lfw/George_W_Bush/George_W_Bush_0010.jpg ..."""
_CASIA_TREE = """
CASIA-WebFace/
    0000045/001.jpg  0000045/002.jpg ...  0000099/001.jpg ...
or
    train.rec  train.idx  property"""


def lfw(
    root: str | os.PathLike[str], *, images: str = "lfw", pairs: str = "pairs.txt", load: Loader | None = None
) -> tuple[LabeledSet, PairList]:
    """Labeled Faces in the Wild: 13,233 images of 5,749 people, and pairs of them.

        faces, pairs = tfdml.datasets.public.lfw("LFW")
        x = tfdml.models.embed(model, faces)
        scores = tfdml.metrics.pair_scores(x[pairs.first], x[pairs.second])
        tfdml.metrics.verification(scores, pairs.same, folds=pairs.folds)

    Numbers are reported on View 2, the 6,000 pairs of `pairs.txt` in ten folds without a common person. Models are
    chosen on View 1, the 2,200 pairs of `pairsDevTrain.txt` and the 1,000 of `pairsDevTest.txt`.

    Args:
        root: the folder with the lists and the folder of the images.
        images: name of the folder of the images, such as "lfw", "lfw_funneled" or "lfw-deepfunneled". A packed file
            such as `lfw.bin`, a pickle, is never opened.
        pairs: the list: "pairs.txt", "pairsDevTrain.txt" or "pairsDevTest.txt".
        load: function from a path to an example; `Preprocessing(size=224)` by default.

    Returns:
        `(faces, pairs)`. The faces are in the order of `people.txt`, and their `groups` are its ten sets, from 0.
        `first` and `second` of the pairs are rows of the faces.

    Source: Huang, Ramesh, Berg, Learned-Miller, Labeled Faces in the Wild, technical report 07-49, University of
    Massachusetts, 2007. For research.
    """
    require_one_of(tuple(LISTS), pairs=pairs)
    _require_no_pickle(root)
    read_lists(root, _LFW_TREE, pairs)
    people = _people(root)
    counts = [count for *_, count in people]
    require_counts("lfw", (sum(counts), len(people)), COUNTS["lfw"])
    names = [f"{person}/{person}_{number:04}.jpg" for _, person, count in people for number in range(1, count + 1)]
    order = np.argsort(np.array([person for _, person, _ in people]))
    number_pairs, protocol = LISTS[pairs]
    faces = LabeledSet(
        paths=existing_paths(root, _LFW_TREE, [f"{images}/{name}" for name in names]),
        labels=np.repeat(np.argsort(order), counts),
        class_names=tuple(people[row][1] for row in order.tolist()),
        groups=np.repeat([number for number, _, _ in people], counts),
        load=load or Preprocessing(size=224),
        protocol=protocol,
    )
    return faces, _rows_of_pairs(lfw_pairs(pathlib.Path(root, pairs)), np.array(names), number_pairs)


def casia_webface(root: str | os.PathLike[str], *, load: Loader | None = None) -> LabeledSet:
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
    if (path / "train.rec").exists():
        faces, name = _packed(path, load), "casia-webface as records"
    else:
        has_folders = path.is_dir() and any(entry.is_dir() for entry in path.iterdir())
        received = f"root={os.fspath(root)!r}, which is not a folder of folders"
        require(has_folders, received, f"these files:{_CASIA_TREE}\n")
        faces, name = folder(path, load=load), "casia-webface"
    require_counts(name, (len(faces), len(np.unique(faces.labels))), COUNTS[name])
    return replace(faces, protocol="casia-webface/train-only/v1")


def _require_no_pickle(root):
    path = pathlib.Path(root)
    packed = path if path.suffix in (".bin", ".pkl", ".pickle") else path / "lfw.bin"
    is_original = (path / "people.txt").is_file()
    require(
        is_original or not packed.is_file(),
        f"root={os.fspath(root)!r} with {packed.name}, a pickle, which can run any program when it is opened",
        f"the original files, which hold the same pairs:{_LFW_TREE}\n",
    )


def _people(root):
    """`(set, name, number of images)` of each person in people.txt: the number of sets, then each set with its size."""
    (lines,) = read_lists(root, _LFW_TREE, "people.txt")
    rows = [line.split() for line in lines if line.strip()]
    people, position = [], 1
    for number in range(_count(root, rows[:1])):
        start, position = position + 1, position + 1 + _count(root, rows[position : position + 1])
        for row in rows[start:position]:
            is_person = len(row) == 2 and is_whole(row[1]) and int(row[1]) > 0
            received = f"{' '.join(row)!r} in people.txt of {os.fspath(root)!r}"
            require(is_person, received, "a name and a number of images")
            people.append((number, row[0], int(row[1])))
    expected = f"{position} by the sizes of its sets. The list is incomplete"
    require(position == len(rows), f"people.txt of {os.fspath(root)!r} with {len(rows)} lines", expected)
    return people


def _count(root, rows):
    is_count = len(rows) == 1 and len(rows[0]) == 1 and is_whole(rows[0][0])
    received = f"{' '.join(rows[0]) if rows else 'the end'!r} in people.txt of {os.fspath(root)!r}"
    require(is_count, received, "a number of sets or of people")
    return int(rows[0][0])


def _rows_of_pairs(pairs, names, expected):
    """The same pairs, with rows of the set in place of names."""
    require(len(pairs) == expected, f"a list of {len(pairs):,} pairs", f"{expected:,}. It is of another set")
    unknown = np.setdiff1d(pairs.names, names)
    require(not len(unknown), f"a pair with {unknown[:1]}", "images of people.txt. The lists are of different sets")
    order = np.argsort(names)
    rows = order[np.searchsorted(names, pairs.names, sorter=order)]
    return replace(pairs, names=names, first=rows[pairs.first], second=rows[pairs.second])


def _packed(path, load):
    for name in ("train.idx", "property"):
        require((path / name).is_file(), f"root={str(path)!r}, which has no {name}", f"these files:{_CASIA_TREE}\n")
    record = str(path / "train.rec")
    offsets = _image_offsets(record, read_offsets(path / "train.idx"))
    labels = read_first_labels(record, offsets)
    number = _number_of_classes(path / "property")
    is_class = (labels == labels.astype(np.int64)) & (labels >= 0) & (labels < number)
    require(is_class.all(), f"labels {labels[~is_class][:3]} in {record!r}", f"0 to {number - 1}, as in property")
    load = Preprocessing(size=224) if load is None else load
    return LabeledSet(
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
    published = COUNTS["casia-webface as records"][0]
    require(1 <= labels[0] <= 2 * published, f"{labels[0]} under key 0 of {record!r}", f"{published:,} images and one")
    keys = range(1, int(labels[0]))
    missing = [key for key in keys if key not in offsets]
    require(not missing, f"train.idx without the keys {missing[:3]} of {len(keys):,} images", "all of them")
    return np.array([offsets[key] for key in keys], np.int64)


def _number_of_classes(path):
    (line,) = read_lines(path)[:1] or [""]
    first = line.split(",")[0]
    require(is_whole(first), f"{line[:80]!r} in {str(path)!r}", "classes,height,width, such as 10572,112,112")
    number, published = int(first), COUNTS["casia-webface as records"][1]
    require(number <= 2 * published, f"{number:,} classes in {str(path)!r}", f"{published:,}, as in the published set")
    return number
