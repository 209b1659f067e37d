"""Labeled Faces in the Wild, from its original files."""

import os
import pathlib
from dataclasses import replace

import numpy as np

from tfdml._core.checks import require, require_one_of
from tfdml.datasets.images.preprocessing import Preprocessing
from tfdml.datasets.labeled_set import LabeledSet
from tfdml.datasets.public.files import Loader, existing_paths, read_lists, require_counts
from tfdml.datasets.readers.pair_lists import PairList, lfw_pairs
from tfdml.datasets.readers.text import is_whole

COUNTS = {"lfw": (13_233, 5_749)}  # Images and identities.
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


def lfw(
    root: str | os.PathLike[str], *, images: str = "lfw", pairs: str = "pairs.txt", load: Loader | None = None
) -> tuple[LabeledSet, PairList]:
    """Labeled Faces in the Wild: 13,233 images of 5,749 people, and pairs of them.

        faces, pairs = tfdml.datasets.public.lfw("LFW")
        x = tfdml.models.embed(model, faces)
        scores = tfdml.metrics.pair_scores(x[pairs.first], x[pairs.second])
        tfdml.metrics.verification(scores, pairs.same, folds=pairs.folds)

    Report numbers on View 2, the 6,000 pairs of `pairs.txt` in ten folds without a common person. Choose models on View
    1, the 2,200 pairs of `pairsDevTrain.txt` and the 1,000 of `pairsDevTest.txt`.

    Args:
        root: the folder with the lists and the folder of the images.
        images: name of the folder of the images, such as "lfw", "lfw_funneled" or "lfw-deepfunneled". The reader never
            opens a packed file such as `lfw.bin`, a pickle.
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
