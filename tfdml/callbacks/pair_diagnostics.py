"""What the pairs of a set are like while a model trains."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdml._atomic import check_writable
from tfdml._checks import require_whole
from tfdml.analysis.active_pairs import active_pairs
from tfdml.callbacks._base import Callback
from tfdml.callbacks._refresh import embedded
from tfdml.layers.base import unchanged
from tfdml.pairs import all_pairs, euclidean, normalized


class PairDiagnostics(Callback):
    """Embed some examples when training begins and after epochs, and write for TensorBoard what their pairs are like.

    Scalars, under `pairs/` and in the logs:
    `active_positives`, `active_negatives`: the shares of pairs that have a weight, as `tfdml.analysis.active_pairs`;
    `positive_distance`, `negative_distance`: means of euclidean distances of embeddings scaled to norm 1, in [0, 2];
    `negative_distance_std`: the standard deviation of those of negatives.
    All distances are in the histograms `pairs/positive_distances` and `pairs/negative_distances`. Steps are epochs that
    have ended, so that a run that resumes goes on in the same graphs.

    Few active negatives mean that batches teach little: take a miner, or a larger margin. Where both distances fall
    together to 0, the embedding collapses.

    Looking changes nothing: the layers that the loss holds, such as a random miner, are afterwards in the state they
    were in. Randomness from Keras' global seed is the exception.

    Example:

        diagnostics = tfdml.callbacks.PairDiagnostics(test.images[:256], test.labels[:256], "logs/pairs")
        model.fit(batches, epochs=10, steps_per_epoch=200, callbacks=[diagnostics])

    Args:
        images: `(examples, ...)` array; a few hundred examples, as time grows with the cube of their number.
        labels: `(examples,)` integer class ids, or what the `match` of the loss takes.
        log_dir: folder for the event file; it is made if it is not there.
        loss: which loss says what is active and, by its `match`, positive; None for the loss the model is compiled
            with.
        every: look after every so many epochs.
        batch_size: examples embedded at a time.

    Raises:
        ValueError: images and labels of different lengths, or a number that is not positive; when training begins, a
            model compiled with a loss that is not a function, examples without a positive or without a negative pair,
            or embeddings as in `tfdml.analysis.pair_weights`.
        OSError: `log_dir` cannot be written.
    """

    def __init__(
        self,
        images: Any,
        labels: Sequence[Any] | np.ndarray,
        log_dir: str | os.PathLike[str],
        *,
        loss: Callable[..., Any] | None = None,
        every: int = 1,
        batch_size: int = 256,
    ):
        super().__init__()
        require_whole("every", every, 1)
        require_whole("batch_size", batch_size, 1)
        if len(images) != len(labels):
            raise ValueError(f"Received {len(images)} images and {len(labels)} labels, expected as many.")
        self.images, self.labels = images, np.asarray(labels)
        self.log_dir = check_writable(Path(log_dir) / "events").parent
        self.loss, self.every, self.batch_size = loss, every, batch_size

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Open the event file."""
        self._writer = tf.summary.create_file_writer(str(self.log_dir))
        self._first = True

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Look, before the first batch."""
        if self._first:
            self._look(epoch)
        self._first = False

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Look, where it is this epoch's turn."""
        if (epoch + 1) % self.every == 0:
            found = self._look(epoch + 1)
            if logs is not None:
                logs.update(found)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Close the event file."""
        self._writer.close()

    def _look(self, step):
        """Write the event file, and return the scalars."""
        scalars, distances = self._diagnose(self.model)
        with self._writer.as_default(step=step):
            for name, value in scalars.items():
                tf.summary.scalar(f"pairs/{name}", value)
            for kind, values in distances.items():
                tf.summary.histogram(f"pairs/{kind}_distances", values)
        return scalars

    def _diagnose(self, model):
        """The scalars, and the distances of each kind of pairs."""
        loss = _loss_of(model) if self.loss is None else self.loss
        rows = np.arange(len(self.labels))
        embeddings = embedded(model, self.images, rows, self.batch_size).astype("float32")
        distances = _distances(embeddings, self.labels, getattr(loss, "match", None))
        with unchanged(getattr(loss, "layers", [])):
            active = active_pairs(loss, self.labels, embeddings)
        scalars = {
            "active_positives": active.positive,
            "active_negatives": active.negative,
            "positive_distance": float(np.mean(distances["positive"])),
            "negative_distance": float(np.mean(distances["negative"])),
            "negative_distance_std": float(np.std(distances["negative"])),
        }
        return scalars, distances


def _loss_of(model):
    loss = getattr(model, "loss", None)
    if not callable(loss):
        raise ValueError(
            f"Received a model compiled with loss={loss!r}, expected a loss of tfdml or another function of labels and "
            "embeddings. Compile it with one, or pass loss=."
        )
    return loss


def _distances(embeddings, labels, match):
    """Euclidean distances of the ordered positive and negative pairs, of embeddings scaled to norm 1."""
    pairs = normalized(all_pairs(labels, embeddings, match=match))
    d = keras.ops.convert_to_numpy(euclidean(pairs)).astype("float64")
    found = {kind: d[keras.ops.convert_to_numpy(getattr(pairs, kind)) > 0] for kind in ("positive", "negative")}
    for kind, values in found.items():
        if not len(values):
            raise ValueError(
                f"Received {len(d)} examples without a {kind} pair, expected examples of several classes, and several "
                "of a class."
            )
    return found
