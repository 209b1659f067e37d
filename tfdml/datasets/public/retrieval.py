"""The four retrieval benchmarks of the papers, from their original files."""

import os
import pathlib

import numpy as np

from tfdml._core.checks import require
from tfdml.datasets.images.preprocessing import Preprocessing
from tfdml.datasets.labeled_set import LabeledSet
from tfdml.datasets.public.files import Loader, as_columns, existing_paths, read_lists, require_counts, require_tree

# Images and classes of each part.
COUNTS = {
    "cub200-2011": {"train": (5_864, 100), "test": (5_924, 100)},
    "cars196": {"train": (8_054, 98), "test": (8_131, 98)},
    "sop": {"train": (59_551, 11_318), "test": (60_502, 11_316)},
    "in-shop": {"train": (25_882, 3_997), "query": (14_218, 3_985), "gallery": (12_612, 3_985)},
}
_SPLITS = {"cub200-2011": "100-100", "cars196": "98-98", "sop": "11318-11316", "in-shop": "3997-3985"}

_CUB_TREE = """
CUB_200_2011/
    images.txt  image_class_labels.txt  classes.txt  bounding_boxes.txt
    images/001.Black_footed_Albatross/Black_Footed_Albatross_0001_796111.jpg ..."""
_CARS_TREE = """
cars196/
    cars_annos.mat
    car_ims/000001.jpg ...
or
    devkit/cars_meta.mat  devkit/cars_train_annos.mat  cars_test_annos_withlabels.mat
    cars_train/00001.jpg ...  cars_test/00001.jpg ..."""
_SOP_TREE = """
Stanford_Online_Products/
    Ebay_train.txt  Ebay_test.txt
    bicycle_final/111085122871_0.JPG ..."""
_IN_SHOP_TREE = """
In-shop/
    Eval/list_eval_partition.txt  Anno/list_bbox_inshop.txt
    Img/img/WOMEN/Dresses/id_00000002/02_1_front.jpg ..."""


def cub200(root: str | os.PathLike[str], *, load: Loader | None = None) -> tuple[LabeledSet, LabeledSet]:
    """CUB-200-2011: birds; classes 1 to 100 for training, 101 to 200 for testing, with a box around each bird.

    Args:
        root: the folder `CUB_200_2011` of the original archive.
        load: function from a path to an example; `Preprocessing(size=224)` by default.

    Returns:
        `(train, test)` with 5,864 and 5,924 images of 100 classes each.

    Source: Wah, Branson, Welinder, Perona, Belongie, The Caltech-UCSD Birds-200-2011 Dataset, 2011. Its terms allow
    non-commercial research and education.
    """
    rows = read_lists(root, _CUB_TREE, "images.txt", "image_class_labels.txt", "bounding_boxes.txt")
    files, classes, boxes = (as_columns(table, columns) for table, columns in zip(rows, (2, 2, 5), strict=True))
    ids = [[row[0] for row in table] for table in (files, classes, boxes)]
    received = f"root={os.fspath(root)!r} with lists of different images"
    require(ids[0] == ids[1] == ids[2], received, "one line each")
    names = {int(number): name for number, name in as_columns(read_lists(root, _CUB_TREE, "classes.txt")[0], 2)}
    x, y, width, height = np.array([row[1:] for row in boxes], dtype=np.float64).T
    corners = np.stack([x, y, x + width, y + height], axis=1)
    labels = np.array([int(label) for _, label in classes])
    return _sets(
        "cub200-2011",
        _halves(labels <= 100),
        load=load,
        paths=existing_paths(root, _CUB_TREE, [f"images/{name}" for _, name in files]),
        classes=labels,
        boxes=corners,
        class_name=names.__getitem__,
    )


def cars196(root: str | os.PathLike[str], *, load: Loader | None = None) -> tuple[LabeledSet, LabeledSet]:
    """Cars196: classes 1 to 98 for training, 99 to 196 for testing, with a box around each car.

    Both forms of the original files are read: the combined one (`car_ims`, `cars_annos.mat`) and the form of the
    competition (`cars_train`, `cars_test`, `devkit`, `cars_test_annos_withlabels.mat`), whose two folders are joined.

    Args:
        root: the folder of these files.
        load: function from a path to an example; `Preprocessing(size=224)` by default.

    Returns:
        `(train, test)` with 8,054 and 8,131 images of 98 classes each.

    Source: Krause, Stark, Deng, Fei-Fei, 3D Object Representations for Fine-Grained Categorization, 3dRR 2013.
    """
    folder = pathlib.Path(root)
    if (folder / "cars_annos.mat").is_file():
        rows, names = _mat(folder, "cars_annos.mat", "annotations"), _mat(folder, "cars_annos.mat", "class_names")
        files = [_text(row["relative_im_path"]) for row in rows]
    else:
        lists = {"cars_train": "devkit/cars_train_annos.mat", "cars_test": "cars_test_annos_withlabels.mat"}
        tables = {name: _mat(folder, file, "annotations") for name, file in lists.items()}
        rows, names = np.concatenate(list(tables.values())), _mat(folder, "devkit/cars_meta.mat", "class_names")
        files = [f"{name}/{_text(row['fname'])}" for name, table in tables.items() for row in table]
    corners = [[float(np.ravel(row[f"bbox_{side}"])[0]) for side in ("x1", "y1", "x2", "y2")] for row in rows]
    labels = np.array([int(np.ravel(row["class"])[0]) for row in rows])
    return _sets(
        "cars196",
        _halves(labels <= 98),
        load=load,
        paths=existing_paths(root, _CARS_TREE, files),
        classes=labels,
        boxes=np.array(corners),
        class_name=lambda number: _text(names[number - 1]),
    )


