"""Retrieval metrics of a model during training."""

import functools
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from tfdml import metrics, search
from tfdml._core.checks import as_ids, is_labeled_set, require, require_whole
from tfdml.callbacks.base import Scheduled, trouble_with
from tfdml.embedding.in_memory import embed_batches
from tfdml.metrics.retrieval.measures import default_ranks
from tfdml.search.builders import IndexBuilder, index_builder


class RetrievalEvaluation(Scheduled):
    """Embed a labeled set after an epoch, and write its retrieval metrics into the logs.

    `val_recall@1`, `val_precision@1`, `val_r_precision`, `val_map@r`, `val_mrr` reach every later callback and the
    `History`, so `EarlyStopping(monitor="val_map@r", mode="max")` and `ExportBest` work after it. Each example is a
    query against all others, by cosine similarity; `tfdml.metrics.retrieval` defines the metrics.

    With `gallery`, each example of `data` is a query against all examples of the gallery. A model with `towers`
    (`tfdml.models.TwoTowers`) embeds queries with the first tower and the gallery with the second one.

    Queries without a relevant item are left out of the means. If there are any, or `sample` is given, the logs also
    have `val_queries`, the number of queries in the means, and `val_skipped`, the number that was left out.

    Evaluation takes place after the first epoch, every `every` epochs, and after the last epoch. With `share`, epochs
    between the first and the last are left out while evaluation would take more than this share of the time of `fit`
    so far, as long as the previous one took. `val_time_share` in the logs of every epoch is the share that it took.

    Several evaluations, such as of the training and of the validation set, work in one `fit`; give them different
    prefixes. `Evaluation` is the callback for any other metrics.

    If embeddings are not finite or all equal, nothing can be retrieved: a warning names likely causes, all values are
    0, the minimum, and training continues. (With NaN as the first value, `EarlyStopping`, `ReduceLROnPlateau` and
    `ModelCheckpoint` would keep NaN as the best value.)

    Example:

        model.fit(batches, epochs=10, steps_per_epoch=200, callbacks=[
            tfdml.callbacks.RetrievalEvaluation(test, k=(1, 10)),
            tfdml.callbacks.RetrievalEvaluation(train, sample=1_000, max_time_fraction=0.05, prefix="train_"),
            keras.callbacks.EarlyStopping(monitor="val_map@r", mode="max", patience=3)])

    Args:
        data: a labeled set of `tfdml.datasets`, a pair `(x, labels)` of arrays, or a finite `tf.data.Dataset` of
            batches `(x, labels)`.
        gallery: the same, to search in; None to search in `data`.
        model: the network to evaluate, if it is not the model in training but has its layers, such as
            `keras.Model(model.input, model.output["embedding"])` of a model with several outputs.
        k: the ranks of `recall@k`; None for 1, 2, 4 and 8, as far as a query has candidates.
        search: "exact", None or `tfdml.search.Exact`; or "scann", `tfdml.search.Scann` or any function
            `(vectors, metric=...)` that returns an index, for approximate neighbors if exact search takes too long;
            then `val_search_recall@k` is the share of the exact neighbors that were found.
        sample: number of queries, drawn once at random among those with a relevant item; None for all. Each is still
            searched in the whole set or gallery, so the metrics estimate the metrics of all queries.
        every: number of epochs between two evaluations.
        max_time_fraction: maximum fraction of the time of `fit`, above 0 and below 1; None for no limit.
        batch_size: number of examples embedded at the same time; a `tf.data.Dataset` has its own batches.
        prefix: prefix of each metric's name.

    Raises:
        ValueError: data of another form, file names or other text instead of examples, an unknown search, labels and
            examples of different lengths, float labels, examples with NaN, an option out of range, a rank above the
            number of candidates, queries of which none has a relevant item, or queries and a gallery with different
            class names; at the end of an epoch, a model of several outputs, or of two towers without `gallery`.

    Warns:
        UserWarning: at the end of an epoch, embeddings that are not finite or all equal.
    """

    def __init__(
        self,
        data: Any,
        *,
        gallery: Any = None,
        model: keras.Model | None = None,
        k: int | Sequence[int] | None = None,
        search: IndexBuilder = "exact",
        sample: int | None = None,
        every: int = 1,
        max_time_fraction: float | None = None,
        batch_size: int = 256,
        prefix: str = "val_",
    ) -> None:
        super().__init__(every=every, max_time_fraction=max_time_fraction, prefix=prefix)
        self.k = None if k is None else np.atleast_1d(k).tolist()
        options = [("k", rank) for rank in self.k or ()] + [("sample", sample)] * (sample is not None)
        for name, value in [("batch_size", batch_size), *options]:
            require_whole(name, value, 1)
        _require_shared_names(data, gallery)
        self.data = _as_data(data)
        self.gallery = None if gallery is None else _as_data(gallery)
        _require_candidates(self.data, self.gallery, self.k or [1])
        self.network = model
        self.search = index_builder(search)
        self.sample = sample
        self._embed_queries, self._embed_gallery = (
            _embedder(labeled, batch_size) for labeled in (self.data, self.gallery)
        )

    def evaluate(self, model: keras.Model) -> dict[str, float]:
        """Metrics of a model without the prefix: the dict of `tfdml.metrics.retrieval`.

        Raises:
            ValueError: embeddings that are not finite or all equal; the errors of `tfdml.metrics.retrieval`.
        """
        return self._measured(*self._embedded(model))

    def _embedded(self, model):
        """Embeddings and labels of the queries, and of the gallery; None for a set that is its own gallery."""
        towers = getattr(model, "towers", None)
        if self.gallery is None:
            _require_one_tower(towers)
            return _Embedded(*self._embed_queries(model)), None
        query_model, gallery_model = towers or (model, model)
        return _Embedded(*self._embed_queries(query_model)), _Embedded(*self._embed_gallery(gallery_model))

    def _measured(self, queries, gallery):
        ranks = self._ranks(gallery or queries)
        embeddings, labels, options = _sampled(queries, gallery, self.sample)
        if self.search is search.Exact:
            return metrics.retrieval(embeddings, labels, **options, k=ranks)
        return _approximate(self.search, embeddings, labels, options, ranks)

    def _ranks(self, items):
        """The ranks of recall@k."""
        return default_ranks(len(items.labels) - (self.gallery is None)) if self.k is None else self.k

    def _values_after(self, epoch):
        """Metrics of the model in training; all 0, with a warning, if nothing can be retrieved."""
        queries, gallery = self._embedded(self.network or self.model)
        trouble = trouble_with(queries.embeddings) or (gallery and trouble_with(gallery.embeddings))
        if trouble is None:
            return self._logged(self._measured(queries, gallery))
        warnings.warn(f"After epoch {epoch + 1} {trouble} All {self.prefix}* metrics are 0.", stacklevel=2)
        ks = self._ranks(gallery or queries)
        last = "map" if self.search is search.Exact else f"search_recall@{max(ks) + (self.gallery is None)}"
        names = [*(f"recall@{k}" for k in ks), "precision@1", "r_precision", "map@r", "mrr", last]
        return dict.fromkeys(names, 0.0)

    def _logged(self, values):
        """The metrics, with the numbers of queries where these are not all examples."""
        omitted = () if self.sample is not None or values["skipped"] else ("queries", "skipped")
        return {name: value for name, value in values.items() if name not in omitted}


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
    count = int(data.cardinality())
    return iter(data), (count if count > 0 else None)


