"""Retrieval metrics of a model during training."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import numpy.typing as npt

from tfdml import metrics, search
from tfdml._core.checks import as_ids, is_labeled_set, labeled_part, require, require_whole
from tfdml.callbacks.base import Scheduled, embedding_problem
from tfdml.embedding.in_memory import Embedded, embedder
from tfdml.evaluation.details.embedded_sets import query_and_gallery_models, require_same_class_names
from tfdml.metrics.retrieval.measures import Rank, default_ranks, listed_ranks, number_of_rank
from tfdml.search.builders import IndexBuilder, index_builder
from tfdml.typing import Data, Labels

if TYPE_CHECKING:
    import tensorflow as tf

_NAMES = ("precision@1", "r_precision", "map@r", "mrr", "map", "queries", "skipped", "time_fraction")
_NUMBERS = (
    "numbers, such as images. Pass files as a labeled set: tfdml.datasets.folder or "
    "tfdml.datasets.LabeledSet(paths=, labels=, class_names=, load=)"
)
_CHECKED_QUERIES = 1_000  # of an approximate search, searched exactly, too


class RetrievalEvaluation(Scheduled):
    """Embed a labeled set after an epoch, and write its retrieval metrics into the logs.

    `val_recall@1`, `val_precision@1`, `val_r_precision`, `val_map@r`, `val_mrr` reach every later callback and the
    `History`, so `EarlyStopping(monitor="val_map@r", mode="max")` and `ExportBest` work after it. Each example is a
    query against all others, by cosine similarity; `tfdml.metrics.retrieval` defines the metrics.

    With `gallery`, each example of `data` is a query against all examples of the gallery. A model with `towers`
    (`tfdml.models.TwoTowers`) embeds queries with the first tower and the gallery with the second one.

    Queries without a relevant item are not in the means. If there are any, or with `sample`, the logs also have
    `val_queries`, the number of queries in the means, and `val_skipped`, the number of queries without a relevant item.

    With `max_time_fraction`, an evaluation between the first and the last epoch is skipped if another one of the
    previous duration would exceed it. `val_time_fraction` in every epoch's logs is the fraction that they took so far.

    `metrics` adds the numbers of your own function of the same embeddings, such as `tfdml.metrics.clustering`.

    Several evaluations, such as of the training and the validation set, work in one `fit` with different prefixes. If
    embeddings are not finite or all equal, a warning names likely causes, all values are 0, the minimum, and `metrics`
    gets random embeddings, so that its values are at chance level.

    See also: `tfdml.evaluate` for a report of one model.

    Example: each row's nearest neighbor has its class, but for the last one's.

        >>> inputs = keras.Input((2,))
        >>> model = tfdml.models.EmbeddingModel(inputs, tfdml.layers.Mahalanobis()(inputs))  # starts as the identity
        >>> model.compile(keras.optimizers.SGD(0.001), loss=tfdml.losses.ContrastiveLoss())
        >>> x = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9], [0.8, 0.2]])
        >>> labels = np.array([0, 0, 1, 1, 1])
        >>> evaluation = tfdml.callbacks.RetrievalEvaluation((x, labels), k=1, metrics=tfdml.metrics.clustering)
        >>> run = model.fit(x, labels, epochs=2, verbose=0, callbacks=[evaluation])
        >>> run.history["val_recall@1"], [round(value, 2) for value in run.history["val_nmi"]]
        ([0.8, 0.8], [0.43, 0.43])

    Args:
        data: a labeled set, a pair `(x, labels)` of arrays, or a finite `tf.data.Dataset` of batches `(x, labels)`; x
            may be texts.
        gallery: the same, to search in; None to search in `data`.
        model: the network to evaluate, if it is not the model in training but has its layers, such as
            `keras.Model(model.input, model.output["embedding"])` of a model with several outputs.
        k: ranks of `recall@k`, as in `tfdml.metrics.retrieval`.
        metrics: function of the embeddings `(examples, dim)` and the labels `(examples,)` of `data` that returns a dict
            of numbers. The logs have them beside the others, without text. A callback that monitors one needs `mode`.
        index: "exact" or None; or "scann" or a function `(vectors, metric=...)` that returns an index, for approximate
            neighbors; then `val_search_recall@k` is the fraction of the exact neighbors that were found.
        sample: number of queries, drawn once at random among those with a relevant item; None for all. Each is
            searched in the complete set or gallery, so the metrics estimate the metrics of all queries.
        every: number of epochs between two evaluations; the first and the last epoch are always evaluated.
        max_time_fraction: maximum fraction of the time of `fit`, above 0 and below 1; None for no limit.
        batch_size: number of examples embedded at the same time; a `tf.data.Dataset` has its own batches.
        at_sign: text in place of the @ of a name: "_at_" for `val_recall_at_1`, since MLflow takes no name with @.

    Raises:
        ValueError: float labels or examples with NaN; a rank above the number of candidates; no query with a relevant
            item; other class names in the gallery; a model of several outputs, or of two towers without `gallery`.
    """

    def __init__(
        self,
        data: Data | tuple[npt.ArrayLike, Labels] | tf.data.Dataset,
        *,
        gallery: Data | tuple[npt.ArrayLike, Labels] | tf.data.Dataset | None = None,
        model: keras.Model | None = None,
        k: Rank | Sequence[Rank] | None = None,
        metrics: Callable[[np.ndarray, np.ndarray], Mapping[str, Any]] | None = None,
        index: IndexBuilder = "exact",
        sample: int | None = None,
        every: int = 1,
        max_time_fraction: float | None = None,
        batch_size: int = 256,
        prefix: str = "val_",
        at_sign: str = "@",
    ) -> None:
        super().__init__(every=every, max_time_fraction=max_time_fraction, prefix=prefix, at_sign=at_sign)
        self.k = None if k is None else listed_ranks(k)
        require_whole("sample", 1 if sample is None else sample, 1)
        expected = "a function of embeddings and labels, or None"
        require(metrics is None or callable(metrics), f"metrics={metrics!r}", expected)
        require_same_class_names(data, gallery)
        self.data = _as_data(data)
        self.gallery = None if gallery is None else _as_data(gallery)
        _require_candidates(self.data, self.gallery, self.k or [1])
        self.network, self.index, self.sample, self.metrics = model, index_builder(index), sample, metrics
        self._embed_queries, self._embed_gallery = (embedder(x, batch_size) for x in (self.data, self.gallery))

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Begin to measure time; a ValueError for texts where the network takes numbers, such as names of files."""
        super().on_train_begin(logs)
        self._models_of(self.network or self.model)

    def evaluate(self, model: keras.Model) -> dict[str, float]:
        """Metrics of a model without the prefix: the dict of `tfdml.metrics.retrieval`, and those of `metrics`."""
        queries, gallery = self._embedded(model)
        return self._measured(queries, gallery) | self._own_numbers(queries.embeddings, queries.labels)

    def writes(self, name: str) -> bool:
        """Whether this name may be in the logs after an evaluation; with `metrics`, any name with the prefix."""
        return name.startswith(self.prefix) and (self.metrics is not None or self.direction(name) == "max")

    def direction(self, name: str) -> str | None:
        """The mode of a monitor of this name: "max" for the metrics of a search, None for those of `metrics`."""
        ks = default_ranks(8) if self.k is None else self.k
        names = {*(f"recall@{k}" for k in ks), *_NAMES}
        metric_name = name.removeprefix(self.prefix)
        is_of_search = metric_name in {metric.replace("@", self.at_sign) for metric in names}
        return "max" if is_of_search or metric_name.startswith("search_recall") else None

    def _embedded(self, model):
        """Queries and gallery as `Embedded`; the gallery is None for queries that are searched among themselves."""
        query_model, gallery_model = self._models_of(model)
        queries = self._embed_queries(query_model)
        return queries, None if self.gallery is None else self._embed_gallery(gallery_model)

    def _models_of(self, model):
        """The networks of queries and of the gallery; a ValueError for texts where a network takes numbers."""
        networks = query_and_gallery_models(model, has_gallery=self.gallery is not None)
        for network, data in zip(networks, (self.data, self.gallery), strict=True):
            inputs = getattr(network, "inputs", None) or []
            if inputs and isinstance(data, tuple) and data[0].dtype == object:
                require(any(x.dtype == "string" for x in inputs), f"texts for an input of {inputs[0].dtype}", _NUMBERS)
        return networks

    def _measured(self, queries, gallery):
        ks = self._ks(queries, gallery)
        queries, options = _sampled(queries, gallery, self.sample)
        if self.index is search.Exact:
            return metrics.retrieval(*queries, **options, k=ks)
        return _approximate(self.index, queries, options, ks, finds_itself=gallery is None)

    def _ks(self, queries, gallery):
        return default_ranks(_num_candidates(queries, gallery)) if self.k is None else self.k

    def _values_after(self, epoch):
        """Metrics of the model in training; those of a search are 0, with a warning, if embeddings cannot be ranked."""
        queries, gallery = self._embedded(self.network or self.model)
        problem = embedding_problem(queries.embeddings) or (gallery and embedding_problem(gallery.embeddings))
        embeddings = queries.embeddings
        if problem is None:
            values = self._logged(self._measured(queries, gallery))
        else:
            random = "" if self.metrics is None else " Those of metrics= belong to random embeddings."
            warnings.warn(f"After epoch {epoch + 1} {problem} All {self.prefix}* metrics are 0.{random}", stacklevel=2)
            values = self._zeros(queries, gallery)
            embeddings = np.random.default_rng(0).standard_normal(embeddings.shape, np.float32)
        return values | self._own_numbers(embeddings, queries.labels)

    def _own_numbers(self, embeddings, labels):
        """The numbers of `metrics`, whose names differ from those of the search."""
        numbers = {} if self.metrics is None else self.metrics(embeddings, labels)
        is_flat = isinstance(numbers, Mapping) and all(np.isscalar(value) for value in numbers.values())
        require(is_flat, f"metrics that return {numbers!r}", "a dict of numbers")
        taken = [name for name in numbers if self.direction(self.prefix + name.replace("@", self.at_sign))]
        require(not taken, f"metrics that return {taken}, names of the evaluation itself", "other names")
        return {name: float(value) for name, value in numbers.items() if not isinstance(value, str)}

    def _zeros(self, queries, gallery):
        ks = self._ks(queries, gallery)
        last = (
            "map"
            if self.index is search.Exact
            else _recall_name(_last_rank(ks, _num_candidates(queries, gallery)), gallery is None)
        )
        return dict.fromkeys([*(f"recall@{k}" for k in ks), "precision@1", "r_precision", "map@r", "mrr", last], 0.0)

    def _logged(self, values):
        """The metrics, with the numbers of queries where these are not all examples."""
        omitted = () if self.sample is not None or values["skipped"] else ("queries", "skipped")
        return {name: value for name, value in values.items() if name not in omitted}


