"""Metrics by a function of embeddings, during training."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from tfdml._core.checks import require
from tfdml.callbacks.base import Scheduled, embedding_problem
from tfdml.embedding.in_memory import embedder
from tfdml.typing import Examples


class EmbeddingMetrics(Scheduled):
    """Embed a set after an epoch, and write what a function measures into the logs.

    Each number is written under its name with the prefix. It reaches every later callback and the `History`. Several
    evaluations, of the same or of different sets, work in one `fit`; give them different prefixes where names are
    equal. `RetrievalEvaluation` computes retrieval metrics.

    Evaluation takes place after the first epoch, every `every` epochs, and after the last epoch. With
    `max_time_fraction`, an evaluation between the first and the last epoch is skipped if another one of the previous
    duration would exceed this fraction of the training time. `val_time_share` in the logs of every epoch is the
    fraction that evaluations took so far.

    If embeddings are not finite or all equal, a warning names likely causes, and the function gets random embeddings.
    Its values are then at chance level, so later epochs improve on them. (Without a value `ExportBest` would stop, and
    NaN would stay the best value of `EarlyStopping`.)

    In training:

        def clusters(embeddings, data):
            return tfdml.metrics.clustering(embeddings, data.labels)

        model.fit(batches, epochs=10, steps_per_epoch=200, callbacks=[
            tfdml.callbacks.EmbeddingMetrics(test, clusters),                      # val_nmi, val_ami, val_f1
            tfdml.callbacks.EmbeddingMetrics(train, clusters, prefix="train_", max_time_fraction=0.1)])

    See also: `RetrievalEvaluation` for retrieval metrics.

    Example: how well k-means finds the classes.

        >>> inputs = keras.Input((2,))
        >>> model = tfdml.models.EmbeddingModel(inputs, tfdml.layers.Mahalanobis()(inputs))
        >>> model.compile("sgd", loss=tfdml.losses.ContrastiveLoss())
        >>> x, labels = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]]), np.array([0, 0, 1, 1])
        >>> clusters = lambda embeddings, data: tfdml.metrics.clustering(embeddings, labels)
        >>> run = model.fit(x, labels, verbose=0, callbacks=[tfdml.callbacks.EmbeddingMetrics(x, clusters)])
        >>> round(run.history["val_nmi"][0], 4), round(run.history["val_f1"][0], 4)
        (1.0, 1.0)

    Args:
        data: labeled set of `tfdml.datasets`, or anything else that `tfdml.models.embed` takes. Evaluate a subset of a
            large set by `test.take(rows)`.
        function: function of embeddings `(examples, dim)` and `data` that returns a dict of numbers. Text, such as the
            algorithm of `clustering`, is not written into the logs.
        model: the network to evaluate, if it is not the model in training but has its layers.
        every: number of epochs between two evaluations.
        max_time_fraction: maximum fraction of the time of `fit`, above 0 and below 1; None for no limit.
        batch_size: number of examples embedded at the same time.
        prefix: prefix of each name.
        at_sign: text in place of the @ of a name: "_at_" for `val_recall_at_1`, since MLflow takes no name with @.

    Raises:
        ValueError: an option out of range; a function that is not callable; no examples; at the end of an epoch, a
            model of several outputs, or a function that does not return a dict of numbers.

    Warns:
        UserWarning: at the end of an epoch, embeddings that are not finite or all equal.
    """

    def __init__(
        self,
        data: Examples,
        function: Callable[[np.ndarray, Any], Mapping[str, float]],
        *,
        model: keras.Model | None = None,
        every: int = 1,
        max_time_fraction: float | None = None,
        batch_size: int = 256,
        prefix: str = "val_",
        at_sign: str = "@",
    ) -> None:
        super().__init__(every=every, max_time_fraction=max_time_fraction, prefix=prefix, at_sign=at_sign)
        require(callable(function), f"function={function!r}", "a function of embeddings and data")
        is_finite = not hasattr(data, "element_spec")
        require(is_finite, f"data of type {type(data).__name__}", "a labeled set of tfdml.datasets, or an array")
        require(len(data) > 0, "a set without examples", "at least one")
        self.data, self.function, self.network = data, function, model
        self._embed = embedder(data, batch_size)

    def evaluate(self, model: keras.Model) -> dict[str, float]:
        """The numbers of a model, by name without the prefix."""
        return self._measured(self._embed(model))

    def _values_after(self, epoch):
        embeddings = self._embed(self.network or self.model)
        problem = embedding_problem(embeddings)
        if problem is not None:
            warnings.warn(
                f"After epoch {epoch + 1} {problem} The {self.prefix}* metrics belong to random embeddings.",
                stacklevel=2,
            )
            embeddings = np.random.default_rng(0).standard_normal(embeddings.shape, np.float32)
        return self._measured(embeddings)

    def _measured(self, embeddings):
        values = self.function(embeddings, self.data)
        is_flat = isinstance(values, Mapping) and all(np.isscalar(value) for value in values.values())
        require(is_flat, f"a function that returns {values!r}", "a dict of numbers")
        return {name: float(value) for name, value in values.items() if not isinstance(value, str)}
