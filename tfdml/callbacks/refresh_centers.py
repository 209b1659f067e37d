"""Keep class centers and trees of classes current while a model trains."""

from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from tfdml._core.checks import labels_of, require_whole
from tfdml.callbacks.base import Refresh
from tfdml.embedding.in_memory import embedder
from tfdml.layers import ClassTree
from tfdml.samplers.class_table import class_table
from tfdml.samplers.mining.hard_class import ClassCenters


class RefreshCenters(Refresh):
    """Recompute class centers, or a tree of classes, from a few examples per class, at the start and after epochs.

    A refresh embeds `examples_per_class` examples per class, the same ones each time. A resumed run starts with the
    centers of the resumed model.

    Example:

        centers = tfdml.samplers.ClassCenters(train.labels, dim=64)
        sampler = tfdml.samplers.HardClassSampler(classes_per_batch=16, examples_per_class=2, centers=centers)
        model.fit(sampler.batches(train), steps_per_epoch=200, epochs=10,
                  callbacks=[tfdml.callbacks.RefreshCenters(centers, train)])

    Args:
        centers: `tfdml.samplers.ClassCenters` or `tfdml.layers.ClassTree` of the same classes.
        images: `(examples, ...)`, an array, or anything else with a length that takes an array of ascending row numbers
            in brackets and returns these examples: a memory map, an HDF5 dataset. Or a labeled set.
        labels: `(examples,)` integer class ids; left out where `images` is a labeled set.
        examples_per_class: number of examples to embed per class; all if a class has fewer.
        batch_size: number of examples embedded at the same time.
        every: number of epochs between refreshes; the last epoch is not followed by a refresh.
        seed: seed of the choice of examples, any whole number of at least 0.

    Raises:
        ValueError: images and labels of different lengths, other classes than the classes of the centers, or a number
            that is not positive.
    """

    def __init__(
        self,
        centers: ClassCenters | ClassTree,
        images: Any,
        labels: npt.ArrayLike | None = None,
        *,
        examples_per_class: int = 8,
        batch_size: int = 256,
        every: int = 1,
        seed: int = 0,
    ):
        super().__init__()
        for name, value in dict(examples_per_class=examples_per_class, batch_size=batch_size, every=every).items():
            require_whole(name, value, 1)
        require_whole("seed", seed, 0)
        labels = labels_of(images, labels)
        rows = _some_of_each(labels, examples_per_class, np.random.default_rng(seed))
        if len(images) != np.size(labels):
            raise ValueError(f"Received {len(images)} images and {np.size(labels)} labels, expected the same number.")
        self.rows, self.labels = rows, np.reshape(labels, -1)[rows]
        if set(centers.ids.tolist()) != set(self.labels.tolist()):
            raise ValueError(
                f"Received labels of {len(set(self.labels.tolist()))} classes, expected the {len(centers.ids)} of "
                f"{centers!r}. Make the centers from the same labels."
            )
        self.centers, self.images, self.every = centers, images, every
        self._embed = embedder(images, batch_size, self.rows)

    def refresh(self, model: keras.Model) -> None:
        """Recompute the centers with `model`."""
        self.centers.refresh(self._embed(model), self.labels)


def _some_of_each(labels, most, generator):
    """Ascending row numbers of at most `most` random examples per class."""
    order = generator.permutation(np.size(labels))
    table = class_table(np.reshape(labels, -1)[order])
    rank = np.arange(len(order)) - np.repeat(table.starts, table.counts)
    return np.sort(order[table.rows[rank < most]])
