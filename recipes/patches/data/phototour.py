"""PhotoTourism: patches of 3D points in photographs, from the original sheets and lists."""

import os
import pathlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

import tfdml
from recipes.checks import require
from recipes.patches.data.files import Loader, as_columns, existing_paths, read_lists

# Patches of each scene.
COUNTS = {
    "liberty": 450_092,
    "notredame": 468_159,
    "yosemite": 633_587,
    "liberty_harris": 379_587,
    "notredame_harris": 325_295,
    "yosemite_harris": 450_912,
}
_SIDE, _SHEET_SIDE = 64, 1024  # pixels
_ROW = _SHEET_SIDE // _SIDE  # patches in a row of a sheet
_PATCHES = _ROW**2  # on a sheet
_HEADER = struct.Struct("<10xI4xii2xHI")  # of a BMP file: start of the pixels, width, height, bits, compression
_TEST_PAIRS = 100_000  # of the protocol
_TREE = """
phototour/
    liberty/patches0000.bmp  patches0001.bmp ...
    liberty/info.txt  interest.txt  m50_100000_100000_0.txt  m50_500000_500000_0.txt
    notredame/ ...  yosemite/ ..."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PhotoTour(tfdml.datasets.LabeledSet):
    """Patches of one scene: a `LabeledSet` of `(64, 64, 1)` uint8 patches, whose classes are 3D points.

    A patch is read when it is needed; `set.cached(folder)` puts all of them into one file. `groups` is the photograph
    of each patch. Two points may be the same one in the world, so that patches of two classes are certain to differ
    only within one photograph: draw your own negative pairs there, or take those of `pairs`.

    Attributes:
        pairs: `PairList` of the match file, whose `first` and `second` are rows of the set; None for subsets.
    """

    pairs: tfdml.datasets.PairList | None = None

    def take(self, rows: np.ndarray | Sequence[int] | slice) -> "PhotoTour":
        """The set of some patches as `LabeledSet.take`, without the pairs, which are those of the whole set."""
        return replace(super().take(rows), pairs=None)


def phototour(
    root: str | os.PathLike[str],
    *,
    train: str = "liberty",
    test: str = "notredame",
    train_pairs: int = 500_000,
    test_pairs: int = 100_000,
    load: Loader | None = None,
) -> tuple[PhotoTour, PhotoTour]:
    """PhotoTourism, also called the UBC or Brown patches: train on one scene, test on another.

    Report the false positive rate at 95% recall of the six pairs of scenes, and their mean:

        x, pairs = tfdml.models.embed(model, test), test.pairs
        tfdml.metrics.verification(tfdml.metrics.pair_scores(x[pairs.first], x[pairs.second]), pairs.same)["fpr95"]

    A sheet has 16 x 16 patches. The last one is filled up: as many patches are read as `info.txt` has lines. Half of
    the N lines of `m50_N_N_0.txt` are matches, half are not.

    Args:
        root: the folder of the scenes.
        train, test: two of "liberty", "notredame", "yosemite" (interest points by differences of Gaussians),
            "liberty_harris", "notredame_harris", "yosemite_harris".
        train_pairs, test_pairs: N in the name of the match file. The protocol trains on 500,000 pairs and tests on
            100,000; other test pairs have a protocol of their number.
        load: function from a patch to an example; None for the patches.

    Returns:
        `(train, test)`, two `PhotoTour` of 450,092, 468,159 or 633,587 patches (Harris 379,587, 325,295, 450,912).

    Raises:
        ValueError: an unknown scene, the same scene twice, a missing file, a damaged list, or another number of
            patches. A sheet of another format is an error when it is read.

    Source: Brown, Hua, Winder, Discriminative Learning of Local Image Descriptors, PAMI 2011.
    """
    for scene in (train, test):
        require(scene in COUNTS, f"the scene {scene!r}", f"one of {', '.join(map(repr, COUNTS))}")
    require(train != test, f"train={train!r} and test={test!r}", "two scenes")
    measure = "fpr95" if test_pairs == _TEST_PAIRS else f"fpr95-{test_pairs}"
    return (
        _scene(pathlib.Path(root), train, train_pairs, load=load, protocol=f"phototour/{train}-train/{measure}/v1"),
        _scene(pathlib.Path(root), test, test_pairs, load=load, protocol=f"phototour/{train}-to-{test}/{measure}/v1"),
    )


def _scene(root, scene, num_pairs, *, load, protocol):
    matches = f"{scene}/m50_{num_pairs}_{num_pairs}_0.txt"
    points = _whole_numbers(root, f"{scene}/info.txt", 2)[:, 0]
    expected = COUNTS[scene]
    require(len(points) == expected, f"{len(points):,} patches in info.txt of {scene}", f"{expected:,}")
    names, labels = np.unique(points, return_inverse=True)
    sheets = [f"{scene}/patches{number:04}.bmp" for number in range(-(-expected // _PATCHES))]
    return PhotoTour(
        source=_Sheets(existing_paths(root, _TREE, sheets), expected),
        labels=labels.astype(np.int64),
        class_names=tuple(map(str, names.tolist())),
        groups=_photographs(root, f"{scene}/interest.txt", expected),
        load=load,
        protocol=protocol,
        pairs=_pairs(_whole_numbers(root, matches, 7), points, num_pairs, matches),
    )


def _photographs(root, name, num_patches):
    """The photograph of each patch, the first column of five: `(patches,)` int64."""
    rows = as_columns(read_lists(root, _TREE, name)[0], 5)
    require(len(rows) == num_patches, f"{len(rows):,} lines in {name}", f"{num_patches:,}, one per patch")
    return np.array([int(float(row[0])) for row in rows], np.int64)


def _pairs(rows, points, num_pairs, name):
    """The `PairList` of a match file: patch, point, unused, patch, point, unused, unused."""
    require(len(rows) == num_pairs, f"{len(rows):,} pairs in {name}", f"{num_pairs:,}, half of them matches")
    patches, points_of_pairs = rows[:, [0, 3]], rows[:, [1, 4]]
    is_patch = patches.min() >= 0 and patches.max() < len(points)
    fits = is_patch and np.array_equal(points[patches], points_of_pairs)
    require(fits, f"{name} with other points than info.txt", "the lists of one scene. Download the scene again")
    return tfdml.datasets.PairList(None, *patches.T, points_of_pairs[:, 0] == points_of_pairs[:, 1])


def _whole_numbers(root, name, columns):
    """A list of whole numbers, `(lines, columns)` int64."""
    rows = as_columns(read_lists(root, _TREE, name)[0], columns)
    damaged = [" ".join(row) for row in rows if not all(word.lstrip("-").isdecimal() for word in row)]
    require(not damaged, f"{damaged[:1]} in {name}", "lines of whole numbers")
    return np.array(rows, np.int64).reshape(-1, columns)


@dataclass(frozen=True, eq=False)
class _Sheets:
    """A source of the patches on sheets; only the pixels of the rows that are asked for are read.

    Attributes:
        paths: `(sheets,)` str, in the order of their numbers.
        num_patches: number of patches; the last sheet is filled up with others.
    """

    paths: np.ndarray
    num_patches: int

    def __len__(self):
        return self.num_patches

    def __getitem__(self, row):
        return self.__getitems__([row])[0]

    def __getitems__(self, rows):
        """The patches of rows, each `(64, 64, 1)` uint8; a sheet of several rows is opened once."""
        numbers = np.arange(self.num_patches)[np.asarray(rows, np.int64)]
        sheets = {sheet: _sheet(self.paths[sheet]) for sheet in set((numbers // _PATCHES).tolist())}
        return [_patch(sheets[number // _PATCHES], number % _PATCHES) for number in numbers.tolist()]


def _patch(sheet, number):
    """A patch of a sheet, by its number from left to right, then down."""
    y, x = (_SIDE * index for index in divmod(number, _ROW))
    return np.array(sheet[y : y + _SIDE, x : x + _SIDE, None])


def _sheet(path):
    """The gray levels of a bitmap of 8 bits, `(1024, 1024)`, mapped into memory; its rows are stored upward."""
    with open(path, "rb") as file:
        header = file.read(_HEADER.size)
    is_bitmap = len(header) == _HEADER.size and header.startswith(b"BM")
    start, width, height, bits, compression = _HEADER.unpack(header) if is_bitmap else (0,) * 5
    expected = "a BMP file of 1024 x 1024 gray pixels of 8 bits, as in the original archive"
    received = f"{str(path)!r} of {width} x {height} pixels, {bits} bits, compression {compression}"
    require((width, abs(height), bits, compression) == (_SHEET_SIDE, _SHEET_SIDE, 8, 0), received, expected)
    pixels = np.memmap(path, np.uint8, "r", start, (_SHEET_SIDE, _SHEET_SIDE))
    return pixels[::-1] if height > 0 else pixels
