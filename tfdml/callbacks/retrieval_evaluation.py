"""Retrieval metrics of a model during training."""

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import keras
import numpy as np

from tfdml import metrics, search
from tfdml._checks import as_ids, is_labeled_set, require_whole
from tfdml.callbacks._base import Callback
from tfdml.models.bulk_embedding import embed_batches


class RetrievalEvaluation(Callback):
    """Embed a labeled set after an epoch, and write its retrieval metrics into the logs.

    `val_recall@1`, `val_precision@1`, `val_r_precision`, `val_map@r`, `val_mrr` reach every later callback and the
    `History`, so `EarlyStopping(monitor="val_map@r", mode="max")` and `ExportBest` work after it. Each example is a
    query against all others, by cosine similarity; `tfdml.metrics.retrieval` defines the metrics.

    With `gallery`, each example of `data` is a query against all examples of the gallery. A model with `towers`
    (`tfdml.models.TwoTowers`) embeds queries with the first tower and the gallery with the second one.

    If embeddings are not finite or all equal, nothing can be retrieved: a warning names likely causes, all values are
    0, the minimum, and training continues. (With NaN as the first value, `EarlyStopping`, `ReduceLROnPlateau` and
    `ModelCheckpoint` would keep NaN as the best value.)

    Example:

        model.fit(batches, epochs=10, steps_per_epoch=200, callbacks=[
            tfdml.callbacks.RetrievalEvaluation(test, k=(1, 10)),
            keras.callbacks.EarlyStopping(monitor="val_map@r", mode="max", patience=3)])

    Args:
        data: a labeled set of `tfdml.datasets`, a pair `(x, labels)` of arrays, or a finite `tf.data.Dataset` of
            batches `(x, labels)`.
        gallery: the same, to search in; None to search in `data`.
        model: the network to evaluate, if it is not the model in training but has its layers, such as
            `keras.Model(model.input, model.output["embedding"])` of a model with several outputs.
        k: the ranks of `recall@k`.
        search: "exact", or "scann" for approximate neighbors if exact search takes too long; then
            `val_search_recall@k` is the share of the exact neighbors that were found.
        every: evaluate after the first epoch, every `every` epochs, and after the last epoch.
        batch_size: number of examples embedded at the same time; that of a `tf.data.Dataset` is its own.
        prefix: prefix of each metric's name.

    Raises:
        ValueError: data of another form, file names or other text instead of examples, an unknown search, labels and
            examples of different lengths, float labels, examples with NaN, a number that is not positive, or queries
            and a gallery with different class names; at the end of an epoch, a model of several outputs, or of two
            towers without `gallery`.

    Warns:
        UserWarning: at the end of an epoch, embeddings that are not finite or all equal.
    """

    def __init__(
        self,
        data: Any,
        *,
        gallery: Any = None,
        model: keras.Model | None = None,
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
        _require_shared_names(data, gallery)
        self.data = _as_data(data)
        self.gallery = None if gallery is None else _as_data(gallery)
        self.network = model
        self.search = search
        self.every = every
        self.batch_size = batch_size
        self.prefix = prefix

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Reset the state of an earlier run."""
        self._first = True

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Evaluate after the epochs that `every` selects."""
        due = self._first or (epoch + 1) % self.every == 0 or epoch + 1 == self.params.get("epochs")
        self._first = False
        if due and logs is not None:
            values = self._metrics_after(epoch)
            logs.update({f"{self.prefix}{name}": values[name] for name in values if name not in ("queries", "skipped")})

    def evaluate(self, model: keras.Model) -> dict[str, float]:
        """Metrics of a model without the prefix: the dict of `tfdml.metrics.retrieval`.

        Raises:
            ValueError: embeddings that are not finite or all equal; the errors of `tfdml.metrics.retrieval`.
        """
        return self._measured(self._embedded(model))

    def _embedded(self, model):
        """Embeddings and labels of the set, or of queries and gallery."""
        towers = getattr(model, "towers", None)
        if self.gallery is None:
            _require_one_tower(towers)
            return [_embed(model, self.data, self.batch_size)]
        sides = zip(towers or (model, model), (self.data, self.gallery), strict=True)
        return [_embed(tower, data, self.batch_size) for tower, data in sides]

    def _measured(self, sides):
        if self.search == "exact":
            return metrics.retrieval(*sides[0], **_gallery(sides), k=self.k)
        return _approximate(sides, self.k)

    def _metrics_after(self, epoch):
        """Metrics of the model in training; all 0, with a warning, if nothing can be retrieved."""
        sides = self._embedded(self.network or self.model)
        trouble = next(filter(None, (_trouble(embeddings) for embeddings, _ in sides)), None)
        if trouble is None:
            return self._measured(sides)
        warnings.warn(f"After epoch {epoch + 1} {trouble} All {self.prefix}* metrics are 0.", stacklevel=2)
        only = "map" if self.search == "exact" else f"search_recall@{max(self.k) + (self.gallery is None)}"
        names = [*(f"recall@{k}" for k in self.k), "precision@1", "r_precision", "map@r", "mrr", only]
        return dict.fromkeys(names, 0.0)


def _as_data(data: Any) -> Any:
    """A pair `(x, labels)` of arrays of equal length, or whatever loads its examples: a labeled set, a dataset."""
    if is_labeled_set(data):
        in_memory = data.images is not None and data.load is None
        return _as_data((data.images, data.labels)) if in_memory else data
    if hasattr(data, "element_spec"):
        _require_finite_pairs(data)
        return data
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise ValueError(
            f"Received data of type {type(data).__name__}, expected a labeled set, a pair (x, labels) of arrays, "
            "or a tf.data.Dataset of such batches."
        )
    x, labels = np.asarray(data[0]), data[1]
    if len(x) != len(labels) or len(x) == 0:
        raise ValueError(
            f"Received {len(x)} examples and {len(labels)} labels, expected one label per example and at least one."
        )
    _require_numbers(x)
    return x, as_ids(labels, "labels", len(x))


def _require_finite_pairs(dataset):
    """Raise a ValueError unless a dataset holds pairs and ends."""
    pairs = isinstance(dataset.element_spec, tuple) and len(dataset.element_spec) == 2
    if not pairs or dataset.cardinality() == -1:
        raise ValueError(
            f"Received a dataset of {dataset.element_spec} and cardinality {int(dataset.cardinality())}, expected a "
            "finite one of batches (x, labels). Map it to pairs, and end it with take(n)."
        )


def _require_numbers(x):
    """Raise a ValueError unless all entries are numbers and none is NaN."""
    if x.dtype.kind not in "biuf":
        raise ValueError(
            f"Received examples of dtype {x.dtype}, expected numbers, such as images. Pass files as a labeled set: "
            "tfdml.datasets.folder or tfdml.datasets.LabeledSet(paths=, labels=, class_names=, load=)."
        )
    if x.dtype.kind == "f" and np.isnan(x).any():
        row = int(np.argmax(np.isnan(x.reshape(len(x), -1)).any(axis=1)))
        raise ValueError(
            f"Received NaN in the examples, first in row {row}, expected numbers. Repair or drop these rows."
        )


def _batches(data, batch_size):
    """Batches `(x, labels)` of a set, and their number, None if it is not known."""
    if isinstance(data, tuple):
        x, labels = data
        starts = range(0, len(x), batch_size)
        return ((x[i : i + batch_size], labels[i : i + batch_size]) for i in starts), len(starts)
    if is_labeled_set(data):
        data = data.batches(batch_size)
    count = int(data.cardinality())
    return iter(data), (count if count > 0 else None)


def _embed(model, data, batch_size):
    """Embeddings `(examples, dim)` and labels `(examples,)` of the whole set."""
    return embed_batches(model, _with_progress(*_batches(data, batch_size)))


def _trouble(embeddings):
    """The reason why embeddings cannot be ranked, with likely causes, or None."""
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
            "lag during the first hundreds of steps (wait, or lower their momentum to 0.9), a learning rate that is "
            "too high, inputs that do not reach the output."
        )
    return None


