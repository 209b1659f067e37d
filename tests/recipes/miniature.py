"""Miniature copies of the retrieval benchmarks in their original formats, with images that can be decoded."""

import numpy as np
import tensorflow as tf


def photo(path, number, row):
    """Write a small JPEG of the color of a class."""
    level = np.random.default_rng(number).integers(40, 216, 3) + np.random.default_rng(row).integers(
        -20, 20, (40, 48, 3)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tf.io.encode_jpeg(np.clip(level, 0, 255).astype("uint8")).numpy())


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def rows(classes, images=3):
    """(number of the image from 1, number of its class), `images` for each class."""
    return list(enumerate(np.repeat(classes, images).tolist(), start=1))


def cub(root):
    listed = [(i, number, f"{number:03}.Bird/Bird_{i}.jpg") for i, number in rows([1, 2, 3, 4, 101, 102])]
    write(root / "images.txt", [f"{i} {file}" for i, _, file in listed])
    write(root / "image_class_labels.txt", [f"{i} {number}" for i, number, _ in listed])
    write(root / "bounding_boxes.txt", [f"{i} 4.0 2.0 30.0 36.0" for i, _, _ in listed])
    write(root / "classes.txt", [f"{number} {number:03}.Bird" for number in (1, 2, 3, 4, 101, 102)])
    for i, number, file in listed:
        photo(root / "images" / file, number, i)
    return "cub200-2011", {"train": (12, 4), "test": (6, 2)}


def in_shop(root):
    statuses = ["train"] * 12 + ["query", "gallery", "gallery"] * 2
    listed = [
        (f"img/WOMEN/Dresses/id_{number:08}/{i}.jpg", number, status)
        for (i, number), status in zip(rows([1, 2, 3, 4, 5, 6]), statuses, strict=True)
    ]
    partition = [f"{file}      id_{number:08} {status}      " for file, number, status in listed]
    write(root / "Eval/list_eval_partition.txt", ["18", "image_name item_id evaluation_status", *partition])
    boxes = [f"{file} 3 1 004 002 034 038" for file, _, _ in listed]
    header = "image_name clothes_type pose_type x_1 y_1 x_2 y_2"
    write(root / "Anno/list_bbox_inshop.txt", ["18", header, *boxes])
    for i, (file, number, _) in enumerate(listed):
        photo(root / "Img" / file, number, i)
    return "in-shop", {"train": (12, 4), "query": (2, 2), "gallery": (4, 2)}
