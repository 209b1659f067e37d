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
    """A labeled set with `captions`, one or several for each image, for `tfdml.training.train`.

    Example: two images, one of them with two captions.

        >>> images, labels = np.zeros((2, 8, 8, 3), "uint8"), np.arange(2)
        >>> data = tfdml.datasets.LabeledSet(images=images, labels=labels, class_names=("ant", "bee"))
        >>> tfdml.datasets.with_captions(data, ["an ant", ("a bee", "a bee on a rose")]).captions.tolist()
        [('an ant',), ('a bee', 'a bee on a rose')]

    Args:
        data: the set.
        source: a table, .csv, .tsv or .parquet, with the columns path, relative to its folder, and caption, a row or
            several for each image, and perhaps for others. Or a caption, or several, for each image in its order. None:
            the file .txt beside each image, a caption on each line.

    Raises:
        ValueError: captions of another number of images; an image without a caption, or with an empty one; a table or
            a row without path or caption; a set without paths, but for a list.
    """
    if source is None or isinstance(source, str | os.PathLike):
        require(data.paths is not None, "images without paths", "a caption, or several, for each image, as a list")
        files = [] if data.paths is None else list(map(os.path.abspath, data.paths))
        source = list(map(_beside, files)) if source is None else _of_table(Path(source), files)
    received, expected = f"captions of {len(source)} images, and a set of {len(data)}", "captions in its order"
    require(len(source) == len(data), received, expected)
    listed = ([entry] if isinstance(entry, str) else entry for entry in source)
    captions = [tuple("" if is_missing(text) else str(text).strip() for text in texts) for texts in listed]
    rows = [row for row, texts in enumerate(captions) if not all(texts or [""])]
    first = "".join(str(row if data.names is None else data.names[row]) for row in rows[:1])
    received = f"{len(rows):,} of {len(data):,} images without a caption, or with an empty one, first {first}"
    require(not rows, received, "a caption for each image. Paths of a table are relative to its folder")
    return replace(data, captions=np.fromiter(captions, object, len(captions)))


def _beside(path):
    """The lines of the text beside an image that are not blank; none without such a file."""
    file = Path(path).with_suffix(".txt")
    return list(filter(str.strip, read_utf8(file).splitlines())) if file.is_file() else []


def _of_table(source, files):
    names, read = open_table(source)
    has_columns = {"path", "caption"} <= set(names)
    require(has_columns, f"{str(source)!r} with the columns {', '.join(names)}", "the columns path and caption")
    captions: dict[str, list[str]] = {}
    for path, caption in zip(read("path"), read("caption"), strict=True):
        require(not is_missing(path), f"{str(source)!r} with a row without a path", "a path in each row")
        captions.setdefault(os.path.abspath(source.parent / str(path)), []).append(caption)
    return [captions.get(file, []) for file in files]
