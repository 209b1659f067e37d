"""Retrieval of a labeled set by a model: metrics, curves and error analysis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfdml import metrics
from tfdml._core.checks import require, require_seed, require_whole
from tfdml._core.environment import environment
from tfdml.evaluation.report.curves import precision_recall_curve, recall_curve, sampled_queries, similarity_histograms
from tfdml.evaluation.report.error_analysis import (
    NeighborLists,
    confusions,
    hardest_queries,
    label_suspects,
    near_duplicates,
)
from tfdml.evaluation.report.queries_and_gallery import EmbeddedSet, queries_and_gallery
from tfdml.evaluation.report.records import Evaluation, Measured, PerQuery
from tfdml.metrics.retrieval.measures import default_ranks
from tfdml.typing import Data, Embedder, Labels


def evaluate(
    model: Embedder | npt.ArrayLike,
    data: Data | Labels,
    *,
    gallery: Data | Labels | None = None,
    gallery_embeddings: npt.ArrayLike | None = None,
    distractors: bool = False,
    k: int | Sequence[int] | None = None,
    shown: int = 20,
    batch_size: int = 256,
    seed: int = 0,
) -> Evaluation:
    """Retrieval of a set: metrics with intervals, curves, and the examples to look at.

    Without `gallery`, each example is a query against all others (leave-one-out). Similarity is the cosine.
    docs/evaluation.md explains each part.

    See also: `tfdml.metrics.retrieval` for the numbers alone, `tfdml.evaluation.cross_validate` to choose settings.

    Example: each row's nearest neighbor has its class, but for the last one's.

        >>> x = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9], [0.8, 0.2]])
        >>> evaluation = tfdml.evaluate(x, np.array([0, 0, 1, 1, 1]), k=1)
        >>> evaluation.metrics["recall@1"].value, evaluation.queries, evaluation.protocol
        (0.8, 5, 'own-data/leave-one-out/exact-cosine/v1')
        >>> print(evaluation.save("test.json"), evaluation.html("test.html"))
        test.json test.html

    Args:
        model: a Keras model of one output `(batch, dim)`, a model of two towers with `gallery`, or embeddings
            `(examples, dim)`.
        data: a labeled set of `tfdml.datasets`; with embeddings also `(examples,)` integer class ids.
        gallery: the same, to search in; None to search in `data`.
        gallery_embeddings: `(items, dim)`, with embeddings and `gallery`.
        distractors: whether examples without a label are searched, too: they are relevant to no query. Otherwise they
            are left out, with a warning that counts them.
        k: ranks of recall@k; None for 1, 2, 4 and 8, up to the number of candidates of a query.
        shown: maximum number of hardest queries, of confusions, of near-duplicates and of label suspects.
        batch_size: number of examples embedded at the same time.
        seed: seed of the bootstrap, of the pairs in the histograms and of the queries in the precision-recall curve.

    Returns:
        `Evaluation`, with the protocol of the set. For a set without a protocol, it is
        `own-data/leave-one-out/exact-cosine/v1`, or `own-data/query-gallery/exact-cosine/v1` with a gallery. With
        distractors, `+distractors` follows.
    """
    require_whole("shown", shown, 0)
    require_seed(seed)
    queries, items = queries_and_gallery(model, data, gallery, gallery_embeddings, batch_size, distractors)
    measurement = measure_retrieval(queries, items, k, seed)
    ranks = measurement.ranks
    curve_queries = sampled_queries(ranks, seed)
    lists = NeighborLists(queries, items)
    suspects, num_suspects = label_suspects(lists, shown)
    return Evaluation(
        protocol=protocol_of(queries.data, has_gallery=queries is not items, distractors=not items.is_labeled.all()),
        metrics=measurement.metrics,
        queries=measurement.queries,
        skipped=int(queries.is_labeled.sum()) - measurement.queries,
        items=measurement.items,
        classes=measurement.classes,
        recall=recall_curve(ranks, num_candidates(queries, items)),
        precision_recall=precision_recall_curve(queries, items, curve_queries),
        curve_queries=len(curve_queries),
        similarities=similarity_histograms(queries, items, seed),
        hardest=hardest_queries(lists, ranks, shown),
        confusions=confusions(lists, ranks, shown),
        near_duplicates=near_duplicates(lists, shown),
        label_suspects=suspects,
        suspects=num_suspects,
        seed=seed,
        environment=environment(),
        per_query=PerQuery(queries.labels, items.labels, measurement.values),
        sets=(queries.data, items.data),
    )


@dataclass(frozen=True)
class Measurement:
    """Retrieval metrics of queries in a gallery.

    `queries` counts the queries in the means. `ranks` and `values` are `(queries,)`: the rank of the first relevant
    item, and the value of each metric; NaN for a query without a relevant item.
    """

    metrics: Mapping[str, Measured]
    queries: int
    items: int
    classes: int
    ranks: np.ndarray
    values: Mapping[str, np.ndarray]


def measure_retrieval(
    queries: EmbeddedSet, items: EmbeddedSet, k: int | Sequence[int] | None, seed: int, *, metric: str = "cosine"
) -> Measurement:
    """Metrics with intervals; arguments as for `evaluate`."""
    k = default_ranks(num_candidates(queries, items)) if k is None else k
    values = values_per_query(queries, items, k, metric=metric)
    is_counted = ~np.isnan(values["mrr"])
    return Measurement(
        metrics=means_with_intervals(values, queries.labels, seed),
        queries=int(is_counted.sum()),
        items=len(items.labels),
        classes=len(np.unique(queries.labels[is_counted])),
        ranks=np.rint(1 / values["mrr"]),
        values=values,
    )


def num_candidates(queries: EmbeddedSet, items: EmbeddedSet) -> int:
    """Number of items that a query can find; no query finds itself."""
    return len(items.labels) - (queries is items)


def values_per_query(
    queries: EmbeddedSet, items: EmbeddedSet, k: int | Sequence[int] | None, *, metric: str = "cosine"
) -> dict[str, np.ndarray]:
    """Metrics per query: dict of `(queries,)`, with NaN for a query without a relevant item."""
    gallery, gallery_labels = (None, None) if queries is items else (items.vectors, items.labels)
    values = metrics.retrieval(
        queries.vectors,
        queries.labels,
        gallery=gallery,
        gallery_labels=gallery_labels,
        k=k,
        metric=metric,
        full_map=False,
        per_query=True,
    )
    received = f"{len(queries.labels)} queries without a relevant item"
    expected = "labels that are the same ids in queries and gallery, and classes of two examples"
    require(not np.isnan(values["mrr"]).all(), received, expected)
    return values


def means_with_intervals(values: Mapping[str, np.ndarray], labels: np.ndarray, seed: int) -> dict[str, Measured]:
    """Means and bootstrap intervals of values per query, by name; NaN is left out."""
    return {
        name: Measured(float(np.nanmean(x)), *metrics.bootstrap_interval(x, labels, seed=seed))
        for name, x in values.items()
    }


def protocol_of(data: Data | None, *, has_gallery: bool, distractors: bool = False) -> str:
    """The protocol id of a labeled set; a general one for labels alone and for sets without a protocol."""
    design = "query-gallery" if has_gallery else "leave-one-out"
    protocol = getattr(data, "protocol", None) or f"own-data/{design}/exact-cosine/v1"
    return protocol + "+distractors" * distractors
