"""A set without classes: each image is a class of its own, whose examples are random views of it."""

import csv
import io
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfdml import search
from tfdml._core.checks import counted, require
from tfdml._core.optional import optional_packages
from tfdml.datasets import LabeledSet, RandomResizedCrop, compose, splits
from tfdml.embedding.in_memory import embed
from tfdml.training.settings import TrainingSettings
from tfdml.training.views import RandomLight

LEAST_IMAGES = 40
MOST_COMPARED = 20_000  # images whose nearest neighbors are looked for
_TRIED_VIEWS, _TRUSTED = 500, 0.5  # views that are searched, and the share that has to be found
_GALLERY = 4_000  # images among which a view is searched
_AREA = (0.3, 0.9)  # of an image that a view for the measurement shows
_QUALITY = (20, 80)  # of its JPEG
_SPLIT_SEED, _VIEW_SEED = 17, 2**32


def ids_of(images: LabeledSet) -> np.ndarray:
    """Ids of what is alike in training, `(n,)`: the class of an image that has one, and else the image alone."""
    numbers = len(images.class_names) + np.arange(len(images))
    return np.unique(np.where(images.labels >= 0, images.labels, numbers), return_inverse=True)[1]


def neighbors_of(train: LabeledSet, network: keras.Model, size: int) -> tuple[np.ndarray, float]:
    """The ids of a training part, in which two images that are nearest to each other share one.

    Two such images often show one thing, and would be false negatives of each other. The network before training is
    trusted to tell if it finds the image of half of some views.

    Returns:
        `(images,)` ids, and the share of the views that find their image.
    """
    rows = np.random.default_rng(_VIEW_SEED).permutation(len(train))[:_TRIED_VIEWS]
    vectors = np.asarray(embed(network, train))
    views = np.asarray(embed(network, views_of(train.take(rows), rows, size)))
    nearest, _ = search.Exact(vectors[rows]).search(views, 1)
    share = float(np.mean(nearest[:, 0] == np.arange(len(rows))))
    if share < _TRUSTED:
        return train.labels, share
    two, _ = search.Exact(vectors).search(vectors, 2)
    rows = np.arange(len(train))
    nearest = np.where(two[:, 0] == rows, two[:, 1], two[:, 0])
    is_alone = np.bincount(train.labels)[train.labels] == 1  # one of a class has its neighbors already
    is_alike = (nearest[nearest] == rows) & is_alone & is_alone[nearest]
    return np.where(is_alike, np.minimum(train.labels, train.labels[nearest]), train.labels), share


def split_views(images: LabeledSet, validation: float, test: float, seed: int) -> dict[str, np.ndarray]:
    """Rows of the training part, of the parts whose views are measured, and of the gallery that has their images."""
    expected = f"at least {LEAST_IMAGES}, to train and to measure on, better some hundreds. With fewer images, take "
    expected += "the network as it is: tfdml index FOLDER --model MODEL"
    require(len(images) >= LEAST_IMAGES, f"{counted(len(images), 'usable image')} for unlabeled=True", expected)
    order = np.random.default_rng([seed, _SPLIT_SEED]).permutation(len(images))
    count = {"validation": max(round(validation * len(images)), 8), "test": round(test * len(images))}
    rows = {"validation": order[: count["validation"]]}
    if count["test"]:
        rows["test"] = order[count["validation"] : count["validation"] + count["test"]]
    held_back = np.concatenate(list(rows.values()))
    others = order[len(held_back) :]
    gallery = np.concatenate([held_back, others[: max(_GALLERY - len(held_back), 0)]])
    return {name: np.sort(each) for name, each in ({"training": others} | rows | {"gallery": gallery}).items()}


