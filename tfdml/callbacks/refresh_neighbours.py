"""The hardest pairs of the whole training set now, for samplers that draw by them."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from tfdml._checks import require_whole
from tfdml.callbacks._embedding import embed_rows
from tfdml.callbacks._refresh import Refresh
from tfdml.samplers.mined import HardNeighbours


class RefreshNeighbours(Refresh):
    """Embed the training set, and take the hardest neighbours from it, when training begins and after epochs.

    A refresh costs a pass of all examples through the model and a search for all of them. In memory are a few copies of
    the embeddings, examples x dim float32, and what `tfdml.miners.offline.hardest_pairs` needs beside them; never all
    images, nor a matrix of examples x examples. A run that resumes begins with the neighbours of the model it resumes
    with.

    Example:

        neighbours = tfdml.samplers.HardNeighbours(train.labels, positives=2, negatives=10)
        sampler = tfdml.samplers.MinedSampler(anchors_per_batch=32, neighbours=neighbours)
        model.fit(sampler.batches(train.images, train.labels), steps_per_epoch=200, epochs=10,
                  callbacks=[tfdml.callbacks.RefreshNeighbours(neighbours, train.images, train.labels)])

    Args:
        neighbours: `tfdml.samplers.HardNeighbours` of the same labels.
        images: `(examples, ...)`, an array, or anything else with a length that takes an array of ascending row numbers
            in brackets and returns these examples: a memory map, an HDF5 set, a reader of files.
        labels: `(examples,)` integer class ids.
        batch_size: examples embedded at a time.
        every: refresh after every so many epochs, except the last one.
        search: None for `tfdml.search.Exact`, or `tfdml.search.Scann` where exact search would take too long, or any
            function `(vectors, metric=...)` of an index.

    Raises:
        ValueError: images and labels of different lengths, other labels than those of the neighbours, a search that is
            no function, or a number that is not positive.
    """

    def __init__(
        self,
        neighbours: HardNeighbours,
        images: Any,
        labels: npt.ArrayLike,
        *,
        batch_size: int = 256,
        every: int = 1,
        search: Callable[..., Any] | None = None,
    ):
        super().__init__()
        require_whole("batch_size", batch_size, 1)
        require_whole("every", every, 1)
        if search is not None and not callable(search):
            raise ValueError(f"Received search={search!r}, expected None, or a class such as tfdml.search.Scann.")
        if len(images) != np.size(labels):
            raise ValueError(f"Received {len(images)} images and {np.size(labels)} labels, expected as many.")
        neighbours.require_labels(labels)
        self.neighbours, self.images = neighbours, images
        self.batch_size, self.every, self.search = batch_size, every, search

    def refresh(self, model: keras.Model) -> None:
        """Take the neighbours from what `model` makes of the examples."""
        rows = np.arange(len(self.images))
        self.neighbours.refresh(embed_rows(model, self.images, rows, self.batch_size), search=self.search)
