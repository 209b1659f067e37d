"""Class centers and trees of classes, refreshed while a model trains."""

import keras
import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, require, require_whole
from tfdml.callbacks.base import Refresh, one_label_per_example
from tfdml.embedding.in_memory import embedder
from tfdml.layers import ClassTree
from tfdml.samplers.class_table import class_table
from tfdml.samplers.mining.hard_class import ClassCenters
from tfdml.typing import Examples


class RefreshCenters(Refresh):
    """Recompute class centers, or a tree of classes, from a few examples per class, before training and after epochs.

    A refresh embeds the same `examples_per_class` examples per class each time. A resumed run begins with the centers
    of the resumed model.

    In training:

        centers = tfdml.samplers.ClassCenters(train.labels, dim=64)
        sampler = tfdml.samplers.HardClassSampler(classes_per_batch=16, examples_per_class=2, centers=centers)
        model.fit(sampler.batches(train), steps_per_epoch=200, epochs=10,
                  callbacks=[tfdml.callbacks.RefreshCenters(train, centers=centers)])

    Example:

        >>> inputs = keras.Input((2,))
        >>> model = tfdml.models.EmbeddingModel(inputs, tfdml.layers.Mahalanobis()(inputs))  # starts as the identity
        >>> x, labels = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]), np.array([3, 3, 7])
        >>> centers = tfdml.samplers.ClassCenters(labels, dim=2)
        >>> refresh = tfdml.callbacks.RefreshCenters(x, labels, centers=centers)  # for callbacks=[refresh] of fit
        >>> refresh.refresh(model)
        >>> centers.centers.numpy().round(4)
        array([[ 0.5,  0.5],
               [-1. ,  0. ]], dtype=float32)

    Args:
        data: a labeled set, an array `(examples, ...)`, or anything else with a length that takes an array of ascending
            row numbers in brackets and returns these examples: a memory map, an HDF5 dataset.
        labels: `(examples,)` integer class ids; None: the labels of a labeled set.
        centers: `tfdml.samplers.ClassCenters` or `tfdml.layers.ClassTree` of the same classes.
        examples_per_class: number of examples to embed per class; all if a class has fewer.
        batch_size: number of examples embedded at the same time.
        every: number of epochs between refreshes; the last epoch is not followed by a refresh.
        seed: seed of the choice of examples, any whole number of at least 0.

    Raises:
        ValueError: data and labels of different lengths, other classes than the classes of the centers, or a number
            that is not positive.
    """

    def __init__(
        self,
        data: Examples,
        labels: npt.ArrayLike | None = None,
        *,
        centers: ClassCenters | ClassTree,
        examples_per_class: int = 8,
        batch_size: int = 256,
        every: int = 1,
        seed: int = 0,
    ):
        super().__init__()
        for name, value in dict(examples_per_class=examples_per_class, batch_size=batch_size, every=every).items():
            require_whole(name, value, 1)
        require_whole("seed", seed, 0)
        ids = as_ids(one_label_per_example(data, labels), "labels")
        self.rows = _rows_per_class(ids, examples_per_class, np.random.default_rng(seed))
        self.labels = ids[self.rows]
        classes = np.unique(ids)
        require(
            np.array_equal(np.sort(centers.ids), classes),
            f"labels of {len(classes)} classes",
            f"the {len(centers.ids)} of {centers!r}. Make the centers from the same labels",
        )
        self.data, self.centers, self.every = data, centers, every
        self._embed = embedder(data, batch_size, self.rows)

    def refresh(self, model: keras.Model) -> None:
        """Recompute the centers with `model`."""
        self.centers.refresh(self._embed(model), self.labels)


def _rows_per_class(labels, most, generator):
    """Ascending row numbers of at most `most` random examples per class."""
    order = generator.permutation(len(labels))
    table = class_table(labels[order])
    rank = np.arange(len(order)) - np.repeat(table.starts, table.counts)
    return np.sort(order[table.rows[rank < most]])
