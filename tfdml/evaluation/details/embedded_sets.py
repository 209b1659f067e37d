"""Queries and gallery of an evaluation: embeddings, labels, and their labeled sets."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, as_vectors, is_labeled_set, labeled_part, require
from tfdml.embedding.in_memory import embed
from tfdml.search.scores import l2_normalize
from tfdml.typing import Data, Embedder, Labels


@dataclass(frozen=True, eq=False)
class EmbeddedSet:
    """Queries or gallery: embeddings `(n, dim)` with labels `(n,)`; `data` is their labeled set, if there is one.

    Distractors, the examples of a labeled set that have no label, have a label below 0 of their own. `class_names` are
    by label, `names` by row.
    """

    vectors: np.ndarray
    labels: np.ndarray
    data: Data | None = None
    class_names: Sequence[str] | None = None
    names: Sequence[str] | None = None

    @cached_property
    def unit(self) -> np.ndarray:
        """The embeddings, scaled to norm 1."""
        return l2_normalize(self.vectors)

    def class_name(self, label: int) -> str:
        """The name of a class; without names its id."""
        if self.class_names is None:
            return str(label)
        return "no label" if label < 0 else str(self.class_names[label])

    @property
    def is_labeled(self) -> np.ndarray:
        """Whether each example has a label, `(n,)`; all do without a labeled set."""
        return self.labels >= (np.iinfo(np.int64).min if self.data is None else 0)

    def name(self, row: int) -> str:
        """The file of an example; without files its row."""
        return str(row if self.names is None else self.names[row])


def queries_and_gallery(
    model: Embedder | npt.ArrayLike,
    data: Data | Labels,
    gallery: Data | Labels | None,
    gallery_embeddings: npt.ArrayLike | None,
    batch_size: int,
    distractors: bool = False,
) -> tuple[EmbeddedSet, EmbeddedSet]:
    """Queries and gallery, twice the same set without a gallery; arguments as for `tfdml.evaluate`."""
    _require_order(model, data)
    if is_labeled_set(data) and not (distractors and gallery is None):
        data, model = _labeled(data, model)
    if is_labeled_set(gallery) and not distractors:
        gallery, gallery_embeddings = _labeled(gallery, gallery_embeddings)
    if not hasattr(model, "predict_on_batch"):
        require(
            (gallery is None) == (gallery_embeddings is None),
            f"{'no gallery' if gallery is None else 'a gallery'} and "
            f"{'no gallery_embeddings' if gallery_embeddings is None else 'gallery_embeddings'}",
            "both or neither",
        )
        return _with_gallery(embedded_set(model, data, "embeddings"), gallery, gallery_embeddings)
    require(gallery_embeddings is None, "a model and gallery_embeddings", "a model that embeds the gallery, or arrays")
    query_model, gallery_model = query_and_gallery_models(model, has_gallery=gallery is not None)
    queries = embedded_set(_embeddings(query_model, data, batch_size), data, "embeddings")
    return _with_gallery(queries, gallery, _embeddings(gallery_model, gallery, batch_size))


def _require_order(model, data):
    """Raise a ValueError for a set or labels in the place of the model or embeddings."""
    axes = [len(getattr(each, "shape", ())) for each in (model, data)]
    is_exchanged = is_labeled_set(model) or hasattr(data, "predict_on_batch") or axes == [1, 2]
    received = f"{type(model).__name__} and {type(data).__name__} in this order"
    expected = "a model and a labeled set, or embeddings and labels. Exchange the two"
    require(not is_exchanged, received, expected)


def query_and_gallery_models(model: Any, *, has_gallery: bool) -> tuple[Any, Any]:
    """The two towers of a model (they need a gallery), or twice the model."""
    towers = getattr(model, "towers", None)
    received = "a model of two towers without gallery="
    require(towers is None or has_gallery, received, "queries and a gallery, such as gallery=products")
    return towers or (model, model)


def require_same_class_names(data: Any, gallery: Any) -> None:
    """Raise a ValueError for two labeled sets with different class names; other data have no names."""
    names = [tuple(labeled.class_names) for labeled in (data, gallery) if is_labeled_set(labeled)]
    require(
        len(set(names)) < 2,
        "queries and a gallery with other class names",
        "the same names, to which the labels refer. Read both with one call: "
        'tfdml.datasets.table(source, splits=("query", "gallery"))',
    )


def embedded_set(embeddings: npt.ArrayLike, data: Any, name: str) -> EmbeddedSet:
    """An `EmbeddedSet` of embeddings and of a labeled set or labels; `name` is the name of the embeddings in errors."""
    vectors = as_vectors(embeddings, name)
    if not is_labeled_set(data):
        return EmbeddedSet(vectors, as_ids(data, "labels", len(vectors)))
    labels = as_ids(data.labels, "labels", len(vectors))
    labels = np.where(labels < 0, -1 - np.arange(len(labels)), labels)
    return EmbeddedSet(vectors, labels, data, data.class_names, getattr(data, "paths", None))


def _labeled(data, vectors):
    """The examples of a set that have a label, and their embeddings; a model, or None, is returned unchanged."""
    labeled = labeled_part(data, "retrieval metrics")
    if labeled is data or vectors is None or hasattr(vectors, "predict_on_batch"):
        return labeled, vectors
    vectors, labels = as_vectors(vectors, "embeddings"), as_ids(data.labels, "labels")
    require(len(vectors) == len(labels), f"{len(vectors)} embeddings of {len(labels)} examples", "one of each")
    return labeled, vectors[labels >= 0]


def _with_gallery(queries, gallery, gallery_embeddings):
    if gallery is None:
        return queries, queries
    require_same_class_names(queries.data, gallery)
    return queries, embedded_set(gallery_embeddings, gallery, "gallery_embeddings")


def _embeddings(model, data, batch_size):
    if data is None:
        return None
    require(
        is_labeled_set(data),
        f"a model and data of type {type(data).__name__}",
        "a labeled set of tfdml.datasets, such as LabeledSet(images=, labels=, class_names=)",
    )
    return embed(model, data, batch_size=batch_size)
