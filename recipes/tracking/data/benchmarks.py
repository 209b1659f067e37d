"""The tracking benchmarks OTB and GOT-10k, from their original files."""

import os
import pathlib
import re

import numpy as np

from recipes.checks import require
from recipes.tracking.data.clip import Clip

# Sequences of each part; for OTB, tracks.
COUNTS = {"otb100": 100, "otb2013": 51, "train": 9_335, "val": 180, "test": 180}

_OTB_TREE = """
OTB100/
    Basketball/groundtruth_rect.txt
    Basketball/img/0001.jpg ...
    Jogging/groundtruth_rect.1.txt  Jogging/groundtruth_rect.2.txt
    ..."""
_GOT_TREE = """
GOT-10k/
    train/list.txt  val/list.txt  test/list.txt
    train/GOT-10k_Train_000001/groundtruth.txt  absence.label  cover.label  meta_info.ini
    train/GOT-10k_Train_000001/00000001.jpg ..."""
_FLAGS = ("cover.label", "absence.label")
_IMAGES = (".jpg", ".jpeg", ".png")
# First and last frame of the sequences whose truth covers a part of the files, by the official tools.
_RANGES = {
    "David": (300, 770),
    "Diving": (1, 215),
    "Football1": (1, 74),
    "Freeman3": (1, 460),
    "Freeman4": (1, 283),
    "Tiger1": (6, 354),
}
_OTB_2013 = frozenset(
    re.findall(
        r"\w+",
        """
        Basketball Bolt Boy Car4 CarDark CarScale Coke Couple Crossing David David2 David3 Deer Dog1 Doll Dudek
        FaceOcc1 FaceOcc2 Fish FleetFace Football Football1 Freeman1 Freeman3 Freeman4 Girl Ironman Jogging Jumping
        Lemming Liquor Matrix Mhyang MotorRolling MountainBike Shaking Singer1 Singer2 Skating1 Skiing Soccer Subway
        Suv Sylvester Tiger1 Tiger2 Trellis Walking Walking2 Woman
        """,
    )
)
_DAMAGED = {f"GOT-10k_Train_{number:06}" for number in (8628, 8630, 9058, 9059)}  # boxes outside the frames


def otb(root: str | os.PathLike[str], *, year: int = 2015) -> list[Clip]:
    """The object tracking benchmark OTB-100 (2015), or OTB-2013.

    Truth files are separated by commas, tabs or blanks; a folder may hold two targets, `Jogging-1` and `Jogging-2`. An
    empty truth file is left out. Of David, Diving, Football1, Freeman3, Freeman4 and Tiger1 the frames of the official
    tools are read. Coordinates of the files start at 1, those of the clips at 0.

    Args:
        root: the folder of the sequences.
        year: 2015 for all 100 tracks, 2013 for 51 of them.

    Returns:
        A list of `Clip`, by name.

    Raises:
        ValueError: a missing file, a damaged truth file, other numbers of frames than boxes, or of tracks.

    Source: Wu, Lim, Yang, Object Tracking Benchmark, TPAMI 2015; Online Object Tracking: A Benchmark, CVPR 2013.
    """
    require(year in (2013, 2015), f"year={year}", "2013 or 2015")
    folder, part = pathlib.Path(root), "otb100" if year == 2015 else "otb2013"
    names = sorted({path.parent.name for path in folder.glob("*/groundtruth_rect*.txt")})
    names = [name for name in names if year == 2015 or name in _OTB_2013]
    clips = [clip for name in names for clip in _otb_clips(folder / name, f"{part}/ope/v1")]
    _require_tree(len(clips) == COUNTS[part], root, f"with {len(clips)} tracks in place of {COUNTS[part]}", _OTB_TREE)
    return clips


