"""The measurement of `compare` inside the training loops of other libraries."""

import csv
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_vectors, require, require_metric
from tfdml.evaluation.compare import compare, require_metrics
from tfdml.metrics.retrieval.relevance import as_rows
from tfdml.typing import FilePath, Labels

_HEAD = ("epoch", "steps", "metric", "value", "low", "high")


class EmbeddingEvaluator:
    """Retrieval metrics with intervals over classes, of batches in any loop or of a model of sentence-transformers.

    Each embedding is a query against all others, measured as by `compare`.

    * In a loop: `update(embeddings, labels)` with each batch of arrays or tensors, `compute()` at the end, and
      `reset()` before the next time, as in torchmetrics. Batches of other processes have to be gathered before.
    * In sentence-transformers: `evaluator=[evaluator]` of a `SentenceTransformerTrainer`, in a list since it has not
      their base class; or `evaluator(model)`. It embeds `inputs` by `model.encode`, and adds to the model card.

    Example: eight classes of two directions, in two batches.

        >>> angles = np.repeat(np.arange(8.0), 2) + np.tile([0.0, 0.1], 8)
        >>> embeddings, labels = np.stack([np.cos(angles), np.sin(angles)], axis=1), np.repeat(np.arange(8), 2)
        >>> evaluator = tfdml.evaluation.EmbeddingEvaluator(metrics=("recall@1",))
        >>> evaluator.update(embeddings[:6], labels[:6])
        >>> evaluator.update(embeddings[6:], labels[6:])
        >>> evaluator.compute()
        {'recall@1': 1.0, 'recall@1_low': 0.630..., 'recall@1_high': 1.0}

    Args:
        inputs: texts or others that `model.encode` takes; None for batches.
        labels: `(inputs,)` integers or texts, their classes.
        name: prefix of the metrics that a call returns, such as "dev" for "dev_map@r".
        metrics, metric: as in `compare`; the first one is `primary_metric`: sentence-transformers chooses by it.

    Raises:
        ValueError: embeddings that `compare` does not take; batches of other dims; a call without inputs.
    """

    description = "Retrieval with intervals over classes"  # heading in a model card of sentence-transformers

    def __init__(
        self,
        inputs: Sequence[Any] | None = None,
        labels: Labels | None = None,
        *,
        name: str = "",
        metrics: Sequence[str] = ("map@r", "recall@1", "r_precision", "mrr"),
        metric: str = "cosine",
    ) -> None:
        require_metrics(metrics)
        require_metric(metric)
        self.name, self.metrics, self.metric = name, tuple(metrics), metric
        self.primary_metric = f"{name}_{metrics[0]}" if name else metrics[0]
        self.csv_file = f"embedding_evaluation_{name}_results.csv"
        self.inputs = inputs
        self.labels = None if inputs is None else as_rows(labels, "labels", len(inputs))
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self._batches: list[tuple[np.ndarray, np.ndarray]] = []

    def update(self, embeddings: npt.ArrayLike, labels: Labels) -> None:
        """Add a batch: `(n, dim)` floats and `(n,)` labels, copied into memory as NumPy arrays."""
        vectors = np.array(as_vectors(embeddings, "embeddings"))
        dim = self._batches[0][0].shape[1] if self._batches else vectors.shape[1]
        require(vectors.shape[1] == dim, f"embeddings of dim {vectors.shape[1]}", f"{dim}, the dim of the first batch")
        self._batches.append((vectors, np.array(as_rows(labels, "labels", len(vectors)))))

    def compute(self) -> dict[str, float]:
        """The mean of each metric over all batches, with `_low` and `_high` of its 95% interval.

        With fewer than six classes, and for metrics of the whole set, there are no bounds.
        """
        require(len(self._batches) > 0, "no batches", "update(embeddings, labels) before compute()")
        embeddings, labels = map(np.concatenate, zip(*self._batches, strict=True))
        return _as_numbers(self._measured(embeddings, labels))

    def __call__(
        self, model: Any, output_path: FilePath | None = None, epoch: float = -1, steps: int = -1
    ) -> dict[str, float]:
        """The numbers of `compute` for `model.encode(inputs)`, by names with the prefix; batches stay unchanged.

        With a folder, `output_path`, rows with the columns `epoch` and `steps` are added to its `csv_file`.
        """
        require(self.inputs is not None, "a call without inputs", "EmbeddingEvaluator(inputs, labels)")
        means = self._measured(model.encode(self.inputs), self.labels)
        if output_path is not None:
            self._write(Path(output_path), epoch, steps, means)
        prefix = f"{self.name}_" if self.name else ""
        numbers = {prefix + key: value for key, value in _as_numbers(means).items()}
        if hasattr(model, "model_card_data"):
            model.model_card_data.set_evaluation_metrics(self, numbers, epoch, steps)
        return numbers

    def _measured(self, embeddings, labels):
        """Means with intervals by metric; notes of the comparison, such as on ties, are warnings."""
        evaluation = compare({"model": embeddings}, labels, metrics=self.metrics, metric=self.metric)
        for note in evaluation.notes:
            warnings.warn(note, stacklevel=3)
        return evaluation.metrics

    def _write(self, folder, epoch, steps, means):
        """Add a row for each metric to the file; bounds that are not there are empty."""
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / self.csv_file, "a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerows([] if file.tell() else [_HEAD])
            for name, mean in means.items():
                writer.writerow((epoch, steps, name, *("" if math.isnan(number) else number for number in mean)))


def _as_numbers(means):
    """Means and bounds as numbers by name, without bounds where there is no interval."""
    numbers = {}
    for name, mean in means.items():
        bounds = {} if math.isnan(mean.low) else {f"{name}_low": mean.low, f"{name}_high": mean.high}
        numbers |= {name: float(mean.value)} | bounds
    return numbers
