"""The two benchmarks of few-shot classification, from their original files."""

import csv
import os
import pathlib
import re

import numpy as np

from tfdml._core.checks import require, require_one_of, require_whole
from tfdml.datasets.images.preprocessing import Preprocessing
from tfdml.datasets.labeled_set import LabeledSet
from tfdml.datasets.public.files import Loader, existing_paths, read_lists, require_counts, require_tree

# Characters of Omniglot's two folders and of the lists, each character with this number of drawers.
CHARACTERS = {"images_background": 964, "images_evaluation": 659}
DRAWERS = 20
LISTED = {"train": 1_028, "val": 172, "trainval": 1_200, "test": 423}
# Images and classes of miniImageNet.
MINI_IMAGENET = {"train": (38_400, 64), "val": (9_600, 16), "test": (12_000, 20)}

_OMNIGLOT_TREE = """
omniglot/
    images_background/Alphabet_of_the_Magi/character01/0709_01.png ...
    images_evaluation/Angelic/character01/0965_01.png ...
    splits/vinyals/trainval.txt  train.txt  val.txt  test.txt (for split="vinyals"; a line is
        Angelic/character01/rot090)"""
_MINI_IMAGENET_TREE = """
mini-imagenet/
    train.csv  val.csv  test.csv (lines filename,label, as n0153282900000005.jpg,n01532829)
    images/n0153282900000005.jpg ..."""


def omniglot(
    root: str | os.PathLike[str],
    *,
    split: str = "vinyals",
    validation: bool = False,
    rotations: bool = True,
    ways: int = 5,
    shots: int = 1,
) -> tuple[LabeledSet, ...]:
    """Omniglot: handwritten characters of 50 alphabets, 20 drawings of each, for few-shot classification.

    Both folders are joined; the prefix of a file numbers its character over the whole set, 1 to 1,623. Other readers
    number the evaluation characters from 0 again: add 964 to their labels. Images are read into memory, resized from
    105 x 105 to 28 x 28, and inverted: ink is 255 and paper 0, 1 and 0 after a division by 255.

    Args:
        root: the folder with `images_background` and `images_evaluation`; for `split="vinyals"` also with the lists
            `splits/vinyals/*.txt` of the program of Snell et al.
        split: "vinyals": 1,200 characters for training and 423 for testing, across both folders; "background": 964
            for training and 659 for testing, by folder.
        validation: with "vinyals", whether to divide the 1,200 into 1,028 for training and 172 for validation.
        rotations: whether turns by 90, 180 and 270 degrees are classes, four times the classes and the images.
        ways, shots: the task in the protocol id.

    Returns:
        `(train, test)`, or `(train, validation, test)`, with 20 images `(28, 28, 1)` uint8 per class. Class names are
        as `Angelic/character01/rot090`; `groups` is the drawer, 1 to 20.

    Source: Lake, Salakhutdinov, Tenenbaum, Human-level Concept Learning through Probabilistic Program Induction,
    Science 2015 (MIT license); Vinyals et al., Matching Networks for One Shot Learning, NIPS 2016; Snell, Swersky,
    Zemel, Prototypical Networks for Few-shot Learning, NIPS 2017.
    """
    require_one_of(("vinyals", "background"), split=split)
    expected = "split='vinyals', which has lists"
    require(not validation or split == "vinyals", f"validation=True and split={split!r}", expected)
    turns = range(4) if rotations else range(1)
    files = _characters(root)
    names = _names_of_parts(root, files, split, validation)
    sizes = "vinyals-1200-423" if split == "vinyals" else "background-964-659"
    protocol = f"omniglot/{sizes}{{}}/rot{len(turns)}/{_task(ways, shots)}/v1"
    ink = _ink([path for characters in names.values() for name in characters for path in files[name]])
    ends = DRAWERS * np.cumsum([len(characters) for characters in names.values()])
    return tuple(
        _drawings(each, characters, turns, protocol.format(_suffix(part)))
        for each, (part, characters) in zip(np.split(ink, ends[:-1]), names.items(), strict=True)
    )


