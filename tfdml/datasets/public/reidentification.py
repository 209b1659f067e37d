"""Benchmarks of re-identification, from their original files: persons by several cameras, and vehicles."""

import os
import pathlib
import re
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tfdml._core.checks import require, require_one_of
from tfdml.datasets.images.preprocessing import Preprocessing
from tfdml.datasets.labeled_set import COLUMN, LabeledSet
from tfdml.datasets.public.files import Loader, as_columns, existing_paths, read_lists, require_counts, require_tree
from tfdml.datasets.readers.text import is_whole

# Images and identities of each part, without junk; distractors count as one identity. None: no source states it.
MARKET_COUNTS = {"train": (12_936, 751), "query": (3_368, 750), "gallery": (15_913, 751)}
VEHICLE_COUNTS: dict[str, tuple[int | None, int]] = {
    "train": (113_346, 13_164),
    "800": (6_493, 800),
    "1600": (13_377, 1_600),
    "2400": (19_777, 2_400),
    "3200": (None, 3_200),
    "6000": (None, 6_000),
    "13164": (None, 13_164),
}

_MARKET_FOLDERS = {"train": "bounding_box_train", "query": "query", "gallery": "bounding_box_test"}
_MARKET_NAME = re.compile(r"(?P<identity>-1|\d{4})_c(?P<camera>\d)s(?P<sequence>\d)_\d{6}_\d{2}\.jpg")
_JUNK, _DISTRACTORS = "-1", "0000"
_MARKET_TREE = """
Market-1501-v15.09.15/
    bounding_box_train/0002_c1s1_000451_03.jpg ...
    query/0001_c1s1_001051_00.jpg ...
    bounding_box_test/-1_c1s1_000401_03.jpg 0000_c1s1_000151_01.jpg 0001_c1s1_001051_03.jpg ..."""
_VEHICLE_TREE = """
VehicleID_V1.0/
    image/0000001.jpg ...
    train_test_split/train_list.txt  test_list_800.txt  test_list_1600.txt  test_list_2400.txt ...
    attribute/model_attr.txt  color_attr.txt    (both may be missing)"""


def market1501(
    root: str | os.PathLike[str], *, load: Loader | None = None
) -> tuple[LabeledSet, LabeledSet, LabeledSet]:
    """Market-1501: persons seen by six cameras, cut out by a detector; queries are cut out by hand.

    `cameras` are the numbers in the names, 1 to 6. `groups` are the sequences: c3s2, the second sequence of the third
    camera, is group 32. Junk detections (identity -1) are in `gallery.skipped`. Distractors (identity 0000), detections
    of nobody or of persons without a query, stay in the gallery, under the class "0000" that no query has. Measure by

        tfdml.metrics.reidentification(queries, query.labels, query.cameras, gallery=items,
                                       gallery_labels=gallery.labels, gallery_cameras=gallery.cameras)

    Args:
        root: the folder `Market-1501-v15.09.15` of the original archive. It ignores files that are not `.jpg`.
        load: function from a path to an example; by default `Preprocessing(size=(256, 128))`.

    Returns:
        `(train, query, gallery)` with 12,936 images of 751 persons, and 3,368 and 15,913 images of 750 other persons;
        2,798 of the latter are distractors. Query and gallery share their class names, the identities as text.

    Source: Zheng, Shen, Tian, Wang, Wang, Tian, Scalable Person Re-identification: A Benchmark, ICCV 2015.
    """
    crops = {split: _crops(pathlib.Path(root), folder) for split, folder in _MARKET_FOLDERS.items()}
    names_by_split = {split: sorted({crop.identity for crop in crops[split]} - {_JUNK}) for split in crops}
    for split, names in names_by_split.items():
        images = sum(crop.identity != _JUNK for crop in crops[split])
        require_counts(f"the {split} part of market1501", (images, len(names)), MARKET_COUNTS[split])
    tested = sorted({*names_by_split["query"], *names_by_split["gallery"]})
    names_by_split |= {"query": tested, "gallery": tested}
    return tuple(_market_set(split, crops[split], names_by_split[split], load) for split in crops)


class _Crop(NamedTuple):
    """An image of Market-1501, and what its name says."""

    path: str
    identity: str
    camera: int
    sequence: int


def _crops(root, folder):
    require_tree((root / folder).is_dir(), root, f", which has no {folder}", _MARKET_TREE)
    return [_crop(root / folder, name) for name in sorted(os.listdir(root / folder)) if name.endswith(".jpg")]


def _crop(folder, name):
    match = _MARKET_NAME.fullmatch(name)
    if match is None:
        raise ValueError(
            f"Received the image {name!r} in {str(folder)!r}, expected names as in these files:{_MARKET_TREE}"
        )
    return _Crop(str(folder / name), match["identity"], int(match["camera"]), int(match["sequence"]))