def _gallery(sides):
    """The gallery as options of `tfdml.metrics.retrieval`, if there is one."""
    return dict(zip(("gallery", "gallery_labels"), sides[1], strict=True)) if len(sides) > 1 else {}


def _approximate(sides, k, *, num_samples=1_000):
    """Metrics from ScaNN's neighbors, and `search_recall@k`: the share of exact neighbors found, on some queries."""
    (embeddings, labels), (items, item_labels) = sides[0], sides[-1]
    itself = len(sides) == 1  # each query also finds itself
    most = max(int(np.unique(item_labels, return_counts=True)[1].max()), max(k) + itself)
    neighbors, _ = search.Scann(items).search(embeddings, most)
    some = np.random.default_rng(0).permutation(len(labels))[:num_samples]
    exact, _ = search.Exact(items).search(embeddings[some], max(k) + itself)
    recall = search.neighbor_recall(neighbors[some, : max(k) + itself], exact)
    gallery_labels = None if itself else item_labels
    found = metrics.retrieval_from_neighbors(neighbors, labels, k=k, gallery_labels=gallery_labels)
    return found | {f"search_recall@{max(k) + itself}": recall}


def _require_shared_names(queries, gallery):
    """Raise a ValueError for two labeled sets whose labels are not those of the same classes."""
    names = [part.class_names for part in (queries, gallery) if hasattr(part, "class_names")]
    if len(names) == 2 and tuple(names[0]) != tuple(names[1]):
        raise ValueError(
            f"Received queries of {len(names[0])} classes and a gallery of {len(names[1])} with other class names, "
            "expected the same names, to which the labels refer. Read both with one call: "
            'tfdml.datasets.table(source, splits=("query", "gallery")).'
        )


def _require_one_tower(towers):
    if towers is not None:
        raise ValueError(
            "Received a model of two towers without gallery=, expected queries and a gallery: "
            "RetrievalEvaluation(queries, gallery=products)."
        )


def _with_progress(batches: Iterable[Any], total: int | None, *, patience: float = 5.0) -> Iterator[Any]:
    """The same batches; a progress bar appears after `patience` seconds."""
    begin, bar = time.monotonic(), None
    for done, batch in enumerate(batches, start=1):
        yield batch
        if bar is None and time.monotonic() - begin > patience:
            bar = keras.utils.Progbar(total, unit_name="batch")
        if bar is not None:
            bar.update(done, finalize=done == total)