def _as_data(data):
    """A pair `(x, labels)` of arrays of equal length, or a labeled set or dataset that loads its examples."""
    if is_labeled_set(data):
        data = labeled_part(data, "retrieval metrics")
        is_in_memory = data.images is not None and data.load is None
        return _as_data((data.images, data.labels)) if is_in_memory else data
    if hasattr(data, "element_spec"):
        _require_finite_pairs(data)
        return data
    is_pair = isinstance(data, tuple | list) and len(data) == 2
    expected = "a labeled set, a pair (x, labels) of arrays, or a tf.data.Dataset of such batches"
    require(is_pair, f"data of type {type(data).__name__}", expected)
    x, labels = _as_examples(data[0]), data[1]
    received = f"{len(x)} examples and {len(labels)} labels"
    require(0 < len(x) == len(labels), received, "one label per example and at least one")
    _require_numbers_or_texts(x)
    return x, as_ids(labels, "labels", len(x))


def _require_finite_pairs(dataset):
    """Raise a ValueError unless a dataset holds batches of pairs and ends."""
    spec = dataset.element_spec
    is_pair = isinstance(spec, tuple) and len(spec) == 2 and spec[1].shape.rank != 0
    require(
        is_pair and dataset.cardinality() != -1,
        f"a dataset of {dataset.element_spec} and cardinality {int(dataset.cardinality())}",
        "a finite one of batches (x, labels). Map it to pairs, batch it, and end it with take(n)",
    )


