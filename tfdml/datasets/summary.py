"""Summary of a labeled set."""

import collections
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

_BAR = 40  # width of the longest bar of a histogram, in characters


@dataclass(frozen=True, eq=False)
class Description:
    """Summary of a labeled set; it prints as a table and a histogram of class sizes.

    `class_sizes` are `(classes,)` int64, in the order of the class names; `groups` and `cameras` are numbers, None for
    a set without; `skipped` are the numbers of files and rows that are not in the set, by reason; `unlabeled` is the
    number of examples without a label; they are in no class.
    """

    class_sizes: np.ndarray
    groups: int | None
    boxes: bool
    skipped: Mapping[str, int]
    protocol: str | None
    cameras: int | None = None
    unlabeled: int = 0

    @property
    def examples(self) -> int:
        """Number of examples."""
        return int(self.class_sizes.sum()) + self.unlabeled

    @property
    def classes(self) -> int:
        """Number of classes with examples."""
        return int((self.class_sizes > 0).sum())

    @property
    def single(self) -> int:
        """Number of classes with one example, and so without a positive pair."""
        return int((self.class_sizes == 1).sum())

    def __str__(self) -> str:
        rows = list(_rows(self))
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:<{width}}  {value}" for name, value in rows]
        return "\n".join([*lines, *_histogram(self.class_sizes[self.class_sizes > 0])])

    __repr__ = __str__


def describe(labeled_set: Any) -> Description:
    """The `Description` of a labeled set."""
    has_label = labeled_set.labels >= 0
    return Description(
        class_sizes=np.bincount(labeled_set.labels[has_label], minlength=len(labeled_set.class_names)),
        groups=_count_of(labeled_set.groups),
        boxes=labeled_set.boxes is not None,
        skipped=dict(sorted(collections.Counter(reason for _, reason in labeled_set.skipped).items())),
        protocol=labeled_set.protocol,
        cameras=_count_of(labeled_set.cameras),
        unlabeled=int(np.count_nonzero(~has_label)),
    )


def _count_of(ids):
    return None if ids is None else len(np.unique(ids))


def _rows(description):
    sizes = description.class_sizes[description.class_sizes > 0]
    yield "examples", f"{description.examples:,}"
    yield "classes", f"{description.classes:,}"
    if len(sizes):
        yield "examples per class", f"{sizes.min():,} to {sizes.max():,}, median {np.median(sizes):g}"
    optional = {
        "examples without a label": description.unlabeled,
        "classes with one example": description.single,
        "classes without examples": len(description.class_sizes) - description.classes,
        "groups": description.groups,
        "cameras": description.cameras,
        "boxes": "one per example" if description.boxes else None,
        "protocol": description.protocol,
    }
    yield from ((name, f"{value:,}" if isinstance(value, int) else value) for name, value in optional.items() if value)
    yield from ((f"skipped, {reason}", f"{number:,}") for reason, number in description.skipped.items())


def _histogram(sizes):
    """Lines of a histogram; a bar is for sizes from a power of two to the next."""
    if not len(sizes):
        return
    counts = np.bincount(np.frexp(sizes)[1] - 1)
    ranges = [str(2**i) if i == 0 else f"{2**i:,} to {2 ** (i + 1) - 1:,}" for i in range(len(counts))]
    width, longest = max(map(len, ranges)), len(f"{counts.max():,}")
    yield "\nclasses by number of examples"
    for name, count in list(zip(ranges, counts, strict=True))[int(np.flatnonzero(counts)[0]) :]:
        bar = "#" * int(np.ceil(_BAR * count / counts.max()))
        yield f"{name:>{width}}  {count:>{longest},}  {bar}".rstrip()
