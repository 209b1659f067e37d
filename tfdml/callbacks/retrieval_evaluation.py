"""Retrieval metrics while a model trains."""

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import keras
import numpy as np

from tfdml import metrics, search
from tfdml._checks import as_ids, require_whole
from tfdml.callbacks._base import Callback, embed


class RetrievalEvaluation(Callback):
    """Embed a labelled set after an epoch, and write its retrieval metrics into the logs.

    `val_recall@1`, `val_precision@1`, `val_r_precision`, `val_map@r`, `val_mrr` reach every later callback and the
    `History`, so `EarlyStopping(monitor="val_map@r", mode="max")` and `ExportBest` work behind it. Each example is a
    query against all the others, by cosine similarity; `tfdml.metrics.retrieval` defines the numbers.

    A model whose embeddings are not finite, or all the same, retrieves nothing: a warning names likely causes, all
    values are 0, the lowest there is, and training continues. (NaN would stay the best value of `EarlyStopping`,
    `ReduceLROnPlateau` and `ModelCheckpoint` if it came first.)

    Example:

        model.fit(batches, epochs=10, steps_per_epoch=200, callbacks=[
            tfdml.callbacks.RetrievalEvaluation(test, k=(1, 10)),
            keras.callbacks.EarlyStopping(monitor="val_map@r", mode="max", patience=3)])

    Args:
        data: a labelled set with `images` and `labels` (what `tfdml.datasets` return), a pair `(x, labels)` of arrays,
            or a finite `tf.data.Dataset` of batches `(x, labels)`.
        k: the ranks of `recall@k`.
        search: "exact", or "scann" for approximate neighbours where exact search would take too long; then
            `val_search_recall@k` says which share of the exact neighbours it found.
        every: evaluate after the first epoch, after every so many epochs, and after the last.
        batch_size: examples embedded at a time, where `data` is arrays.
        prefix: put before each metric's name.

    Raises:
        ValueError: data of another form, file names or other text in place of examples, an unknown search, labels and
            examples of different lengths, float labels, images that hold NaN, or a number that is not positive.

    Warns:
        UserWarning: at the end of an epoch, embeddings that are not finite or all the same.
    """

    def __init__(
        self,
        data: Any,
        *,
        k: int | Sequence[int] = (1, 2, 4, 8),
        search: Literal["exact", "scann"] = "exact",
        every: int = 1,
        batch_size: int = 256,
        prefix: str = "val_",
    ) -> None:
        super().__init__()
        if search not in ("exact", "scann"):
            raise ValueError(f"Received search={search!r}, expected 'exact' or 'scann'.")
        self.k = np.atleast_1d(k).tolist()
        for name, value in [("every", every), ("batch_size", batch_size), *(("k", value) for value in self.k)]:
            require_whole(name, value, 1)
        self.data = _checked(data)
        self.search = search
        self.every = every
        self.batch_size = batch_size
        self.prefix = prefix

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Forget an earlier run."""
        self._first = True

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Evaluate, where it is this epoch's turn."""
        turn = self._first or (epoch + 1) % self.every == 0 or epoch + 1 == self.params.get("epochs")
        self._first = False
        if turn and logs is not None:
            found = self._found(epoch)
            logs.update({f"{self.prefix}{name}": found[name] for name in found if name not in ("queries", "skipped")})

    def evaluate(self, model: keras.Model) -> dict[str, float]:
        """The metrics of a model, without prefix: a dict as `tfdml.metrics.retrieval` returns it.

        Raises:
            ValueError: embeddings that are not finite or all the same; what `tfdml.metrics.retrieval` raises.
        """
        return self._measured(*_embed(model, self.data, self.batch_size))

    def _measured(self, embeddings, labels):
        if self.search == "exact":
            return metrics.retrieval(embeddings, labels, k=self.k)
        return _approximate(embeddings, labels, self.k)

    def _found(self, epoch):
        """The metrics of the model in training, all 0 with a warning where nothing can be retrieved."""
        embeddings, labels = _embed(self.model, self.data, self.batch_size)
        trouble = _trouble(embeddings)
        if trouble is None:
            return self._measured(embeddings, labels)
        warnings.warn(f"After epoch {epoch + 1} {trouble} All {self.prefix}* metrics are 0.", stacklevel=2)
        only = "map" if self.search == "exact" else f"search_recall@{max(self.k) + 1}"
        names = [*(f"recall@{k}" for k in self.k), "precision@1", "r_precision", "map@r", "mrr", only]
        return dict.fromkeys(names, 0.0)