def _as_examples(x):
    """Examples as an array; texts as objects, the only form that Keras takes."""
    x = np.asarray(x)
    return x.astype(object) if x.dtype.kind in "US" else x


def _require_numbers_or_texts(x):
    are_texts = x.dtype == object and all(isinstance(value, str | bytes) for value in x.flat)
    require(x.dtype.kind in "biuf" or are_texts, f"examples of dtype {x.dtype}", _NUMBERS)
    if x.dtype.kind == "f" and np.isnan(x).any():
        row = int(np.argmax(np.isnan(x.reshape(len(x), -1)).any(axis=1)))
        raise ValueError(
            f"Received NaN in the examples, first in row {row}, expected numbers. Repair or drop these rows."
        )


def _sampled(queries, gallery, sample):
    """The queries, all or a sample of those with a relevant item; and their gallery, as options of a search."""
    options = {} if gallery is None else {"gallery": gallery.embeddings, "gallery_labels": gallery.labels}
    rows = np.flatnonzero(_has_relevant_item(queries.labels, gallery and gallery.labels))
    if sample is None or sample >= len(rows):
        return queries, options
    rows = np.sort(np.random.default_rng(0).choice(rows, sample, replace=False))
    if gallery is None:
        groups = {"groups": rows, "gallery_groups": np.arange(len(queries.labels))}  # so that no query finds itself
        options = {"gallery": queries.embeddings, "gallery_labels": queries.labels, **groups}
    return Embedded(queries.embeddings[rows], queries.labels[rows]), options


