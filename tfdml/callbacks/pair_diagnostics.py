"""Statistics of the pairs of a set while a model trains."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from tfdml._core.atomic import as_writable_path
from tfdml._core.checks import require, require_whole
from tfdml._core.optional import optional_import, tf
from tfdml.analysis.active_pairs import active_pairs
from tfdml.callbacks.base import Callback, one_label_per_example
from tfdml.embedding.in_memory import embedder
from tfdml.layers.base import unchanged
from tfdml.pairs import all_pairs, euclidean, normalized
from tfdml.typing import Examples, FilePath


class PairDiagnostics(Callback):
    """Embed the same examples when training begins and after epochs; write statistics of their pairs for TensorBoard.

    Scalars, under `pairs/` and in the logs:
    `active_positives`, `active_negatives`: fractions of pairs with a nonzero weight, see `tfdml.analysis.active_pairs`;
    `positive_distance`, `negative_distance`: mean euclidean distances of embeddings scaled to norm 1, in [0, 2];
    `negative_distance_std`: standard deviation of the distances of negative pairs.
    The histograms `pairs/positive_distances` and `pairs/negative_distances` hold all distances. The step is the number
    of finished epochs, so a resumed run continues the same graphs.

    If few negatives are active, batches contribute little gradient: use a miner or a larger margin. If both distances
    fall to 0 together, the embedding collapses.

    The state of the loss's layers, such as a random miner, is restored, so the diagnostics have no side effects but
    draws of random numbers from Keras' global seed.

    Example: of eight ordered negative pairs, the second and the fourth row alone are within the margin.

        >>> inputs = keras.Input((2,))
        >>> model = tfdml.models.EmbeddingModel(inputs, tfdml.layers.Mahalanobis()(inputs))
        >>> model.compile(keras.optimizers.SGD(0.001), loss=tfdml.losses.ContrastiveLoss(negative_margin=1.0))
        >>> x, labels = np.array([[1.0, 0.0], [0.8, 0.6], [-1.0, 0.0], [0.0, 1.0]]), np.array([0, 0, 1, 1])
        >>> diagnostics = tfdml.callbacks.PairDiagnostics(x, labels, path="logs")
        >>> run = model.fit(x, labels, verbose=0, callbacks=[diagnostics])
        >>> round(run.history["active_negatives"][0], 4), round(run.history["negative_distance"][0], 1)
        (0.25, 1.6)

    Args:
        data: `(examples, ...)` array or labeled set, of a few hundred examples: time grows with their number cubed.
        labels: `(examples,)` class ids, or what the `match` of the loss takes; None: the labels of a labeled set.
        path: folder of the event file; created if it does not exist.
        loss: the loss that decides which pairs are active and, by its `match`, positive; None for the compiled one.
        every: number of epochs between two measurements.

    Raises:
        ValueError: when training begins, a model compiled with a loss that is not a function, examples without a
            positive or a negative pair, or embeddings that `tfdml.analysis.pair_weights` rejects.
    """

    def __init__(
        self,
        data: Examples,
        labels: npt.ArrayLike | None = None,
        *,
        path: FilePath,
        loss: Callable[..., Any] | None = None,
        every: int = 1,
        batch_size: int = 256,
    ):
        super().__init__()
        optional_import("tensorflow", feature="PairDiagnostics", extra="tensorflow")
        require_whole("every", every, 1)
        self.data, self.labels = data, one_label_per_example(data, labels)
        self.path = as_writable_path(Path(path) / "events").parent
        self.loss, self.every = loss, every
        self._embed = embedder(data, batch_size)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Open the event file."""
        self._writer = tf.summary.create_file_writer(str(self.path))
        self._is_first_epoch = True

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Measure before the first batch."""
        if self._is_first_epoch:
            self._write_statistics(epoch)
        self._is_first_epoch = False

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Measure after every `every` epochs."""
        if (epoch + 1) % self.every == 0:
            scalars = self._write_statistics(epoch + 1)
            if logs is not None:
                logs.update(scalars)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Close the event file."""
        self._writer.close()

    def _write_statistics(self, step):
        scalars, distances = self._statistics(self.model)
        with self._writer.as_default(step=step):
            for name, value in scalars.items():
                tf.summary.scalar(f"pairs/{name}", value)
            for kind, values in distances.items():
                tf.summary.histogram(f"pairs/{kind}_distances", values)
        return scalars

    def _statistics(self, model):
        """Scalars by name, and distances of pairs by "positive" and "negative"."""
        loss = getattr(model, "loss", None) if self.loss is None else self.loss
        expected = "a loss of tfdml or another function of labels and embeddings. Compile it with one, or pass loss="
        require(callable(loss), f"a model compiled with loss={loss!r}", expected)
        embeddings = self._embed(model).embeddings.astype("float32")
        distances = _distances(embeddings, self.labels, getattr(loss, "match", None))
        with unchanged(getattr(loss, "layers", [])):
            active = active_pairs(loss, embeddings, self.labels)
        scalars = {
            "active_positives": active.positive,
            "active_negatives": active.negative,
            "positive_distance": float(np.mean(distances["positive"])),
            "negative_distance": float(np.mean(distances["negative"])),
            "negative_distance_std": float(np.std(distances["negative"])),
        }
        return scalars, distances


def _distances(embeddings, labels, match):
    """Euclidean distances of all ordered "positive" and "negative" pairs of embeddings scaled to norm 1."""
    pairs = normalized(all_pairs(labels, embeddings, match=match))
    d = keras.ops.convert_to_numpy(euclidean(pairs)).astype("float64")
    distances = {kind: d[keras.ops.convert_to_numpy(getattr(pairs, kind)) > 0] for kind in ("positive", "negative")}
    for kind, values in distances.items():
        received = f"{len(d)} examples without a {kind} pair"
        require(len(values) > 0, received, "examples of several classes, and several examples per class")
    return distances