def _embedder(data, batch_size):
    """Function of a model: embeddings `(examples, dim)` and labels `(examples,)` of a set, which is batched once."""
    batched = functools.cache(lambda: data.batches(batch_size) if is_labeled_set(data) else data)
    return lambda model: embed_batches(model, _with_progress(*_batches(batched(), batch_size)))


class _Embedded(NamedTuple):
    """Embeddings `(n, dim)` and labels `(n,)` of queries, or of a gallery."""

    embeddings: np.ndarray
    labels: np.ndarray


def _sampled(queries, gallery, sample):
    """Embeddings and labels of the queries, all or a sample, and the gallery as options of `metrics.retrieval`."""
    options = {} if gallery is None else {"gallery": gallery.embeddings, "gallery_labels": gallery.labels}
    rows = np.flatnonzero(_has_match(queries.labels, gallery and gallery.labels))
    if sample is None or sample >= len(rows):
        return *queries, options
    rows = np.sort(np.random.default_rng(0).choice(rows, sample, replace=False))
    if gallery is None:  # Each row is its own group, so that a query does not find itself.
        groups = {"groups": rows, "gallery_groups": np.arange(len(queries.labels))}
        options = {"gallery": queries.embeddings, "gallery_labels": queries.labels, **groups}
    return queries.embeddings[rows], queries.labels[rows], options


def _has_match(labels, gallery_labels):
    """Whether each query has a relevant item, `(queries,)`; without a gallery, another one of its class."""
    if gallery_labels is not None:
        return np.isin(labels, gallery_labels)
    _, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return counts[inverse] > 1


def _approximate(build, queries, labels, gallery, k, *, num_samples=1_000):
    """Metrics from the neighbors in an index, and `search_recall@k`: the share of exact ones found, on some queries."""
    items, item_labels = gallery.get("gallery", queries), gallery.get("gallery_labels", labels)
    is_own_gallery = "gallery" not in gallery or "groups" in gallery  # each query also finds itself
    num_neighbors = max(int(np.unique(item_labels, return_counts=True)[1].max()), max(k) + is_own_gallery)
    neighbors, _ = build(items, metric="cosine").search(queries, num_neighbors)
    sampled = np.random.default_rng(0).permutation(len(labels))[:num_samples]
    exact, _ = search.Exact(items).search(queries[sampled], max(k) + is_own_gallery)
    recall = search.neighbor_recall(neighbors[sampled, : max(k) + is_own_gallery], exact)
    options = {name: value for name, value in gallery.items() if name != "gallery"}
    values = metrics.retrieval_from_neighbors(neighbors, labels, k=k, **options)
    return values | {f"search_recall@{max(k) + is_own_gallery}": recall}


def _require_candidates(data, gallery, ranks):
    """Raise a ValueError if no query has a relevant item, or a rank exceeds the number of candidates."""
    labels, gallery_labels = _labels(data), None if gallery is None else _labels(gallery)
    if labels is None or (gallery is not None and gallery_labels is None):
        return
    received = f"{len(labels)} queries of which none has a relevant item"
    require(_has_match(labels, gallery_labels).any(), received, "examples of the same classes")
    candidates = len(labels) - 1 if gallery is None else len(gallery_labels)
    received = f"k={max(ranks)} and {candidates} candidates per query"
    require(max(ranks) <= candidates, received, "ranks up to that number")


def _labels(data):
    """The labels of a set, None where they are known only when it is read."""
    return data[1] if isinstance(data, tuple) else getattr(data, "labels", None)


def _require_shared_names(queries, gallery):
    """Raise a ValueError for two labeled sets whose labels do not mean the same classes."""
    names = [labeled.class_names for labeled in (queries, gallery) if hasattr(labeled, "class_names")]
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
