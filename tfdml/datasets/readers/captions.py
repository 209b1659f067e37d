"""Captions of the images of a set: a table of paths and captions, texts beside the files, or a list."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tfdml._core.checks import require
from tfdml.datasets.labeled_set import LabeledSet
from tfdml.datasets.readers.table import is_missing, open_table
from tfdml.datasets.text import read_utf8
from tfdml.typing import FilePath


def with_captions(data: LabeledSet, source: FilePath | Sequence[str | Sequence[str]] | None = None) -> LabeledSet:
    """A labeled set whose images have captions, one or several each, for `tfdml.training.train`.

    Example: two images, one of them with two captions.

        >>> images, labels = np.zeros((2, 8, 8, 3), "uint8"), np.arange(2)
        >>> data = tfdml.datasets.LabeledSet(images=images, labels=labels, class_names=("ant", "bee"))
        >>> data = tfdml.datasets.with_captions(data, ["an ant", ("a bee", "a bee on a rose")])
        >>> data.captions.tolist()
        [('an ant',), ('a bee', 'a bee on a rose')]

    Args:
        data: the set.
        source: a table, .csv, .tsv or .parquet, with the columns path, relative to the folder of the table, and
            caption; an image may have several rows, and rows of other images do not count. Or a caption, or several,
            for each image of the set in its order. None: the file .txt beside each image file, a caption on each line.

    Returns:
        The set with `captions`, a tuple of texts for each image, without blanks at their ends.

    Raises:
        ValueError: captions of another number of images; an image without a caption, or with an empty one; a table
            without these columns, or with a row without a path; no table for a set without paths.
    """
    if source is None or isinstance(source, str | os.PathLike):
        require(data.paths is not None, "images without paths", "a caption, or several, for each image, as a list")
        files = list(map(os.path.abspath, data.paths))
        captions = list(map(_beside, files)) if source is None else _of_table(source, files)
    else:
        captions = [(entry,) if isinstance(entry, str) else tuple(entry) for entry in source]
    received = f"captions of {len(captions)} images, and a set of {len(data)}"
    require(len(captions) == len(data), received, "a caption, or several, for each image in the order of the set")
    texts = [tuple(dict.fromkeys(map(_stripped, each))) for each in captions]
    _require_all("without a caption", [not each for each in texts], data)
    _require_all("with an empty caption", ["" in each for each in texts], data)
    return replace(data, captions=np.fromiter(texts, object, len(texts)))


def _stripped(text):
    return "" if is_missing(text) else str(text).strip()


def _require_all(problem, has_problem, data):
    rows = np.flatnonzero(has_problem)
    first = "" if not len(rows) else data.names[rows[0]] if data.names is not None else f"row {rows[0]}"
    expected = "a caption for each image. Add it, or leave the image out; a table has paths relative to its folder"
    require(not len(rows), f"{len(rows):,} of {len(data):,} images {problem}, first {first}", expected)


def _beside(path):
    """The lines of the text beside an image that are not blank; none without such a file."""
    file = Path(path).with_suffix(".txt")
    return tuple(filter(str.strip, read_utf8(file).splitlines())) if file.is_file() else ()


def _of_table(source, files):
    """The captions of each file."""
    names, read = open_table(source)
    received = f"{str(source)!r} with the columns {', '.join(names)}"
    require({"path", "caption"} <= set(names), received, "the columns path and caption")
    paths, texts = read("path"), read("caption")
    missing = [row for row, path in enumerate(paths) if is_missing(path)]
    require(not missing, f"{len(missing)} rows without a path, first row {missing[:1]}", "a path in each row")
    captions: dict[str, list[str]] = {}
    for path, text in zip(paths, texts, strict=True):
        file = os.path.abspath(os.path.join(os.path.dirname(os.fspath(source)), str(path)))
        captions.setdefault(file, []).append(text)
    return [captions.get(file, ()) for file in files]
