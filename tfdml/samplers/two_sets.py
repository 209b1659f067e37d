"""Batches for two towers: queries and gallery examples of the same classes, from two sets."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfdml._core.checks import INT64, as_ids, is_labeled_set, require
from tfdml.samplers.base import ClassBalancedSampler
from tfdml.samplers.class_table import ClassTable, class_table, drawable_classes
from tfdml.samplers.draws import random_bits, sample_rows, sample_without_replacement

_GALLERY = INT64.max // 3  # Separates the draws of the gallery from those of the queries.


@dataclass(frozen=True, kw_only=True)
class TwoSetSampler:
    """Batches of two sets: n classes, of each class m queries and m gallery examples, all uniform.

    Row i of the queries and row i of the gallery are of one class, drawn independently. Classes of only one of the sets
    are left out. Batch t is a function of (seed, t), so `start=` resumes a stream, as in every sampler.

    Example:

        sampler = tfdml.samplers.TwoSetSampler(classes_per_batch=32)
        loss = tfdml.losses.NTXentLoss(pairing=tfdml.pairs.two_towers)
        model.fit(sampler.batches(sketches, photos), steps_per_epoch=200, epochs=10)

    Args:
        classes_per_batch: n.
        examples_per_class: m. The examples of a class are adjacent in the batch.
        short_classes: what to do with classes that have fewer than m examples in one of the sets: repeat their examples
            ("repeat"), leave them out ("drop"), or raise a ValueError ("error").
        seed: any int64.
    """

    classes_per_batch: int
    examples_per_class: int = 1
    short_classes: str = "repeat"
    seed: int = 0

    def __post_init__(self):
        self._side(self.seed, np.empty(0, np.int64))  # raises the errors of the settings

    @property
    def batch_size(self) -> int:
        """Rows of each side of a batch: classes times examples."""
        return self.classes_per_batch * self.examples_per_class

    def sides(
        self, query_labels: npt.ArrayLike, gallery_labels: npt.ArrayLike
    ) -> tuple[ClassBalancedSampler, ClassBalancedSampler]:
        """Two samplers that draw the same classes at each step, one for each set, for sides with different options.

        Args:
            query_labels, gallery_labels: `(examples,)` integer class ids of the two sets.

        Raises:
            ValueError: labels that are not integers, or too few classes that both sets have.
        """
        settings = {name: value for name, value in vars(self).items() if name != "seed"}
        queries, gallery = (drawable_classes(labels, **settings) for labels in (query_labels, gallery_labels))
        common = np.intersect1d(queries.ids, gallery.ids)
        require(
            len(common) >= self.classes_per_batch,
            f"classes_per_batch={self.classes_per_batch} and {len(common)} classes that both sets have",
            "as many or more. Lower it, or number the classes of both sets in the same way",
        )
        return self._side(self.seed, common), self._side(self.seed ^ _GALLERY, common)

    def batches(self, queries: Any, gallery: Any, **options: Any) -> tf.data.Dataset:
        """Infinite stream of batches `((query_examples, gallery_examples), labels)`.

        Args:
            queries, gallery: each a labeled set of `tfdml.datasets`, or a pair `(data, labels)`, as in
                `Sampler.batches`.
            **options: options of `Sampler.batches` for both sides, such as `start` and `augment`, which sees other
                seeds on the other side. For sides with different options, zip the batches of the samplers in `sides`.

        Returns:
            An infinite `tf.data.Dataset`; examples with `batch_size` rows on both sides, and int64 labels
            `(batch_size,)`.

        Raises:
            ValueError: the errors of `sides` and of `Sampler.batches`.
        """
        parts = [_data_and_labels(part) for part in (queries, gallery)]
        sides = self.sides(*(labels for _, labels in parts))
        both = [
            side.batches(part, None if is_labeled_set(part) else labels, **options)
            for side, (part, labels) in zip(sides, parts, strict=True)
        ]
        return tf.data.Dataset.zip(*both).map(lambda query, item: ((query[0], item[0]), query[1]))

    def _side(self, seed, classes):
        return _Side(**{**vars(self), "seed": seed}, class_seed=self.seed, classes=classes)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Side(ClassBalancedSampler):
    """One side: classes drawn by `class_seed`, examples by `seed`.

    Attributes:
        class_seed: the seed of both sides.
        classes: `(classes,)` int64, the ids of the classes that can be drawn.
    """

    class_seed: int
    classes: np.ndarray = field(repr=False)

    def prepare(self, labels: npt.ArrayLike) -> ClassTable:
        """The classes that both sets have, as a `ClassTable`."""
        table = class_table(labels)
        common = np.isin(table.ids, self.classes)
        return ClassTable(table.ids[common], table.rows, table.starts[common], table.counts[common])

    def draw(self, table: ClassTable, steps: tf.Tensor) -> tf.Tensor:
        """The batches of `steps` as row numbers `(block, batch)`."""
        classes = random_bits(self.class_seed, steps, self.classes_per_batch)
        chosen = sample_without_replacement(classes, tf.constant(table.counts.shape[0], tf.int64))
        bits = random_bits(self.seed, steps, self.classes_per_batch + self.batch_size)[:, self.classes_per_batch :]
        rows = sample_rows(table, chosen, tf.reshape(bits, (*chosen.shape, self.examples_per_class)))
        return tf.reshape(rows, (steps.shape[0], self.batch_size))


def _data_and_labels(part):
    """A labeled set and its labels, or the parts of a pair `(data, labels)`."""
    if is_labeled_set(part):
        return part, part.labels
    pair = isinstance(part, tuple | list) and len(part) == 2
    require(pair, f"a set of type {type(part).__name__}", "a labeled set of tfdml.datasets, or a pair (data, labels)")
    return part[0], as_ids(part[1], "labels")
