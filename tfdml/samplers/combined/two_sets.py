"""Batches for two towers: queries and gallery examples of the same classes, from two sets."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import INT64, as_ids, is_labeled_set, labeled_part, require
from tfdml.importance import PairProbabilities
from tfdml.pairs import two_towers
from tfdml.samplers.base import ClassBalancedSampler
from tfdml.samplers.class_table import ClassTable, class_table, drawable_classes
from tfdml.samplers.draws import random_bits, sample_rows, sample_without_replacement
from tfdml.samplers.streams.batch_source import zipped
from tfdml.typing import Data

_GALLERY = INT64.max // 3  # Separates the draws of the gallery from the draws of the queries.


@dataclass(frozen=True, kw_only=True)
class TwoSetSampler(ClassBalancedSampler):
    """Batches of two sets: n classes, of each class m queries and m gallery examples, all uniform.

    Row i of the queries and row i of the gallery share a class; both are drawn independently. Classes of only one of
    the sets are left out. Labels are a pair `(query_labels, gallery_labels)`; `index_batches` gives the row numbers of
    the queries and of the gallery, `batch_size` of each.

    Example:

        >>> sampler = tfdml.samplers.TwoSetSampler(classes_per_batch=2, seed=0)
        >>> sketches = np.array([0.0, 1.0, 2.0]), [0, 1, 2]
        >>> photos = np.array([10.0, 10.5, 11.0, 12.0]), [0, 0, 1, 2]
        >>> (queries, gallery), labels = next(iter(sampler.batches(sketches, photos)))
        >>> queries.numpy().tolist(), gallery.numpy().tolist(), labels.numpy().tolist()
        ([1.0, 0.0], [11.0, 10.5], [1, 0])

    Args:
        classes_per_batch: n.
        examples_per_class: m, adjacent in the batch.
        short_classes: as in `GroupSampler`, for classes that have fewer than m examples in one of the sets.
    """

    pairing = staticmethod(two_towers)

    examples_per_class: int = 1
    short_classes: str = "repeat"

    def samplers(
        self, query_labels: npt.ArrayLike, gallery_labels: npt.ArrayLike
    ) -> tuple[ClassBalancedSampler, ClassBalancedSampler]:
        """Two samplers, of queries and of gallery examples, that draw the same classes at each step."""
        settings = {name: value for name, value in vars(self).items() if name != "seed"}
        queries, gallery = (drawable_classes(labels, **settings) for labels in (query_labels, gallery_labels))
        common = np.intersect1d(queries.ids, gallery.ids)
        require(
            len(common) >= self.classes_per_batch,
            f"classes_per_batch={self.classes_per_batch} and {len(common)} classes that both sets have",
            "as many or more. Lower it, or number the classes of both sets in the same way",
        )
        return self._one_set(self.seed, common), self._one_set(self.seed ^ _GALLERY, common)

    def prepare(self, labels: Any) -> tuple[ClassTable, ClassTable]:
        """The classes that both sets have, as a `ClassTable` of each set, from `(query_labels, gallery_labels)`."""
        is_pair = isinstance(labels, tuple | list) and len(labels) == 2
        require(is_pair, f"labels of type {type(labels).__name__}", "a pair (query_labels, gallery_labels)")
        queries, gallery = self.samplers(*labels)
        return queries.prepare(labels[0]), gallery.prepare(labels[1])

    def draw(self, table: tuple[ClassTable, ClassTable], steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The batches of `steps` as row numbers of the queries and of the gallery, `(block, batch)` each."""
        queries, gallery = self._one_set(self.seed, table[0].ids), self._one_set(self.seed ^ _GALLERY, table[1].ids)
        return queries.draw(table[0], steps), gallery.draw(table[1], steps)

    def pair_probabilities(self, labels: Any) -> PairProbabilities:
        """Raise a ValueError: Q is defined for the pairs of one set."""
        raise ValueError("Received TwoSetSampler for pair probabilities, expected a sampler of one set.")

    def batches(  # type: ignore[override]
        self, queries: Data | tuple[Any, npt.ArrayLike], gallery: Data | tuple[Any, npt.ArrayLike], **options: Any
    ) -> Any:
        """Infinite stream of batches `((query_examples, gallery_examples), labels)`.

        Args:
            queries, gallery: each a labeled set, or a pair `(data, labels)`, as in `Sampler.batches`.
            **options: options of `Sampler.batches` for both sets, such as `start` and `augment`; the seeds of queries
                and gallery differ. For different options, zip the batches of the two `samplers`.
        """
        sets = [_data_and_labels(data) for data in (queries, gallery)]
        samplers = self.samplers(*(labels for _, labels in sets))
        streams = [
            sampler.batches(data, None if is_labeled_set(data) else labels, **options)
            for sampler, (data, labels) in zip(samplers, sets, strict=True)
        ]
        return zipped(lambda query, item: ((query[0], item[0]), query[1]), *streams)

    def _one_set(self, seed, classes):
        return _OneSetSampler(**{**vars(self), "seed": seed}, class_seed=self.seed, classes=classes)


@dataclass(frozen=True, kw_only=True, eq=False)
class _OneSetSampler(ClassBalancedSampler):
    """The sampler of one of two sets: `classes`, ids in both sets, drawn by `class_seed`, and examples by `seed`."""

    class_seed: int
    classes: np.ndarray = field(repr=False)

    def prepare(self, labels: npt.ArrayLike) -> ClassTable:
        """The classes that both sets have, as a `ClassTable`."""
        table = class_table(labels)
        return table.select(np.isin(table.ids, self.classes))

    def draw(self, table: ClassTable, steps: np.ndarray) -> np.ndarray:
        """The batches of `steps` as row numbers `(block, batch)`."""
        classes = self.classes_per_batch
        class_bits = random_bits(self.class_seed, steps, classes)
        chosen = sample_without_replacement(class_bits, len(table.counts))
        row_bits = random_bits(self.seed, steps, classes + self.batch_size)[:, classes:]
        rows = sample_rows(table, chosen, row_bits.reshape(*chosen.shape, self.examples_per_class))
        return rows.reshape(-1, self.batch_size)


def _data_and_labels(data):
    if is_labeled_set(data):
        data = labeled_part(data, "batches")
        return data, data.labels
    is_pair = isinstance(data, tuple | list) and len(data) == 2
    require(
        is_pair, f"a set of type {type(data).__name__}", "a labeled set of tfdml.datasets, or a pair (data, labels)"
    )
    return data[0], as_ids(data[1], "labels")