def _market_set(split, crops, names, load):
    used = [crop for crop in crops if crop.identity != _JUNK]
    number_of = {name: number for number, name in enumerate(names)}
    cameras, sequences = (np.array([getattr(crop, key) for crop in used], np.int64) for key in ("camera", "sequence"))
    return LabeledSet(
        paths=np.array([crop.path for crop in used]),
        labels=np.array([number_of[crop.identity] for crop in used], np.int64),
        class_names=tuple(names),
        cameras=cameras,
        groups=10 * cameras + sequences,
        load=load or Preprocessing(size=(256, 128)),
        skipped=tuple((crop.path, "junk, identity -1") for crop in crops if crop.identity == _JUNK),
        protocol=f"market1501/751-750{'-train' * (split == 'train')}/single-query/v1",
    )


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Vehicles(LabeledSet):
    """One part of VehicleID: a `LabeledSet` whose classes are vehicles.

    Attributes:
        models: `(n,)` int64, the vehicle's model, 0 to 249, and -1 where unknown; None without the file of models.
        colors: `(n,)` int64, the vehicle's color, 0 to 6, and -1 where it is unknown; None without the file of colors.
    """

    models: np.ndarray | None = field(default=None, metadata=COLUMN)
    colors: np.ndarray | None = field(default=None, metadata=COLUMN)


def vehicle_id(
    root: str | os.PathLike[str], *, test: int = 800, load: Loader | None = None
) -> tuple[Vehicles, Vehicles]:
    """VehicleID of Peking University: vehicles from front and rear, by unnamed surveillance cameras.

    The protocol has one random image per vehicle as the gallery, ten times:

        tfdml.metrics.random_gallery(embeddings, test.labels)

    A vehicle with one image has no query. Leave-one-out by `tfdml.metrics.retrieval` gives much higher numbers.

    Args:
        root: the folder `VehicleID_V1.0` of the original archive.
        test: number of vehicles of the test list: 800, 1600 and 2400 are the small, medium and large one of the paper;
            3200, 6000 and 13164 are the other lists of the archive.
        load: function from a path to an example; `Preprocessing(size=224)` by default.

    Returns:
        `(train, test)`, with 113,346 images of 13,164 vehicles, and, of 800, 1600 and 2400 other vehicles, 6,493,
        13,377 and 19,777 images. The class names are the numbers of the vehicles.

    Source: Liu, Tian, Yang, Pang, Huang, Deep Relative Distance Learning: Tell the Difference Between Similar Vehicles,
    CVPR 2016. Its terms allow research only.
    """
    sizes = tuple(int(name) for name in VEHICLE_COUNTS if name != "train")
    require_one_of(sizes, test=test)
    names = (f"train_test_split/{name}.txt" for name in ("train_list", f"test_list_{test}"))
    lists = read_lists(root, _VEHICLE_TREE, *names)
    tables = [as_columns(lines, 2) for lines in lists]
    shared = set.intersection(*({vehicle for _, vehicle in table} for table in tables))
    received = f"{len(shared):,} vehicles in both lists, such as {min(shared, default='')}"
    require(not shared, received, "vehicles of one list only. The copy is damaged: unpack the archive again")
    attributes = {name: _attribute(root, f"attribute/{name}_attr.txt") for name in ("model", "color")}
    return tuple(
        _vehicle_set(root, split, table, attributes, load, test)
        for split, table in zip(("train", str(test)), tables, strict=True)
    )


def _attribute(root, name):
    """A dict from vehicle to number, None without the file."""
    if not pathlib.Path(root, name).is_file():
        return None
    rows = as_columns(read_lists(root, _VEHICLE_TREE, name)[0], 2)
    wrong = [" ".join(row) for row in rows if not is_whole(row[1])]
    require(not wrong, f"the line {wrong[:1]} in {name}", "a vehicle and a whole number. Download the set again")
    return {vehicle: int(number) for vehicle, number in rows}


def _vehicle_set(root, split, table, attributes, load, test):
    images, vehicles = ([row[column] for row in table] for column in (0, 1))
    names = sorted(set(vehicles), key=lambda name: (len(name), name))  # by number
    expected_images, expected_vehicles = VEHICLE_COUNTS[split]
    counts = (len(images) if expected_images is None else expected_images, expected_vehicles)
    require_counts(f"the list {split} of vehicle-id", (len(images), len(names)), counts)
    number_of = {name: number for number, name in enumerate(names)}
    models, colors = (_numbers(attributes[name], vehicles) for name in ("model", "color"))
    return Vehicles(
        paths=existing_paths(root, _VEHICLE_TREE, [f"image/{image}.jpg" for image in images]),
        labels=np.array([number_of[vehicle] for vehicle in vehicles], np.int64),
        class_names=tuple(names),
        models=models,
        colors=colors,
        load=load or Preprocessing(size=224),
        protocol=f"vehicle-id/{'train' if split == 'train' else f'test-{test}'}/single-gallery-x10/v1",
    )


def _numbers(attribute, vehicles):
    """The attribute of each image by its vehicle, -1 where it is unknown."""
    return None if attribute is None else np.array([attribute.get(vehicle, -1) for vehicle in vehicles], np.int64)