def mini_imagenet(
    root: str | os.PathLike[str], *, ways: int = 5, shots: int = 5, load: Loader | None = None
) -> tuple[LabeledSet, LabeledSet, LabeledSet]:
    """miniImageNet: 100 classes of ImageNet, 600 images of each, in the split of Ravi and Larochelle.

    The number in a file name is not ImageNet's. The split of Vinyals et al. has other classes.

    Args:
        root: the folder with `train.csv`, `val.csv`, `test.csv` and `images`.
        ways, shots: the task in the protocol id.
        load: function from a path to an example; `Preprocessing(size=84)` by default.

    Returns:
        `(train, validation, test)`: 38,400, 9,600 and 12,000 images of 64, 16 and 20 classes, named by WordNet ids.

    Source: Vinyals et al., Matching Networks for One Shot Learning, NIPS 2016; Ravi, Larochelle, Optimization as a
    Model for Few-Shot Learning, ICLR 2017. The terms of ImageNet allow non-commercial research.
    """
    _require_no_pickles(root)
    tables = read_lists(root, _MINI_IMAGENET_TREE, *(f"{part}.csv" for part in MINI_IMAGENET))
    rows = {part: _table(f"{part}.csv", lines) for part, lines in zip(MINI_IMAGENET, tables, strict=True)}
    _require_apart({part: [label for _, label in table] for part, table in rows.items()})
    return tuple(
        _images(root, part, table, load, f"mini-imagenet/ravi-64-16-20{_suffix(part)}/{_task(ways, shots)}/v1")
        for part, table in rows.items()
    )


def _task(ways, shots):
    require_whole("ways", ways, 2)
    require_whole("shots", shots, 1)
    return f"{ways}way-{shots}shot"


def _suffix(split):
    """The split in a protocol id; empty for the test split, because papers report it."""
    return {"test": "", "val": "-validation"}.get(split, "-train")


def _characters(root):
    files, start = {}, 0
    for name, expected in CHARACTERS.items():
        paths = sorted(pathlib.Path(root, name).glob("*/*/*.png"))
        require_tree(bool(paths), root, f" without images in {name}", _OMNIGLOT_TREE)
        by_number = _by_number(paths)
        require_counts(name, (len(paths), len(by_number)), (DRAWERS * expected, expected))
        numbers, received = sorted(by_number), f"characters {min(by_number)} to {max(by_number)} in {name}"
        advice = "The copy numbers the characters of each folder from its beginning: unpack the original archives"
        is_numbered = numbers == list(range(start + 1, start + 1 + len(numbers)))
        require(is_numbered, received, f"{start + 1} to {start + len(numbers)}. {advice}")
        files |= {_character(paths): paths for _, paths in sorted(by_number.items())}
        start += expected
    return files


def _by_number(paths):
    by_number = {}
    for path in paths:
        is_name = re.fullmatch(r"\d{4}_\d\d", path.stem) is not None
        require(is_name, f"the image {path.name}", "a name of character and drawer, as 0965_01.png")
        by_number.setdefault(int(path.stem[:4]), []).append(path)
    return by_number


def _character(paths):
    """The name of a character, whose files are all in one folder."""
    folders = {path.parent for path in paths}
    drawers = [int(path.stem[-2:]) for path in paths]
    received = f"the drawers {drawers} of character {paths[0].stem[:4]} in {len(folders)} folders"
    is_whole = len(folders) == 1 and drawers == list(range(1, DRAWERS + 1))
    require(is_whole, received, f"1 to {DRAWERS} in one. Unpack the original archives again")
    return "/".join(paths[0].parent.parts[-2:])


def _names_of_parts(root, files, split, validation):
    """Characters of each part, in the order of their numbers."""
    if split == "background":
        names, cut = list(files), CHARACTERS["images_background"]
        return {"train": names[:cut], "test": names[cut:]}
    lists = ["train", "val", "test"] if validation else ["trainval", "test"]
    tables = read_lists(root, _OMNIGLOT_TREE, *(f"splits/vinyals/{name}.txt" for name in lists))
    listed = {name: _listed(lines, name, files) for name, lines in zip(lists, tables, strict=True)}
    _require_apart(listed)
    return {name: [character for character in files if character in names] for name, names in listed.items()}


