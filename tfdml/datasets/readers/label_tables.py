"""Tables of labels, or of pairs, of the images of a set: what `tfdml select` and people write beside it."""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from tfdml._core.checks import counted, names_of_labels, require
from tfdml.datasets.readers.pair_lists import PairList
from tfdml.datasets.readers.table import open_table, table
from tfdml.typing import FilePath

_IS_SAME = {"1": True, "same": True, "true": True, "yes": True, "0": False, "different": False, "false": False}
_IS_SAME |= {"no": False}


def labels_of_paths(source: FilePath, root: FilePath | None = None) -> dict[str, str]:
    """Absolute path to label of the labeled rows of a table; paths are relative to `root`, or to its folder."""
    named = _files_of(source, root).labeled
    paths = list(map(os.path.abspath, named.paths.tolist()))
    twice = len(paths) - len(set(paths))
    require(not twice, f"{str(source)!r} with {counted(twice, 'path')} again", "each path once")
    return dict(zip(paths, names_of_labels(named), strict=True))


def read_labels(
    source: FilePath, images: Any, *, root: FilePath | None = None, has_all: bool = True
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The labels of images by a table with the columns path and label, `(images,)` with -1 for none, and their names.

    Args:
        source: the table.
        images: a set of files.
        root: folder that the paths are relative to; None for the folder of all images if it has the first path, else
            for the folder of the table.
        has_all: whether a path of another file is an error; else its row is passed over, as the file may be damaged.

    Raises:
        ValueError: a set without files; a table that `table` refuses; a path twice, or of no image of the set.
    """
    rows = _rows_of(source, images, has_all)
    named = labels_of_paths(source, _root(source, images) if root is None else root)
    labels = {row: label for row, label in zip(rows(named), named.values(), strict=True) if row >= 0}
    names = tuple(sorted(set(labels.values())))
    result = np.full(len(images), -1)
    result[list(labels)] = [names.index(label) for label in labels.values()]
    return result, names


def is_of_pairs(source: FilePath) -> bool:
    """Whether a table has the columns path and other."""
    return {"path", "other"} <= set(open_table(source)[0])


def read_pairs(source: FilePath, images: Any, *, has_all: bool = True) -> PairList:
    """The pairs of a table with the columns path, other and same, which is yes or no, as rows of a set.

    Arguments and errors are those of `read_labels`; a row with an empty cell in the column same is no pair.
    """
    rows, root = _rows_of(source, images, has_all), _root(source, images)
    sides = [_files_of(source, root, path=column, label="same") for column in ("path", "other")]
    is_judged = sides[0].labels >= 0
    answers = [_IS_SAME.get(name.lower()) for name in sides[0].class_names]
    other = [name for name, answer in zip(sides[0].class_names, answers, strict=True) if answer is None]
    require(not other, f"{str(source)!r} with {other[:1]} in the column same", f"one of {', '.join(_IS_SAME)}")
    first, second = (rows(side.paths[is_judged].tolist()) for side in sides)
    same = np.array(answers, bool)[sides[0].labels[is_judged]]
    is_known = (first >= 0) & (second >= 0)
    itself = int(np.count_nonzero((first == second) & is_known))
    require(not itself, f"{str(source)!r} with {counted(itself, 'pair')} of an image with itself", "two images")
    received = f"{str(source)!r} with {counted(int(same[is_known].sum()), 'pair')} of the same of {is_known.sum():,}"
    require(0 < same[is_known].sum() < is_known.sum(), received, "pairs of both kinds")
    return PairList(None, first[is_known], second[is_known], same[is_known])


def _files_of(source, root, **columns):
    """The set of a table, all of whose rows have a file: no command has an option to leave some out."""
    files = table(source, root=root, on_error="skip", **columns)
    name, reason = next(iter(files.skipped), ("", ""))
    received = f"{str(source)!r} with {counted(len(files.skipped), 'row')} that cannot be used, first {name}: {reason}"
    place = os.path.join(root or os.path.dirname(source) or ".", "")
    require(not files.skipped, f"{received}. Files were looked for in {place!r}", "a file in every row")
    return files


def _rows_of(source, images, has_all):
    """Function from paths to their rows in a set, -1 for other files."""
    require(images.paths is not None, f"{str(source)!r} for images without files", "a set of files")
    row_of = {os.path.abspath(path): row for row, path in enumerate(images.paths.tolist())}

    def rows(paths: Iterable[str]) -> np.ndarray:
        row_of_path = {path: row_of.get(os.path.abspath(path), -1) for path in paths}
        unknown = [path for path, row in row_of_path.items() if row < 0 and has_all]
        received = f"{str(source)!r} with {counted(len(unknown), 'path')} that the set does not have: {unknown[:1]}"
        require(not unknown, received, "paths of its images")
        return np.array(list(map(row_of_path.__getitem__, paths)), int)

    return rows


def _root(source, images):
    """The folder of a table, or the one of all images if that has the first path."""
    names, read = open_table(source)
    first = next(iter(read("path") if "path" in names else []), "")
    paths = list(map(os.path.abspath, images.paths.tolist()))
    folder = os.path.dirname(paths[0]) if len(paths) == 1 else os.path.commonpath(paths)
    return folder if os.path.isfile(os.path.join(folder, first)) else None
