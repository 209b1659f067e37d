"""The parts of a set: images to train on, to choose the best epoch on, and to measure once."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tfdml._core.checks import require
from tfdml.datasets import LabeledSet, Preprocessing, splits
from tfdml.training.options import Split

LEAST_IMAGES = 8
_DRAWS = 100  # of parts by images, before a set is refused
_COUNTS = ("no class", "one class")


class DataSplits(NamedTuple):
    """The training, validation and test part of a set.

    With `split_by="image"`, the classes are the same: queries of the other parts are searched in `train`.
    """

    train: LabeledSet
    validation: LabeledSet
    test: LabeledSet | None
    split_by: Split
    train_rows: np.ndarray
    reported_rows: np.ndarray

    @property
    def parts(self) -> dict[str, LabeledSet]:
        """The parts that there are, by name."""
        parts = {"training": self.train, "validation": self.validation, "test": self.test}
        return {name: part for name, part in parts.items() if part is not None}

    def read_by(self, load: Preprocessing) -> "DataSplits":
        """The same parts, read in another way."""
        train, validation, *test = [replace(part, load=load) for part in self.parts.values()]
        return self._replace(train=train, validation=validation, test=test[0] if test else None)

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


def _require_trainable(images):
    """Raise a ValueError unless a set has pairs of two classes, and images to validate on."""
    sizes = class_sizes(images)
    received = f"a set of {len(images)} usable images in {np.count_nonzero(sizes)} classes"
    folders = "one folder of images per class, or a table with the columns path and label"
    require(bool(np.count_nonzero(sizes) >= 2), received, f"at least two classes: {folders}")
    pairs = np.count_nonzero(sizes >= 2)
    expected = f"two classes or more that have two images, because a network learns from pairs of a class: {folders}"
    require(bool(pairs >= 2), f"{received}, of which {pairs} have two images or more", expected)
    require(len(images) >= LEAST_IMAGES, received, f"at least {LEAST_IMAGES}, to train and to validate on")


def split_set(images: LabeledSet, *, split_by: Split, validation: float, test: float, seed: int) -> DataSplits:
    """Split a set at random into parts that can be trained on and measured.

    The draw depends on the seed and the names of the classes. A draw by images is repeated if a part cannot be
    measured. Classes of one image have no pair to measure: they are in the training part.
    """
    _require_trainable(images)
    draws = _DRAWS if split_by == "image" else 1  # by classes, the seed changes no number
    for number in range(draws):
        rows = _drawn(images, split_by, validation, test, seed - number if seed > 0 else seed + number)
        problem = _problem(images, rows, split_by)
        if problem is None:
            break
    else:
        raise ValueError("Received {}, expected {}.".format(*problem))
    parts = {name: _part(images, part, split_by) for name, part in rows.items()}
    reported = rows.get("test", rows["validation"])
    return DataSplits(parts["training"], parts["validation"], parts.get("test"), split_by, rows["training"], reported)


def _drawn(images, split_by, validation, test, seed):
    """Rows of each part by its name; a part that the fractions leave empty has none."""
    is_alone = class_sizes(images)[images.labels] == 1
    rows, held_out = np.flatnonzero(~is_alone), {}
    for name, fraction in (("test", test), ("validation", validation / (1 - test))):
        if fraction:
            rows, held_out[name] = _split_rows(images, rows, fraction, split_by, seed)
    return {"training": np.sort(np.concatenate([rows, np.flatnonzero(is_alone)])), **held_out}


def _split_rows(images, rows, fraction, by, seed):
    """Two parts of some rows of a set, of which the second has about this fraction."""
    try:
        training, held_out = splits.split(images.take(rows), fraction, by=by, seed=seed)
    except ValueError:  # the second part would have none
        return rows, rows[:0]
    return rows[training], rows[held_out]


def _problem(images, rows, split_by):
    """Received and expected texts where a part cannot be measured or trained on, else None."""
    other = "split_by='image'" if split_by == "class" else "more images"
    for name in [name for name in rows if name != "training"]:
        classes = len(np.unique(images.labels[rows[name]]))
        if classes < 2:
            advice = f"as one has only right neighbors. Pass a larger {name} fraction, or {other}"
            return f"a {name} part of {_COUNTS[classes]}", f"two classes or more, {advice}"
    pairs = np.count_nonzero(class_sizes(images.take(rows["training"])) >= 2)
    if pairs < 2:
        received = f"a training part with {_COUNTS[pairs]} of two images or more"
        return received, f"two, to learn from their pairs. Pass smaller fractions, or {other}"
    return None


def _part(images, rows, by):
    part = images.take(rows)
    return part if by == "image" else part.select_classes(np.unique(part.labels))