def _has_relevant_item(labels, gallery_labels):
    """Whether each query has a relevant item, `(queries,)`; without a gallery, another query of its class."""
    if gallery_labels is not None:
        return np.isin(labels, gallery_labels)
    _, classes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return counts[classes] > 1


def _approximate(build, queries, options, ks, *, finds_itself):
    items, item_labels = options.pop("gallery", queries.embeddings), options.get("gallery_labels", queries.labels)
    last = _last_rank(ks, len(items) - finds_itself)
    k = last + finds_itself
    num_neighbors = max(int(np.unique(item_labels, return_counts=True)[1].max()), k)
    neighbors, _ = build(items, metric="cosine").search(queries.embeddings, num_neighbors)
    rows = np.random.default_rng(0).permutation(len(neighbors))[:_CHECKED_QUERIES]
    exact, _ = search.Exact(items).search(queries.embeddings[rows], k)
    values = metrics.retrieval(None, queries.labels, neighbors=neighbors, k=ks, **options)
    return values | {_recall_name(last, finds_itself): search.neighbor_recall(neighbors[rows, :k], exact)}


def _recall_name(last, finds_itself):
    return f"search_recall@{last + finds_itself}"


def _num_candidates(queries, gallery):
    return len(queries.labels) - 1 if gallery is None else len(gallery.labels)


def _last_rank(ks, num_candidates):
    return max(number_of_rank(rank, num_candidates) for rank in ks)


def _require_candidates(data, gallery, ks):
    labels, gallery_labels = _labels(data), None if gallery is None else _labels(gallery)
    if labels is None or (gallery is not None and gallery_labels is None):
        return
    received = f"{len(labels)} queries of which none has a relevant item"
    require(_has_relevant_item(labels, gallery_labels).any(), received, "examples of the same classes")
    candidates = len(labels) - 1 if gallery is None else len(gallery_labels)
    last = _last_rank(ks, candidates)
    require(last <= candidates, f"k={last} and {candidates} candidates per query", "ranks up to that number")


def _labels(data):
    """The labels of a set; None for a dataset, whose labels are not read yet."""
    return data[1] if isinstance(data, tuple) else getattr(data, "labels", None)
