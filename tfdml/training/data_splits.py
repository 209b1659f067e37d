"""The parts of a set: images to train on, to choose the best epoch on, and to measure once."""

from collections.abc import Mapping

import numpy as np

from tfdml._core.checks import counted, require
from tfdml.datasets import LabeledSet, splits
from tfdml.training.settings import Split

LEAST_IMAGES = 8
_DRAWS = 100  # of parts by images, before a set is refused
_COUNTS = ("no class", "one class")


def _require_trainable(labels):
    sizes = np.bincount(labels[labels >= 0])
    received = f"a set of {len(labels)} usable images in {counted(np.count_nonzero(sizes), 'class')}"
    folders = "one folder of images per class, or a table with the columns path and label"
    folders += "" if len(sizes) else ". To learn from images without classes, pass unlabeled=True (--unlabeled)"
    require(bool(np.count_nonzero(sizes) >= 2), received, f"at least two classes: {folders}")
    pairs = np.count_nonzero(sizes >= 2)
    expected = f"two classes or more that have two images, because a network learns from pairs of a class: {folders}"
    require(bool(pairs >= 2), f"{received}; {counted(pairs, 'class')} with two images or more", expected)
    require(int(sizes.sum()) >= LEAST_IMAGES, received, f"at least {LEAST_IMAGES}, to train and to validate on")


def split_rows(
    images: LabeledSet, *, split_by: Split, validation: float, test: float, seed: int
) -> dict[str, np.ndarray]:
    """Split a set at random into parts that can be trained on and measured: the rows of each part by its name.

    The draw depends on the seed and the names of the classes. A draw by images is repeated if a part cannot be
    measured. Classes of one image have no pair to measure: they are in the training part. Images without a label are in
    no part.
    """
    _require_trainable(images.labels)
    draws = _DRAWS if split_by == "image" else 1  # by classes, the seed changes no number
    for number in range(draws):
        rows = _drawn(images, split_by, validation, test, seed - number if seed > 0 else seed + number)
        problem = _problem(images.labels, rows, split_by)
        if problem is None:
            break
    else:
        raise ValueError("Received {}, expected {}.".format(*problem))
    return {name: rows[name] for name in ("training", "validation", "test") if name in rows}


def _drawn(images, split_by, validation, test, seed):
    """Rows of each part by its name; a part that the fractions leave empty has none."""
    labeled = np.flatnonzero(images.labels >= 0)
    is_alone = np.bincount(images.labels[labeled])[images.labels[labeled]] == 1
    alone, rows, held_out = labeled[is_alone], labeled[~is_alone], {}
    for name, fraction in (("test", test), ("validation", validation / (1 - test))):
        if fraction:
            rows, held_out[name] = _split_rows(images, rows, fraction, split_by, seed)
    return {"training": np.sort(np.concatenate([rows, alone])), **held_out}


def _split_rows(images, rows, fraction, by, seed):
    """Some rows of a set in two parts; the second has about this fraction."""
    try:
        training, held_out = splits.split(images.take(rows), fraction, by=by, seed=seed)
    except ValueError:  # the second part would have none
        return rows, rows[:0]
    return rows[training], rows[held_out]


def _problem(labels, rows, split_by):
    other = "split_by='image'" if split_by == "class" else "more images"
    for name in [name for name in rows if name != "training"]:
        classes = len(np.unique(labels[rows[name]]))
        if classes < 2:
            advice = f"as one has only right neighbors. Pass a larger {name} fraction, or {other}"
            return f"a {name} part of {_COUNTS[classes]}", f"two classes or more, {advice}"
    pairs = np.count_nonzero(np.bincount(labels[rows["training"]]) >= 2)
    if pairs < 2:
        received = f"a training part with {_COUNTS[pairs]} of two images or more"
        return received, f"two, to learn from their pairs. Pass smaller fractions, or {other}"
    return None


def parts_of(images: LabeledSet, rows: Mapping[str, np.ndarray], split_by: Split) -> dict[str, LabeledSet]:
    """The parts of a set by their names; with `split_by="class"`, each has its own classes alone."""
    parts = {name: images.take(part_rows) for name, part_rows in rows.items()}
    if split_by == "image":
        return parts
    return {name: part.select_classes(np.unique(part.labels)) for name, part in parts.items()}