def _checked(data: Any) -> Any:
    """A `tf.data.Dataset` as it is, anything else as a pair of arrays of one length."""
    if hasattr(data, "element_spec"):
        if not isinstance(data.element_spec, tuple) or len(data.element_spec) != 2 or data.cardinality() == -1:
            raise ValueError(
                f"Received a dataset of {data.element_spec} and cardinality {int(data.cardinality())}, expected a "
                "finite one of batches (x, labels). Map it to pairs, and end it with take(n)."
            )
        return data
    if hasattr(data, "images") and hasattr(data, "labels"):
        data = data.images, data.labels
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise ValueError(
            f"Received data of type {type(data).__name__}, expected a set with images and labels, a pair (x, labels) "
            "of arrays, or a tf.data.Dataset of such batches."
        )
    x, labels = (np.asarray(part) for part in data)
    if x.dtype.kind not in "biuf":
        raise ValueError(
            f"Received examples of dtype {x.dtype}, expected numbers, such as images. Pass a dataset that loads them: "
            "tf.data.Dataset.from_tensor_slices((paths, labels)).map(lambda path, y: (load(path), y)).batch(256)."
        )
    if len(x) != len(labels) or len(x) == 0:
        raise ValueError(f"Received {len(x)} examples and {len(labels)} labels, expected as many, and at least one.")
    labels = as_ids(labels, "labels", len(x))
    if np.issubdtype(x.dtype, np.floating) and np.isnan(x).any():
        row = int(np.argmax(np.isnan(x.reshape(len(x), -1)).any(axis=1)))
        raise ValueError(
            f"Received NaN in the examples, first in row {row}, expected numbers. Repair or drop these rows."
        )
    return x, labels


def _embed(model, data, batch_size):
    """Embeddings `(examples, dim)` and labels `(examples,)` of the whole set."""
    if isinstance(data, tuple):
        x, labels = data
        starts = range(0, len(x), batch_size)
        total, batches = len(starts), ((x[i : i + batch_size], labels[i : i + batch_size]) for i in starts)
    else:
        cardinality = int(data.cardinality())
        total, batches = (cardinality if cardinality > 0 else None), iter(data)
    parts = [(embed(model, x, len(labels)), np.asarray(labels)) for x, labels in _with_progress(batches, total)]
    if not parts:
        raise ValueError("Received a dataset without a single batch, expected some. Look at its filters and files.")
    embeddings, labels = zip(*parts, strict=True)
    return np.concatenate(embeddings), np.concatenate(labels).reshape(-1)


def _trouble(embeddings):
    """What keeps embeddings from being ranked, with its likely causes, or None."""
    with np.errstate(over="ignore", invalid="ignore"):
        embeddings = np.asarray(embeddings, "float32")
    broken = 1.0 - np.isfinite(embeddings).all(axis=1).mean()
    if broken > 0:
        return (
            f"{broken:.1%} of the embeddings are not finite. Likely causes: a learning rate that is too high, half "
            "precision without loss scaling, inputs that are not finite."
        )
    if len(embeddings) > 1 and np.ptp(embeddings, axis=0).max() <= 1e-6 * np.abs(embeddings).max():
        return (
            "all embeddings are the same: the model has collapsed. Likely causes: averages of BatchNormalization that "
            "lag in the first hundreds of steps (wait, or lower their momentum to 0.9), a learning rate that is "
            "too high, inputs that do not reach the output."
        )
    return None


def _approximate(embeddings, labels, k, *, sampled=1_000):
    """The metrics with ScaNN's neighbours, and `search_recall@k`: its share of the exact ones, on some queries."""
    most = max(int(np.unique(labels, return_counts=True)[1].max()), max(k) + 1)  # each finds itself, too
    found, _ = search.Scann(embeddings).search(embeddings, most)
    some = np.random.default_rng(0).permutation(len(labels))[:sampled]
    exact, _ = search.Exact(embeddings).search(embeddings[some], max(k) + 1)
    recall = search.neighbor_recall(found[some, : max(k) + 1], exact)
    return metrics.retrieval_from_neighbors(found, labels, k=k) | {f"search_recall@{max(k) + 1}": recall}


def _with_progress(batches: Iterable[Any], total: int | None, *, patience: float = 5.0) -> Iterator[Any]:
    """The same batches; a bar appears once they have taken more than `patience` seconds."""
    begin, bar = time.monotonic(), None
    for done, batch in enumerate(batches, start=1):
        yield batch
        if bar is None and time.monotonic() - begin > patience:
            bar = keras.utils.Progbar(total, unit_name="batch")
        if bar is not None:
            bar.update(done, finalize=done == total)
