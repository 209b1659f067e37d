"""Where the classes are now, for samplers that draw by it."""

from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from tfdml._checks import require_whole
from tfdml.callbacks._embedding import embed_rows
from tfdml.callbacks._refresh import Refresh
from tfdml.samplers.class_table import class_table
from tfdml.samplers.hard_class import ClassCentres


class RefreshCentres(Refresh):
    """Embed a few examples of every class, and take the class centres from them, when training begins and after epochs.

    What it costs is bounded: `examples_per_class` examples of each class go through the model, the same ones each time.
    A run that resumes begins with the centres of the model it resumes with.

    Example:

        centres = tfdml.samplers.ClassCentres(train.labels, dim=64)
        sampler = tfdml.samplers.HardClassSampler(classes_per_batch=16, examples_per_class=2, centres=centres)
        model.fit(sampler.batches(train.images, train.labels), steps_per_epoch=200, epochs=10,
                  callbacks=[tfdml.callbacks.RefreshCentres(centres, train.images, train.labels)])

    Args:
        centres: `tfdml.samplers.ClassCentres` of the same classes.
        images: `(examples, ...)`, an array, or anything else with a length that takes an array of ascending row numbers
            in brackets and returns these examples: a memory map, an HDF5 set, a reader of files.
        labels: `(examples,)` integer class ids.
        examples_per_class: how many examples of each class are embedded, or all where a class has fewer.
        batch_size: examples embedded at a time.
        every: refresh after every so many epochs, except the last one.
        seed: which examples: any whole number of at least 0.

    Raises:
        ValueError: images and labels of different lengths, other classes than those of the centres, or a number that is
            not positive.
    """

    def __init__(
        self,
        centres: ClassCentres,
        images: Any,
        labels: npt.ArrayLike,
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
        rows = _some_of_each(labels, examples_per_class, np.random.default_rng(seed))
        if len(images) != np.size(labels):
            raise ValueError(f"Received {len(images)} images and {np.size(labels)} labels, expected as many.")
        self.rows, self.labels = rows, np.reshape(labels, -1)[rows]
        if set(centres.ids.tolist()) != set(self.labels.tolist()):
            raise ValueError(
                f"Received labels of {len(set(self.labels.tolist()))} classes, expected the {len(centres.ids)} of "
                f"{centres!r}. Make the centres from the same labels."
            )
        self.centres, self.images = centres, images
        self.batch_size, self.every = batch_size, every

    def refresh(self, model: keras.Model) -> None:
        """Take the centres from what `model` makes of the examples."""
        self.centres.refresh(embed_rows(model, self.images, self.rows, self.batch_size), self.labels)


def _some_of_each(labels, most, generator):
    """Ascending row numbers of at most so many examples of each class, by chance."""
    order = generator.permutation(np.size(labels))
    table = class_table(np.reshape(labels, -1)[order])
    rank = np.arange(len(order)) - np.repeat(table.starts, table.counts)
    return np.sort(order[table.rows[rank < most]])
