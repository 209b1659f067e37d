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
    equal. For one output of several, or for a tower, call `evaluate(keras.Model(...))` in a callback of your own.

    If embeddings are not finite or all equal, a warning names likely causes, and the function gets random embeddings.
    Its values are then at chance level, so later epochs improve on them.

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
        data: labeled set of `tfdml.datasets`, or anything else that `tfdml.models.embed` takes.
        function: function of embeddings `(examples, dim)` and `data` that returns a dict of numbers. Text, such as the
            algorithm of `clustering`, is not written into the logs.
        every, max_time_fraction, batch_size, prefix, at_sign: as in `RetrievalEvaluation`.
    """

    def __init__(
        self,
        data: Examples,
        function: Callable[[np.ndarray, Any], Mapping[str, float]],
        *,
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
        self.data, self.function = data, function
        self._embed = embedder(data, batch_size)

    def evaluate(self, model: keras.Model) -> dict[str, float]:
        """The numbers of a model, by name without the prefix."""
        return self._measured(self._embed(model).embeddings)

    def _values_after(self, epoch):
        embeddings = self._embed(self.model).embeddings
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
