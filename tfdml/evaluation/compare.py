"""Comparison of embeddings, whatever made them."""

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, as_readable, as_unmasked, as_vectors, require, require_metric
from tfdml.evaluation.details.embedded_sets import EmbeddedSet
from tfdml.evaluation.measure import WHOLE, measured, protocol_of
from tfdml.evaluation.record import Evaluation
from tfdml.evaluation.statistics import as_groups, require_against, require_names, require_options
from tfdml.typing import Labels

_RANKED = re.compile(r"(recall|precision|ndcg|map)@[1-9][0-9]*|recall@[0-9.]+%|r_precision|map@r|map|mrr")
_PICTURE = 96  # pixels


def compare(
    embeddings: Mapping[str, npt.ArrayLike],
    labels: Labels,
    *,
    gallery: Mapping[str, npt.ArrayLike] | None = None,
    gallery_labels: Labels | None = None,
    by: Mapping[str, Sequence[Any]] | None = None,
    paths: Sequence[str] | None = None,
    gallery_paths: Sequence[str] | None = None,
    metrics: Sequence[str] = ("map@r", "recall@1", "r_precision", "mrr"),
    metric: str = "cosine",
    against: str | None = None,
    confidence: float = 0.95,
    shown: int = 5,
) -> Evaluation:
    """Compare embeddings of several models on one set: metrics with intervals, and tests of each pair of models.

    Classes and not queries are the units of intervals and tests: queries of one class share relevant items. Models are
    measured one after another, without a matrix of all similarities; a mapping that reads a file at each access keeps
    one of them in memory.

    See also: `compare_runs` for rankings with judgements, `compare_scores` for values that another tool measured.
    docs/compare.md explains the tables.

    Example: eight classes of two directions; `noisy` turns every second vector around.

        >>> angles = np.repeat(np.arange(8.0), 2) + np.tile([0.0, 0.1], 8)
        >>> exact = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        >>> noisy = np.where(np.arange(16)[:, None] % 2, -exact, exact)
        >>> comparison = tfdml.evaluation.compare({"exact": exact, "noisy": noisy}, np.repeat(np.arange(8), 2))
        >>> comparison.pairs[0].better, comparison.means["exact"]["recall@1"].value
        ('exact', 1.0)
        >>> print(comparison.save("comparison"))
        comparison

    Args:
        embeddings: `(queries, dim)` floats by the name of the model; dims may differ between models.
        labels: `(queries,)` integers or texts, the classes.
        gallery: `(items, dim)` floats by the same names, to search in; None for each row against all other rows.
        gallery_labels: `(items,)`, with `gallery`.
        by: columns of one value per query, such as `{"camera": cameras}`: a table of the main metric for each value.
        paths, gallery_paths: image files of the queries and of the gallery, for the pictures on the page.
        metrics: names; the first one is the main metric, for pairs and groups. Of `retrieval`: "recall@k" for any k,
            "precision@k", "ndcg@k", "map@k", "r_precision", "map@r", "map" and "mrr". "knn" is the accuracy of a vote
            of 5 neighbors. "verification" (AUC, EER and others of drawn pairs) and "clustering" (NMI, AMI, F1 of
            k-means) are numbers of the whole set, without an interval.
        metric: "cosine", "dot" or "euclidean".
        against: a model to compare each other one with; None for all pairs. Holm's p corrects for these pairs.
        confidence: confidence of the intervals.
        shown: number of queries of a pair of models that differ most.

    Returns:
        A record that prints as tables: `means`, `pairs`, `groups`, `per_query`; `save(folder)` writes a JSON file and a
        page. With too few classes for an interval, the record says so. A single model has means and no pairs.

    Raises:
        ValueError: vectors that are all the same, or labels of one class; it names the model.
    """
    require_metrics(metrics)
    require_metric(metric)
    require_options(confidence, shown)
    require_names(embeddings, "embeddings")
    require_against(against, embeddings)
    is_complete = (gallery is None) == (gallery_labels is None) and (gallery is None or set(gallery) == set(embeddings))
    expected = f"gallery_labels and a gallery of each of {', '.join(embeddings)}, or neither"
    require(is_complete, f"a gallery of {', '.join(gallery or ()) or 'no model'}", expected)
    require(gallery is not None or gallery_paths is None, "gallery_paths without a gallery", "a gallery, or none")
    classes = _as_classes(labels, gallery_labels)
    groups = as_groups(by, len(classes.queries))
    sets = _pictured(paths, classes.queries, "paths"), _pictured(gallery_paths, classes.items, "gallery_paths")
    sides_of = functools.partial(_sides, embeddings, gallery, classes, paths, gallery_paths)
    for name in embeddings:
        sides_of(name)
    evaluation = measured(
        embeddings,
        sides_of,
        metrics,
        metric=metric,
        groups=groups,
        confidence=confidence,
        shown=shown,
        against=against,
        protocol=protocol_of(None, has_gallery=classes.has_gallery, metric=metric),
    )
    return dataclasses.replace(evaluation, sets=(sets[0], sets[1] if classes.has_gallery else sets[0]))


