"""Colorblind-safe colors, frames and markers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, is_labeled_set, require
from tfdml.typing import Examples

RIGHT, WRONG = "#2a9d4a", "#d1495b"
FRAMES: dict[bool, dict[str, Any]] = {
    True: {"color": RIGHT, "linestyle": "solid", "linewidth": 2.5},
    False: {"color": WRONG, "linestyle": (0, (2, 1.2)), "linewidth": 2.5},
}

# The palette of Okabe and Ito, Color Universal Design, 2008, with a marker per color.
CLASS_STYLES = [
    ("#0072b2", "o"),
    ("#e69f00", "s"),
    ("#009e73", "^"),
    ("#cc79a7", "D"),
    ("#56b4e9", "v"),
    ("#d55e00", "P"),
    ("#000000", "X"),
    ("#b8a900", "*"),
]
SINGLE_COLOR = "#56707e"  # of points without labels, or of more classes than there are styles


def labels_and_names(
    data: Examples | None, labels: npt.ArrayLike | None, count: int
) -> tuple[np.ndarray | None, Callable[[int], str]]:
    """Class ids `(count,)` or None, and a function from an id to its name; `labels` replace the labels of a set."""
    if data is not None:
        require(len(data) == count, f"{count} embeddings of {len(data)} examples", "one embedding per example")
    if labels is not None:
        return as_ids(labels, "labels", count), str
    if is_labeled_set(data):
        return np.asarray(data.labels), lambda label: "no label" if label < 0 else data.class_names[label]
    return None, str


def class_styles(labels: np.ndarray | None) -> dict[int, tuple[str, str]]:
    """A color and a marker for each class; empty without labels and for more classes than there are styles."""
    classes = [] if labels is None else np.unique(labels).tolist()
    return dict(zip(classes, CLASS_STYLES, strict=False)) if len(classes) <= len(CLASS_STYLES) else {}
