"""A set without classes: each image is a class of its own, whose examples are random views of it."""

import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tfdml._core.checks import counted, require
from tfdml._core.optional import optional_packages
from tfdml.datasets import LabeledSet, RandomResizedCrop, compose, splits
from tfdml.datasets.readers.label_tables import is_of_pairs, read_labels, read_pairs
from tfdml.training.settings import TrainingSettings
from tfdml.training.views import RandomLight, RandomWindow, on_other_images

LEAST_IMAGES = 40
_GALLERY = 4_000  # images among which a view is searched
_VIEWS, _MOST_VIEWS_EACH = 1_000, 4  # of a part that is measured, and of an image of a small part
_AREA = (0.3, 0.9)  # of an image that a view for the measurement shows
_QUALITY = (20, 80)  # of its JPEG
_SPLIT_SEED, _VIEW_SEED = 17, 2**32


def is_by_views(values: Mapping[str, Any]) -> bool:
    """Whether settings let views choose the best epoch: without labels, and with a table of pairs."""
    return values["unlabeled"] and (values["labels"] == "none" or is_of_pairs(values["labels"]))


def require_labels(values: Mapping[str, Any], images: LabeledSet) -> None:
    """Raise a ValueError for a table of labels or pairs that is not of a set, or that nothing uses."""
    labels = values.get("labels", "none")
    if labels != "none":
        require(values.get("unlabeled", False), f"labels={labels!r} without unlabeled=True", "both")
        (read_pairs if is_of_pairs(labels) else read_labels)(labels, images)


def ids_of(images: LabeledSet) -> np.ndarray:
    """Ids of what is alike in training, `(n,)`: the class of an image that has one, and else the image alone."""
    numbers = len(images.class_names) + np.arange(len(images))
    return np.unique(np.where(images.labels >= 0, images.labels, numbers), return_inverse=True)[1]


def split_views(images: LabeledSet, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Rows of the training part, of the parts whose views are measured, and of the gallery that has their images.

    The images of a table of pairs are a part of their own.
    """
    rows, order = {}, np.random.default_rng([values["seed"], _SPLIT_SEED]).permutation(len(images))
    if values["labels"] != "none":
        pairs = read_pairs(values["labels"], images, has_all=False)
        rows["pairs"] = np.union1d(pairs.first, pairs.second)
        order = order[~np.isin(order, rows["pairs"])]
    expected = f"at least {LEAST_IMAGES}, to train and to measure on, better some hundreds. With fewer images, take "
    expected += "the network as it is: tfdml index FOLDER --model MODEL"
    require(len(order) >= LEAST_IMAGES, f"{counted(len(order), 'usable image')} for unlabeled=True", expected)
    total = len(order)
    for name, least in (("validation", 8), ("test", 0)):
        count = max(round(values[name] * total), least)
        rows[name], order = order[:count], order[count:]
    rows["training"] = order
    held_back = np.concatenate([rows["validation"], rows["test"]])
    rows["gallery"] = np.concatenate([held_back, order[: max(_GALLERY - len(held_back), 0)]])
    names = ("training", "validation", "test", "pairs", "gallery")
    return {name: np.sort(rows[name]) for name in names if len(rows.get(name, ()))}


def split_labels(images: LabeledSet, settings: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Rows of the training part, and of the parts that a table of labels measures."""
    labels, _ = read_labels(settings["labels"], images, has_all=False)
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

    A small part has up to four views of each image, which say more about it. With views, there is a part "gallery": the
    images among which a view is to find its own.
    """
    ids = ids_of(images)
    names = tuple(map(str, range(int(ids.max()) + 1)))
    train = rows["training"]
    sets = {"training": replace(images.take(train), labels=ids[train], class_names=names)}
    held_back = [name for name in ("validation", "test") if name in rows]
    if "gallery" not in rows:
        labels, class_names = read_labels(settings.labels, images, has_all=False)
        for name in held_back:
            labeled = replace(images.take(rows[name]), labels=labels[rows[name]], class_names=class_names)
            sets[name] = labeled.select_classes(np.unique(labeled.labels))
        return sets
    names = tuple(map(str, range(len(images)) if images.names is None else images.names))
    numbers = np.arange(len(images))
    for name in held_back:
        views_each = min(max(_VIEWS // len(rows[name]), 1), _MOST_VIEWS_EACH)
        viewed = np.tile(rows[name], views_each)
        view_numbers = viewed + len(images) * np.repeat(np.arange(views_each), len(rows[name]))
        views = views_of(images.take(viewed), view_numbers, settings.size)
        sets[name] = LabeledSet(images=views, labels=viewed, class_names=names)
    gallery = rows["gallery"]
    return sets | {"gallery": replace(images.take(gallery), labels=numbers[gallery], class_names=names)}


def views_of(images: Any, numbers: np.ndarray, size: int) -> np.ndarray:
    """A view of each image, `(n, size, size, 3)` uint8: cropped, relit, and compressed, as its number says.

    Half of the views are in a window on the next one.
    """
    optional_packages(("PIL",), feature="unlabeled=True", extra="photos")
    augment = compose(RandomResizedCrop(size, area=_AREA, mirror=False), RandomLight(), RandomWindow())
    load: Any = images.load
    uncropped = replace(images, load=load.uncropped).examples()
    qualities = np.random.default_rng(_VIEW_SEED).integers(*_QUALITY, int(numbers.max(initial=0)) + 1)
    views = np.stack(
        [
            np.asarray(augment(pixels, (_VIEW_SEED, number)))
            for pixels, number in zip(uncropped, numbers.tolist(), strict=True)
        ]
    )
    views, _ = on_other_images((views, None), examples_per_class=1)
    return np.stack([_compressed(view, int(qualities[n])) for view, n in zip(np.asarray(views), numbers, strict=True)])


def _compressed(pixels, quality):
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file))
