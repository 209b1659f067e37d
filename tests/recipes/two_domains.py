"""A table of photos in two domains, for the recipes that search across them."""

import csv

import numpy as np
from PIL import Image

SPLITS = ("train", "validation", "test")


def table_of(folder, domains):
    """A table of 16 classes in each split: flat images of a color of the class, which both domains share."""
    lines = []
    for split in SPLITS:
        for label in range(16):
            for domain in domains:
                for copy in range(2):
                    path = f"{split}-{label}-{domain}-{copy}.png"
                    color = np.random.default_rng([label, len(split)]).integers(0, 256, 3)
                    Image.fromarray(np.full((32, 32, 3), color, np.uint8)).save(folder / path)
                    lines.append([path, f"{split} {label}", domain, f"kind {label % 3}", split])
    with open(folder / "photos.csv", "w", newline="") as file:
        csv.writer(file).writerows([["path", "label", "domain", "category", "split"], *lines])
    return folder / "photos.csv"


def are_both_domains(pair, split, domains):
    """Whether both sets of a split have the same classes, and the 32 images of their domain."""
    return pair[0].class_names == pair[1].class_names and all(
        len(half) == 32 and all(f"{split}-" in path and f"-{domain}-" in path for path in half.paths)
        for half, domain in zip(pair, domains, strict=True)
    )
