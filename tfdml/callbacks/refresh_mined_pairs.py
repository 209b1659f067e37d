"""Mined pairs, refreshed while a model trains."""

import keras
import numpy.typing as npt

from tfdml._core.checks import require_whole
from tfdml.callbacks.base import Refresh, one_label_per_example
from tfdml.embedding.in_memory import embedder
from tfdml.samplers.mining.mined import MinedPairs
from tfdml.search.builders import IndexBuilder, index_builder
from tfdml.typing import Examples


class RefreshMinedPairs(Refresh):
    """Mine the hardest pairs of the complete training set, before training and after epochs.

    A refresh embeds all examples and searches for each of them. It needs memory for a few copies of the embeddings,
    examples x dim float32, and for `tfdml.search.hardest_pairs`, but never for all images or for examples x examples
    numbers. A resumed run begins with the pairs of the resumed model.

    In training:

        pairs = tfdml.samplers.MinedPairs(train.labels, positives=2, negatives=10)
        sampler = tfdml.samplers.MinedSampler(anchors_per_batch=32, pairs=pairs)
        model.fit(sampler.batches(train), steps_per_epoch=200, epochs=10,
                  callbacks=[tfdml.callbacks.RefreshMinedPairs(train, pairs=pairs)])

    Example:

        >>> inputs = keras.Input((2,))
        >>> model = tfdml.models.EmbeddingModel(inputs, tfdml.layers.Mahalanobis()(inputs))  # starts as the identity
        >>> x, labels = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]), np.array([3, 3, 7])
        >>> pairs = tfdml.samplers.MinedPairs(labels, positives=1, negatives=1)
        >>> refresh = tfdml.callbacks.RefreshMinedPairs(x, labels, pairs=pairs)  # for callbacks=[refresh] of fit
        >>> refresh.refresh(model)
        >>> pairs.positives.numpy().tolist(), pairs.negatives.numpy().tolist()  # row numbers; -1 for none
        ([[1], [0], [-1]], [[2], [2], [1]])

    Args:
        data: a labeled set, an array `(examples, ...)`, or anything else with a length that takes an array of ascending
            row numbers in brackets and returns these examples: a memory map, an HDF5 dataset.
        labels: `(examples,)` integer class ids; None: the labels of a labeled set.
        pairs: `tfdml.samplers.MinedPairs` of the same labels.
        batch_size: number of examples embedded at the same time.
        every: number of epochs between refreshes; the last epoch is not followed by a refresh.
        search: "exact" or None for `tfdml.search.Exact`, "scann" for `tfdml.search.Scann` if exact search would take
            too long, or any function `(vectors, metric=...)`, such as these classes, that returns an index.

    Raises:
        ValueError: data and labels of different lengths, other labels than the labels of the pairs, an unknown
            `search`, or a number that is not positive.
    """

    def __init__(
        self,
        data: Examples,
        labels: npt.ArrayLike | None = None,
        *,
        pairs: MinedPairs,
        batch_size: int = 256,
        every: int = 1,
        search: IndexBuilder = None,
    ):
        super().__init__()
        require_whole("every", every, 1)
        pairs.require_labels(one_label_per_example(data, labels))
        self.data, self.pairs, self.every, self.search = data, pairs, every, index_builder(search)
        self._embed = embedder(data, batch_size)

    def refresh(self, model: keras.Model) -> None:
        """Mine the pairs with `model`."""
        self.pairs.refresh(self._embed(model), search=self.search)