def _listed(lines, name, files):
    """The characters of a list that has four lines for each, one per rotation."""
    rows = [re.sub(r"/rot(000|090|180|270)$", "", line.strip()) for line in lines if line.strip()]
    unknown = [row for row in rows if row not in files]
    expected = "a character of the set and its rotation, as Angelic/character01/rot090"
    require(not unknown, f"{(unknown or [''])[0]!r} in splits/vinyals/{name}.txt", expected)
    require_counts(f"splits/vinyals/{name}.txt", (len(rows), len(set(rows))), (4 * LISTED[name], LISTED[name]))
    return set(rows)


def _require_apart(names):
    lists = [set(part_names) for part_names in names.values()]
    shared = sorted(set().union(*lists)) if sum(map(len, lists)) > len(set().union(*lists)) else []
    if shared:
        both = next(name for name in shared if sum(name in each for each in lists) > 1)
        raise ValueError(f"Received {both!r} in two of the lists {', '.join(names)}, expected it in one.")


def _ink(paths):
    """Pages as `(n, 28, 28, 1)` uint8, where ink is 255."""
    pages = LabeledSet(
        paths=np.array([str(path) for path in paths]),
        labels=np.zeros(len(paths), np.int64),
        class_names=("page",),
        load=Preprocessing(size=28, channels=1),
    )
    return 255 - pages.examples()


def _drawings(ink, names, turns, protocol):
    codes = np.repeat(np.arange(len(names)), DRAWERS)
    return LabeledSet(
        images=np.concatenate([np.rot90(ink, turn, axes=(1, 2)) for turn in turns]),
        labels=np.concatenate([len(turns) * codes + turn for turn in turns]).astype(np.int64),
        class_names=tuple(f"{name}/rot{90 * turn:03}" for name in names for turn in turns),
        groups=np.tile(np.arange(1, DRAWERS + 1), len(turns) * len(names)),
        protocol=protocol,
    )


def _require_no_pickles(root):
    pickles = sorted(path.name for path in pathlib.Path(root).glob("*.pkl"))
    if pickles and not pathlib.Path(root, "train.csv").is_file():
        raise ValueError(
            f"Received root={os.fspath(root)!r} with {pickles[0]}, a pickle, which can run any program when it "
            "is read, expected lists and images. Get the csv files of Ravi and Larochelle, and write the images of the "
            f"pickle as files in a process of your own, or take them from ImageNet. Expected:{_MINI_IMAGENET_TREE}"
        )


def _table(name, lines):
    try:
        header, *rows = list(csv.reader(lines)) or [[]]
    except csv.Error as error:
        raise ValueError(f"Received {name}, which is not a table ({error}). Download the set again.") from error
    if header != ["filename", "label"]:
        raise ValueError(f"Received {name} with the header {','.join(header)!r}, expected 'filename,label'.")
    wrong = [row for row in rows if len(row) != 2 or not re.fullmatch(rf"{re.escape(row[1])}\d{{8}}\.jpg", row[0])]
    if wrong:
        raise ValueError(
            f"Received the line {','.join(wrong[0])!r} in {name}, expected a file name of class and eight digits, and "
            "the class, as n0153282900000005.jpg,n01532829."
        )
    return rows


def _images(root, split, rows, load, protocol):
    names, labels = np.unique([label for _, label in rows], return_inverse=True)
    require_counts(f"{split}.csv of miniImageNet", (len(rows), len(names)), MINI_IMAGENET[split])
    return LabeledSet(
        paths=existing_paths(root, _MINI_IMAGENET_TREE, [f"images/{file}" for file, _ in rows]),
        labels=labels.astype(np.int64),
        class_names=tuple(names.tolist()),
        load=load or Preprocessing(size=84),
        protocol=protocol,
    )