class _Classes(NamedTuple):
    """Class ids of queries and items; without a gallery the same array. `texts` are the labels by id, or None."""

    queries: np.ndarray
    items: np.ndarray
    texts: np.ndarray | None

    @property
    def has_gallery(self):
        """Whether the items are not the queries."""
        return self.items is not self.queries

    def text(self, label):
        """A class as text."""
        return str(label if self.texts is None else self.texts[label])


def _as_classes(labels, gallery_labels):
    both = [np.asarray(as_readable(as_unmasked(ids, "labels"))) for ids in (labels, gallery_labels) if ids is not None]
    texts = None
    if any(ids.dtype.kind in "UTO" and ids.ndim == 1 for ids in both):
        texts, codes = np.unique(np.concatenate(both).astype(str), return_inverse=True)
        both = np.split(codes, [len(both[0])])[: len(both)]
    queries = as_ids(both[0], "labels")
    classes = _Classes(queries, as_ids(both[1], "gallery_labels") if len(both) > 1 else queries, texts)
    number = len(np.unique(classes.queries))
    require(number > 1, f"labels of one class, {classes.text(queries[0])}", "at least two classes")
    received = (
        f"labels such as {classes.text(queries[0])!r}, and gallery_labels such as {classes.text(classes.items[0])!r}"
    )
    require(np.isin(queries, classes.items).any(), f"{received}, without a common class", "the same names of classes")
    return classes


def require_metrics(names: Sequence[str]) -> None:
    """Raise a ValueError unless these are names of metrics and the first one has a value for each query."""
    require(not isinstance(names, str) and len(names) > 0, f"metrics={names!r}", 'several names, such as ("map@r",)')
    unknown = [name for name in names if not (_RANKED.fullmatch(name) or name in (*WHOLE, "knn"))]
    expected = "'recall@1', 'precision@5', 'ndcg@10', 'map@10', 'r_precision', 'map@r', 'map', 'mrr', 'knn', "
    require(not unknown, f"metrics {unknown}", f"names such as {expected}'verification' and 'clustering'")
    require(names[0] not in WHOLE, f"{names[0]!r} as the first metric", "one that has a value for each query")


def _sides(embeddings, gallery, classes, paths, gallery_paths, name):
    """Queries and gallery of a model, twice the same set without a gallery."""
    queries = _embedded(embeddings, name, "embeddings", classes.queries, classes.texts, paths)
    if gallery is None:
        return queries, queries
    return queries, _embedded(gallery, name, "gallery", classes.items, classes.texts, gallery_paths)


def _embedded(vectors, name, argument, ids, texts, paths):
    matrix = as_vectors(vectors[name], f"{argument}[{name!r}]")
    received = f"{argument}[{name!r}] with {len(matrix):,} rows"
    require(len(matrix) == len(ids), received, f"{len(ids):,}, one for each label")
    return EmbeddedSet(matrix, ids, class_names=texts, names=paths)


def _pictured(paths, ids, argument):
    """A set of image files to make pictures of; None without files."""
    if paths is None:
        return None
    require(len(paths) == len(ids), f"{argument} with {len(paths):,} files", f"{len(ids):,}, one for each label")
    missing = next((str(path) for path in paths if not Path(path).is_file()), None)
    require(missing is None, f"{argument} with {missing!r}, which is no file", "files that are there")
    from tfdml import datasets  # needs TensorFlow, which a comparison without pictures does not

    load = datasets.Preprocessing(size=_PICTURE, fit="pad")
    return datasets.LabeledSet(
        paths=np.asarray(paths, str), labels=np.zeros(len(ids), int), class_names=("",), load=load
    )
