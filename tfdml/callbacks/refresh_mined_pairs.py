"""Keep mined pairs current while a model trains."""

from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from tfdml._core.checks import labels_of, require_whole
from tfdml.callbacks.base import Refresh
from tfdml.embedding.in_memory import embedder
from tfdml.samplers.mining.mined import MinedPairs
from tfdml.search.builders import IndexBuilder, index_builder


class RefreshMinedPairs(Refresh):
    """Mine the hardest pairs of the whole training set, when training begins and after epochs.

    A refresh embeds all examples and searches for all of them. It holds a few copies of the embeddings, examples x dim
    float32, and the memory of `tfdml.search.hardest_pairs`; it never holds all images or a matrix of examples x
    examples. A resumed run starts with the pairs of the resumed model.

    Example:

        pairs = tfdml.samplers.MinedPairs(train.labels, positives=2, negatives=10)
        sampler = tfdml.samplers.MinedSampler(anchors_per_batch=32, pairs=pairs)
        model.fit(sampler.batches(train), steps_per_epoch=200, epochs=10,
                  callbacks=[tfdml.callbacks.RefreshMinedPairs(pairs, train)])

    Args:
        pairs: `tfdml.samplers.MinedPairs` of the same labels.
        images: `(examples, ...)`, an array, or anything else with a length that takes an array of ascending row numbers
            in brackets and returns these examples: a memory map, an HDF5 dataset. Or a labeled set.
        labels: `(examples,)` integer class ids; left out where `images` is a labeled set.
        batch_size: number of examples embedded at the same time.
        every: number of epochs between refreshes; the last epoch is not followed by a refresh.
        search: "exact" or None for `tfdml.search.Exact`, "scann" for `tfdml.search.Scann` if exact search would take
            too long, or any function `(vectors, metric=...)`, such as these classes, that returns an index.

    Raises:
        ValueError: images and labels of different lengths, other labels than the labels of the pairs, an unknown
            `search`, or a number that is not positive.
    """

    def __init__(
        self,
        pairs: MinedPairs,
        images: Any,
        labels: npt.ArrayLike | None = None,
        *,
        batch_size: int = 256,
        every: int = 1,
        search: IndexBuilder = None,
    ):
        super().__init__()
        require_whole("every", every, 1)
        labels = labels_of(images, labels)
        if len(images) != np.size(labels):
            raise ValueError(f"Received {len(images)} images and {np.size(labels)} labels, expected the same number.")
        pairs.require_labels(labels)
        self.pairs, self.images = pairs, images
        self.every, self.search = every, index_builder(search)
        self._embed = embedder(images, batch_size)

    def refresh(self, model: keras.Model) -> None:
        """Mine the pairs with `model`."""
        self.pairs.refresh(self._embed(model), search=self.search)
