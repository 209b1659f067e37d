"""`evaluate`: all that is measured on a model and a set."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tfdml import metrics
from tfdml._core.checks import require, require_seed, require_whole
from tfdml._core.environment import environment
from tfdml.evaluation.report.curves import drawn_queries, precision_recall_curve, recall_curve, similarity_histograms
from tfdml.evaluation.report.error_analysis import (
    Neighbors,
    confusions,
    hardest_queries,
    label_suspects,
    near_duplicates,
)
from tfdml.evaluation.report.queries_and_gallery import queries_and_gallery
from tfdml.evaluation.report.records import Evaluation, Measured
from tfdml.metrics.retrieval.measures import default_ranks
from tfdml.typing import Data, Embedder, Labels


def evaluate(
    model: Embedder | npt.ArrayLike,
    data: Data | Labels,
    *,
    gallery: Data | Labels | None = None,
    gallery_embeddings: Any = None,
    k: int | Sequence[int] | None = None,
    shown: int = 20,
    batch_size: int = 256,
    seed: int = 0,
) -> Evaluation:
    """Retrieval of a set: metrics with intervals, curves, and the examples to look at.

        report = tfdml.evaluate(model, test)
        print(report)
        report.save("test.json")
        report.html("test.html")

    Without `gallery`, each example is a query against all others (leave-one-out). Similarity is the cosine. The metrics
    are those of `tfdml.metrics.retrieval`; docs/evaluation.md explains each part.

    Args:
        model: a Keras model of one output `(batch, dim)`, a model of two towers with `gallery`, or the embeddings
            `(examples, dim)` themselves.
        data: a labeled set of `tfdml.datasets`; with embeddings also `(examples,)` integer class ids.
        gallery: the same, to search in; None to search in `data`.
        gallery_embeddings: `(items, dim)`, with embeddings and `gallery`.
        k: ranks of recall@k; None for 1, 2, 4 and 8, as far as a query has candidates.
        shown: number of hardest queries, confusions, near-duplicates and label suspects to keep, each.
        batch_size: number of examples embedded at the same time.
        seed: seed of the bootstrap, of the pairs in the histograms and of the queries in the precision-recall curve.

    Returns:
        `Evaluation`. It has the protocol of the set; `own-data/leave-one-out/exact-cosine/v1` where that is None, with
        `query-gallery` in place of `leave-one-out` with a gallery.

    Raises:
        ValueError: embeddings that are not finite or all the same; labels that do not fit; a k above the size of the
            gallery; no query with a relevant item, or only queries of one class; a gallery with other class names; an
            option out of range.
    """
    require_whole("shown", shown, 0)
    require_seed(seed)
    queries, items = queries_and_gallery(model, data, gallery, gallery_embeddings, batch_size)
    candidates = len(items.labels) - (queries is items)
    values = values_per_query(queries, items, default_ranks(candidates) if k is None else k)
    ranks = np.rint(1 / values["mrr"])
    counted = ~np.isnan(ranks)
    drawn = drawn_queries(ranks, seed)
    neighbors = Neighbors(queries, items)
    suspects, number = label_suspects(neighbors, shown)
    return Evaluation(
        protocol=protocol_of(queries.data, has_gallery=queries is not items),
        metrics={name: measured(value, queries.labels, seed) for name, value in values.items()},
        queries=int(counted.sum()),
        skipped=int((~counted).sum()),
        items=len(items.labels),
        classes=len(np.unique(queries.labels[counted])),
        recall=recall_curve(ranks, candidates),
        precision_recall=precision_recall_curve(queries, items, drawn),
        curve_queries=len(drawn),
        similarities=similarity_histograms(queries, items, seed),
        hardest=hardest_queries(neighbors, ranks, shown),
        confusions=confusions(neighbors, ranks, shown),
        near_duplicates=near_duplicates(neighbors, shown),
        label_suspects=suspects,
        suspects=number,
        seed=seed,
        environment=environment(),
        sets=(queries.data, items.data),
    )


def values_per_query(queries, items, k, *, metric="cosine"):
    """Metrics per query: dict of `(queries,)`, with NaN for a query without a relevant item."""
    other = {} if queries is items else {"gallery": items.vectors, "gallery_labels": items.labels}
    options = {"metric": metric, "full_map": False, "per_query": True}
    values = metrics.retrieval(queries.vectors, queries.labels, k=k, **other, **options)
    require(
        not np.isnan(values["mrr"]).all(),
        f"{len(queries.labels)} queries without a relevant item",
        "labels that are the same ids in queries and gallery, and classes of two examples",
    )
    return values


def measured(values, labels, seed):
    """The mean of values per query, NaN left out, as a `Measured`."""
    return Measured(float(np.nanmean(values)), *metrics.bootstrap_interval(values, labels, seed=seed))


def protocol_of(data: Any, *, has_gallery: bool) -> str:
    """The protocol id of a labeled set; a general one for arrays and for sets without a protocol."""
    design = "query-gallery" if has_gallery else "leave-one-out"
    return getattr(data, "protocol", None) or f"own-data/{design}/exact-cosine/v1"