def split_labels(images: LabeledSet, settings: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Rows of the training part, and of the parts that a table of labels measures."""
    labels, _ = read_labels(settings["labels"], images)
    sizes = np.bincount(labels[labels >= 0], minlength=1)
    rows = np.flatnonzero((labels >= 0) & (sizes[labels] >= 2))
    num_classes = int(np.count_nonzero(sizes >= 2))
    received = f"labels={settings['labels']!r} with {counted(num_classes, 'class')} of two images"
    require(num_classes >= 2, received, "two classes or more of two images of the set, or more")
    split = {"training": np.setdiff1d(np.arange(len(images)), rows), "validation": rows}
    received = f"labels={settings['labels']!r} of {len(rows):,} among {len(images):,} images"
    require(len(split["training"]) > 1, received, "images to train on beside them")
    if settings["test"]:
        share = settings["test"] / (settings["test"] + settings["validation"])
        labeled = replace(images.take(rows), labels=labels[rows], class_names=tuple(map(str, range(len(sizes)))))
        first, second = splits.split(labeled, share, by="class", seed=settings["seed"])
        split |= {"validation": rows[first], "test": rows[second]}
    return split


def parts_of_unlabeled(
    images: LabeledSet, rows: Mapping[str, np.ndarray], settings: TrainingSettings
) -> dict[str, LabeledSet]:
    """The parts by their names: images to train on, each with an id, and labeled images, or views, to measure on.

    With views, there is a part "gallery": the images among which a view is to find its own.
    """
    ids = ids_of(images)
    names = tuple(map(str, range(int(ids.max()) + 1)))
    train = rows["training"]
    sets = {"training": replace(images.take(train), labels=ids[train], class_names=names)}
    held_back = [name for name in ("validation", "test") if name in rows]
    if settings.labels != "none":
        labels, class_names = read_labels(settings.labels, images)
        for name in held_back:
            labeled = replace(images.take(rows[name]), labels=labels[rows[name]], class_names=class_names)
            sets[name] = labeled.select_classes(np.unique(labeled.labels))
        return sets
    names = tuple(map(str, range(len(images)) if images.names is None else images.names))
    numbers = np.arange(len(images))
    for name in held_back:
        views = views_of(images.take(rows[name]), rows[name], settings.size)
        sets[name] = LabeledSet(images=views, labels=numbers[rows[name]], class_names=names)
    gallery = rows["gallery"]
    return sets | {"gallery": replace(images.take(gallery), labels=numbers[gallery], class_names=names)}


def views_of(images: Any, numbers: np.ndarray, size: int) -> np.ndarray:
    """A view of each image, `(n, size, size, 3)` uint8: cropped, relit, and compressed, as its number says."""
    optional_packages(("PIL",), feature="unlabeled=True", extra="photos")
    augment = compose(RandomResizedCrop(size, area=_AREA, mirror=False), RandomLight())
    load: Any = images.load
    uncropped = replace(images, load=load.uncropped).examples()
    qualities = np.random.default_rng(_VIEW_SEED).integers(*_QUALITY, int(numbers.max(initial=0)) + 1)
    views = [
        _compressed(np.asarray(augment(pixels, (_VIEW_SEED, number))), int(qualities[number]))
        for pixels, number in zip(uncropped, numbers.tolist(), strict=True)
    ]
    return np.stack(views)


def _compressed(pixels, quality):
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file))


def read_labels(path: str, images: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    """The classes of a table by image, `(n,)` with -1 for none, and their names.

    A path of the table begins at its folder, or at the folder of the set. Images that could not be used are left out.
    """
    paths: Any = images.paths
    require(paths is not None, f"labels={path!r} for images without files", "a set of files")
    file = Path(path).expanduser()
    require(file.is_file(), f"labels={path!r}, which is no file", "a table with the columns path and label")
    with file.open(encoding="utf-8-sig", newline="") as lines:
        table = list(csv.DictReader(lines))
    columns = sorted(name for name in (table[0] if table else {}) if name)
    require({"path", "label"} <= set(columns), f"{path!r} with the columns {columns}", "the columns path and label")
    full = [os.path.abspath(name) for name in paths.tolist()]
    row_of = {name: row for row, name in enumerate(full)}
    roots = [file.resolve().parent, Path(os.path.commonpath(full) if len(full) > 1 else full[0]), Path.cwd()]
    class_names = tuple(sorted({row["label"] for row in table if row["label"]}))
    labels = np.full(len(images), -1)
    for number, row in enumerate(table, 2):
        candidates = [os.path.abspath(root / row["path"]) for root in roots]
        matches = [row_of[name] for name in candidates if name in row_of]
        exists = matches or any(map(os.path.isfile, candidates))
        require(bool(exists), f"{row['path']!r} in line {number} of {path!r}", "an image of the set")
        if matches and row["label"]:
            labels[matches[0]] = class_names.index(row["label"])
    return labels, class_names