def stanford_online_products(
    root: str | os.PathLike[str], *, load: Loader | None = None
) -> tuple[LabeledSet, LabeledSet]:
    """Stanford Online Products: `Ebay_train.txt` for training, `Ebay_test.txt` for testing, without a common class.

    Args:
        root: the folder `Stanford_Online_Products` of the original archive.
        load: function from a path to an example; `Preprocessing(size=224)` by default.

    Returns:
        `(train, test)` with 59,551 images of 11,318 classes and 60,502 images of 11,316 classes.

    Source: Oh Song, Xiang, Jegelka, Savarese, Deep Metric Learning via Lifted Structured Feature Embedding, CVPR 2016.
    """
    lists = [as_columns(rows[1:], 4) for rows in read_lists(root, _SOP_TREE, "Ebay_train.txt", "Ebay_test.txt")]
    rows = [row for table in lists for row in table]
    return _sets(
        "sop",
        _halves(np.repeat([True, False], [len(table) for table in lists])),
        load=load,
        paths=existing_paths(root, _SOP_TREE, [path for *_, path in rows]),
        classes=np.array([int(label) for _, label, _, _ in rows]),
        boxes=None,
    )


def in_shop(root: str | os.PathLike[str], *, load: Loader | None = None) -> tuple[LabeledSet, LabeledSet, LabeledSet]:
    """In-Shop Clothes Retrieval: items for training, and other items with query and gallery images.

    The boxes belong to the 256 x 256 images of the original archive. Query and gallery share their labels, and no
    image: measure them with `tfdml.metrics.retrieval(..., gallery=...)`.

    Args:
        root: the folder with `Eval`, `Anno` and `Img`.
        load: function from a path to an example; `Preprocessing(size=224)` by default.

    Returns:
        `(train, query, gallery)` with 25,882 images of 3,997 items, 14,218 and 12,612 images of 3,985 items.

    Source: Liu, Luo, Qiu, Wang, Tang, DeepFashion, CVPR 2016. Its terms allow non-commercial research and education.
    """
    partition, bounds = read_lists(root, _IN_SHOP_TREE, "Eval/list_eval_partition.txt", "Anno/list_bbox_inshop.txt")
    rows, boxes = as_columns(partition[2:], 3), {row[0]: row[3:] for row in as_columns(bounds[2:], 7)}
    unknown = {status for *_, status in rows} - {"train", "query", "gallery"}
    require(not unknown, f"status {min(unknown, default='')!r} of an image", "train, query or gallery")
    missing = [file for file, *_ in rows if file not in boxes]
    require(not missing, f"no box of {(missing or [''])[0]} in list_bbox_inshop.txt", "one per image")
    paths = existing_paths(root, _IN_SHOP_TREE, [f"Img/{file}" for file, *_ in rows])
    items, statuses = (np.array(column) for column in list(zip(*rows, strict=True))[1:])
    corners = np.array([boxes[file] for file, *_ in rows], dtype=np.float64)
    masks = {split: statuses == split for split in ("train", "query", "gallery")}
    return _sets("in-shop", masks, load=load, paths=paths, classes=items, boxes=corners, shared=("query", "gallery"))


def _halves(is_train):
    return {"train": is_train, "test": ~is_train}


def _sets(name, masks, *, load, paths, classes, boxes, shared=(), class_name=str):
    """A set for each split, by masks `(n,)` bool; its labels are dense, and `shared` splits have the same ones."""
    image = "full-image" if name != "in-shop" else "query-gallery"
    ids = {split: np.unique(classes[rows]) for split, rows in masks.items()}
    sets = []
    for split, rows in masks.items():
        require_counts(f"the {split} part of {name}", (rows.sum(), len(ids[split])), COUNTS[name][split])
        class_ids = np.unique(np.concatenate([ids[each] for each in (shared if split in shared else (split,))]))
        named_classes = _SPLITS[name] + ("-train" if split == "train" else "")
        sets.append(
            LabeledSet(
                paths=paths[rows],
                labels=np.searchsorted(class_ids, classes[rows]).astype(np.int64),
                class_names=tuple(class_name(label) for label in class_ids.tolist()),
                boxes=None if boxes is None else boxes[rows],
                load=load or Preprocessing(size=224),
                protocol=f"{name}/{named_classes}/{image}/v1",
            )
        )
    return tuple(sets)


def _mat(folder, name, variable):
    from scipy import io

    require_tree((folder / name).is_file(), folder, f", which has no {name}", _CARS_TREE)
    return np.ravel(io.loadmat(folder / name)[variable])


def _text(cell):
    """The text in a cell of a MATLAB file, inside nested arrays."""
    while isinstance(cell, np.ndarray):
        cell = np.ravel(cell)[0]
    return str(cell)
