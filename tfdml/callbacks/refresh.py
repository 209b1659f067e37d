"""Class centers, trees of classes and mined pairs, refreshed while a model trains."""

from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, require, require_whole
from tfdml.callbacks.base import Callback, one_label_per_example
from tfdml.embedding.in_memory import embedder
from tfdml.layers import ClassTree
from tfdml.samplers.class_table import class_table
from tfdml.samplers.mining.hard_class import ClassCenters
from tfdml.samplers.mining.mined import MinedPairs
from tfdml.search.builders import IndexBuilder, index_builder
from tfdml.typing import Examples


class _Refresh(Callback):
    """Give `_take` embeddings of `rows`, None for all, before training and after every `every` epochs but the last."""

    def __init__(self, data: Examples, batch_size: int, every: int, rows: np.ndarray | None = None) -> None:
        super().__init__()
        require_whole("every", every, 1)
        self.data, self.every = data, every
        self._embed = embedder(data, batch_size, rows)

    def refresh(self, model: keras.Model) -> None:
        """Refresh with the embeddings of a model."""
        self._take(self._embed(model).embeddings)

    def _take(self, embeddings):
        raise NotImplementedError

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Refresh, before the first batch is drawn."""
        self.refresh(self.model)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Refresh every `every` epochs, unless this epoch is the last one."""
        if (epoch + 1) % self.every == 0 and epoch + 1 < self.params["epochs"]:
            self.refresh(self.model)


class RefreshCenters(_Refresh):
    """Recompute class centers, or a tree of classes, from a few examples per class, before training and after epochs.

    A refresh embeds the same examples each time. A resumed run begins with the centers of the resumed model.

    Example:

        >>> inputs = keras.Input((2,))
        >>> model = tfdml.models.EmbeddingModel(inputs, tfdml.layers.Mahalanobis()(inputs))  # starts as the identity
        >>> x, labels = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]), np.array([3, 3, 7])
        >>> centers = tfdml.samplers.ClassCenters(labels, dim=2)
        >>> refresh = tfdml.callbacks.RefreshCenters(x, labels, centers=centers)  # for callbacks=[refresh] of fit
        >>> refresh.refresh(model)
        >>> centers.centers.round(4)
        array([[ 0.5,  0.5],
               [-1. ,  0. ]], dtype=float32)

    Args:
        data: a labeled set, an array `(examples, ...)`, or anything else that `tfdml.models.embed` takes.
        labels: `(examples,)` integer class ids; None: the labels of a labeled set.
        centers: `tfdml.samplers.ClassCenters` or `tfdml.layers.ClassTree` of the same classes.
        examples_per_class: number of examples to embed per class; all if a class has fewer.
        every: number of epochs between refreshes; the last epoch is not followed by a refresh.
        seed: seed of the choice of examples, any whole number of at least 0.
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
        require_whole("examples_per_class", examples_per_class, 1)
        require_whole("seed", seed, 0)
        ids = as_ids(one_label_per_example(data, labels), "labels")
        self.rows = _rows_per_class(ids, examples_per_class, np.random.default_rng(seed))
        super().__init__(data, batch_size, every, self.rows)
        self.labels, self.centers = ids[self.rows], centers
        classes = np.unique(ids)
        expected = f"the {len(centers.ids)} of {centers!r}. Make the centers from the same labels"
        require(np.array_equal(np.sort(centers.ids), classes), f"labels of {len(classes)} classes", expected)

    def _take(self, embeddings):
        self.centers.refresh(embeddings, self.labels)


class RefreshMinedPairs(_Refresh):
    """Mine the hardest pairs of the complete training set, before training and after epochs.

    A refresh embeds all examples and searches for each of them. It needs memory for a few copies of the embeddings,
    examples x dim float32, and for `tfdml.search.hardest_pairs`. A resumed run begins with the resumed model's pairs.

    Example:

        >>> inputs = keras.Input((2,))
        >>> model = tfdml.models.EmbeddingModel(inputs, tfdml.layers.Mahalanobis()(inputs))  # starts as the identity
        >>> x, labels = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]), np.array([3, 3, 7])
        >>> pairs = tfdml.samplers.MinedPairs(labels, positives=1, negatives=1)
        >>> refresh = tfdml.callbacks.RefreshMinedPairs(x, labels, pairs=pairs)  # for callbacks=[refresh] of fit
        >>> refresh.refresh(model)
        >>> pairs.positives.tolist(), pairs.negatives.tolist()  # row numbers; -1 for none
        ([[1], [0], [-1]], [[2], [2], [1]])

    Args:
        data, labels, every: as in `RefreshCenters`.
        pairs: `tfdml.samplers.MinedPairs` of the same labels.
        index: as in `tfdml.search.hardest_pairs`.
    """

    def __init__(
        self,
        data: Examples,
        labels: npt.ArrayLike | None = None,
        *,
        pairs: MinedPairs,
        batch_size: int = 256,
        every: int = 1,
        index: IndexBuilder = None,
    ):
        super().__init__(data, batch_size, every)
        pairs.require_labels(one_label_per_example(data, labels))
        self.pairs, self.index = pairs, index_builder(index)

    def _take(self, embeddings):
        self.pairs.refresh(embeddings, index=self.index)


def _rows_per_class(labels, most, generator):
    """Ascending row numbers of at most `most` random examples per class."""
    order = generator.permutation(len(labels))
    table = class_table(labels[order])
    rank = np.arange(len(order)) - np.repeat(table.starts, table.counts)
    return np.sort(order[table.rows[rank < most]])