def got10k(root: str | os.PathLike[str], split: str) -> list[Clip]:
    """GOT-10k: train, val, or test, of which only the first boxes are published.

    Four damaged sequences of train, whose boxes lie outside the frames, are left out: 008628, 008630, 009058, 009059.

    Args:
        root: the folder with `train`, `val` and `test`.
        split: "train", "val" or "test".

    Returns:
        A list of `Clip` in the order of `list.txt`: 9,331, 180 or 180.

    Raises:
        ValueError: another split, a missing file, a damaged list, other numbers of frames than boxes or flags, or other
            numbers of sequences than published.

    Source: Huang, Zhao, Huang, GOT-10k: A Large High-Diversity Benchmark for Generic Object Tracking in the Wild, TPAMI
    2021. Its terms are CC BY-NC-SA 4.0.
    """
    require(split in ("train", "val", "test"), f"split={split!r}", "'train', 'val' or 'test'")
    folder = pathlib.Path(root, split)
    _require_tree((folder / "list.txt").is_file(), root, f"without {split}/list.txt", _GOT_TREE)
    names = (folder / "list.txt").read_text().split()
    others = [name for name in names if not re.fullmatch(r"[\w-]+", name)]
    require(not others, f"{split}/list.txt with {others[:1]}", "names of folders in it")
    received = f"with {len(names):,} sequences in {split}/list.txt in place of {COUNTS[split]:,}"
    _require_tree(len(names) == COUNTS[split], root, received, _GOT_TREE)
    return [_got_clip(folder / name, split) for name in names if name not in _DAMAGED]


def _otb_clips(folder, protocol):
    """The clips of one folder of OTB: one per truth file that is not empty."""
    tables = {file: _numbers(file) for file in sorted(folder.glob("groundtruth_rect*.txt"))}
    tables = {file: table for file, table in tables.items() if len(table)}
    require(bool(tables), f"{os.fspath(folder)!r} with empty truth files", "x, y, width, height of each frame")
    images = _images(folder / "img") or _images(folder / "jpg")
    _require_tree(bool(images), folder, "without images in img", _OTB_TREE)
    for file, table in tables.items():
        number = re.search(r"\.(\d)\.txt$", file.name)
        name = f"{folder.name}-{number[1]}" if number and len(tables) > 1 else folder.name
        paths, boxes = _in_range(folder.name, images, table)
        yield Clip(name=name, frames=paths, boxes=boxes - [1, 1, 0, 0], protocol=protocol)


def _in_range(name, images, table):
    """The images and boxes of the frames that the official tools use."""
    first, last = _RANGES.get(name, (0, np.inf))
    used = [first <= int(path.stem) <= last for path in images]
    boxes = table[used] if len(table) == len(images) else table
    paths = [str(path) for path, is_used in zip(images, used, strict=True) if is_used]
    received = f"{len(boxes)} boxes and {len(paths)} frames of {name}"
    require(len(paths) == len(boxes), received, "one box per frame. The copy is incomplete")
    return paths, boxes


def _got_clip(folder, split):
    paths, flags = [str(path) for path in _images(folder)], {}
    _require_tree(bool(paths), folder, "without images", _GOT_TREE)
    for file in ("groundtruth.txt", *(_FLAGS if split != "test" else ())):
        _require_tree((folder / file).is_file(), folder, f"without {file}", _GOT_TREE)
    if split != "test":
        cover, absence = (np.array((folder / name).read_text().split(), np.int64) for name in _FLAGS)
        flags = {"cover": cover, "absent": absence > 0}
    info = folder / "meta_info.ini"
    sides = re.search(r"^resolution\s*[:=]\s*\((\d+),\s*(\d+)\)", info.read_text() if info.is_file() else "", re.M)
    return Clip(
        name=folder.name,
        frames=paths,
        boxes=_numbers(folder / "groundtruth.txt"),
        size=(int(sides[1]), int(sides[2])) if sides else None,
        protocol=f"got10k/{split}/ao/v1",
        **flags,
    )


def _images(folder):
    """Image files of a folder by their numbers."""
    files = folder.iterdir() if folder.is_dir() else ()
    images = [path for path in files if path.suffix.lower() in _IMAGES and path.stem.isdecimal()]
    return sorted(images, key=lambda path: int(path.stem))


def _numbers(file):
    """The boxes of a truth file, `(lines, 4)` float64."""
    rows = [re.split(r"[,\s]+", line.strip()) for line in file.read_text().splitlines() if line.strip()]
    require({len(row) for row in rows} <= {4}, f"{os.fspath(file)!r} with other lines", "x, y, width, height")
    return np.array(rows, np.float64).reshape(-1, 4)


def _require_tree(condition, root, received, tree):
    """Raise a ValueError that shows the expected files unless the condition holds."""
    require(condition, f"{os.fspath(root)!r} {received}, which is incomplete or another set", f"these files:{tree}\n")
