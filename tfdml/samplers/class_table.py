"""Class tables: the rows of each class, computed once from the labels in NumPy."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids


class ClassTable(NamedTuple):
    """Rows grouped by class: the rows of class c are `rows[starts[c] : starts[c] + counts[c]]`; ids ascend."""

    ids: np.ndarray
    rows: np.ndarray
    starts: np.ndarray
    counts: np.ndarray

    def select(self, classes: np.ndarray) -> "ClassTable":
        """The table of these classes: booleans `(classes,)`, or indices in the order of the new table."""
        return self._replace(ids=self.ids[classes], starts=self.starts[classes], counts=self.counts[classes])


def class_table(labels: npt.ArrayLike) -> ClassTable:
    """The `ClassTable` of integer labels `(examples,)` or `(examples, 1)`; ids may be any int64, with gaps."""
    labels = as_ids(labels, "labels")
    rows = np.argsort(labels, kind="stable")
    ids, starts, counts = np.unique(labels[rows], return_index=True, return_counts=True)
    return ClassTable(ids, rows, starts, counts)


def class_counts(table: ClassTable) -> dict[int, int]:
    """Dict of class id to number of examples."""
    return dict(zip(table.ids.tolist(), table.counts.tolist(), strict=True))


def drawable_classes(
    labels: npt.ArrayLike, classes_per_batch: int, examples_per_class: int, short_classes: str
) -> ClassTable:
    """The `ClassTable` of the classes that can be drawn; "repeat" keeps classes that have fewer examples."""
    table = class_table(labels)
    short = table.counts < examples_per_class
    if short_classes == "error" and short.any():
        worst = np.argmin(table.counts)
        raise ValueError(
            f"Received examples_per_class={examples_per_class}, but {short.sum()} of {len(short)} classes have fewer "
            f"examples (class {table.ids[worst]} has {table.counts[worst]}). Lower examples_per_class, or pass "
            "short_classes='drop' or 'repeat'."
        )
    if len(short) < classes_per_batch:
        raise ValueError(
            f"Received classes_per_batch={classes_per_batch}, but labels have only {len(short)} classes. Lower it."
        )
    if short_classes == "drop":
        table = table.select(~short)
    if len(table.ids) < classes_per_batch:
        raise ValueError(
            f"Received classes_per_batch={classes_per_batch}, but only {len(table.ids)} classes have at least "
            f"examples_per_class={examples_per_class} examples. Lower one of the two, or pass short_classes='repeat'."
        )
    return table
