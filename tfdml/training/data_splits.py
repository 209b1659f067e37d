"""The parts of a set: images to train on, to choose the best epoch on, and to measure once."""

from typing import NamedTuple

import numpy as np

from tfdml._core.checks import require
from tfdml.datasets import LabeledSet, splits
from tfdml.training.settings import Split

LEAST_IMAGES = 8


class DataSplits(NamedTuple):
    """The training, validation and test part of a set.

    With `split_by="image"`, the classes are the same: queries of the other parts are searched in `train`.

    Attributes:
        train, validation: labeled sets.
        test: labeled set, or None without a test part.
        split_by: "class" or "image".
        train_rows, reported_rows: rows of the set in `train` and in `reported`.
    """

    train: LabeledSet
    validation: LabeledSet
    test: LabeledSet | None
    split_by: Split
    train_rows: np.ndarray
    reported_rows: np.ndarray

    @property
    def gallery(self) -> LabeledSet | None:
        """The set that queries are searched in; None for the queries among themselves."""
        return self.train if self.split_by == "image" else None

    @property
    def reported(self) -> LabeledSet:
        """The queries of the report: the test part, or validation where there is none."""
        return self.validation if self.test is None else self.test


def class_sizes(images: LabeledSet) -> np.ndarray:
    """Number of images of every class, `(classes,)`."""
    return np.bincount(images.labels, minlength=len(images.class_names))


def require_trainable(images: LabeledSet) -> None:
    """Raise a ValueError unless a set has pairs of two classes, and images to validate on."""
    sizes = class_sizes(images)
    received = f"a set of {len(images)} usable images in {np.count_nonzero(sizes)} classes"
    folders = "one folder of images per class, or a table with the columns path and label"
    require(bool(np.count_nonzero(sizes) >= 2), received, f"at least two classes: {folders}")
    pairs = np.count_nonzero(sizes >= 2)
    expected = "two classes or more that have two images, because a network learns from pairs of a class"
    require(bool(pairs >= 2), f"{received}, of which {pairs} have two images or more", expected)
    require(len(images) >= LEAST_IMAGES, received, f"at least {LEAST_IMAGES}, to train and to validate on")


def split_set(images: LabeledSet, *, split_by: Split, validation: float, test: float, seed: int) -> DataSplits:
    """Split a set at random; the draw depends on the seed and the names of the classes.

    Classes of one image have no pair to measure, so they are always trained on.

    Args:
        images: labeled set.
        split_by: "class" or "image".
        validation, test: shares; `test` may be 0.
        seed: whole number.

    Raises:
        ValueError: too few classes or images for the shares.
    """
    is_alone = class_sizes(images)[images.labels] == 1
    rows, test_rows = np.flatnonzero(~is_alone), None
    if test:
        rows, test_rows = _split_rows(images, rows, test, split_by, seed)
    rows, validation_rows = _split_rows(images, rows, validation / (1 - test), split_by, seed)
    train_rows = np.sort(np.concatenate([rows, np.flatnonzero(is_alone)]))
    return DataSplits(
        _part(images, train_rows, split_by, "training"),
        _part(images, validation_rows, split_by, "validation"),
        None if test_rows is None else _part(images, test_rows, split_by, "test"),
        split_by,
        train_rows,
        validation_rows if test_rows is None else test_rows,
    )


def _split_rows(images, rows, share, by, seed):
    """Two parts of some rows of a set, of which the second has about this share."""
    kept, held_out = splits.split(images.take(rows), share, by=by, seed=seed)
    return rows[kept], rows[held_out]


def _part(images, rows, by, name):
    part = images.take(rows)
    if by == "image":
        return part
    part = part.select_classes(np.unique(part.labels))
    require(
        len(part.class_names) >= 2,
        f"a {name} part of one class",
        f"two classes or more, as one has only right neighbors. Pass a larger {name} share, or split_by='image'",
    )
    return part
