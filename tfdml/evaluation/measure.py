"""Retrieval of a labeled set by one or several models: metrics, curves and error analysis."""

import contextlib
import dataclasses
import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tfdml import metrics as measures
from tfdml._core.checks import require, require_one_of, require_seed, require_whole
from tfdml.evaluation.details.curves import (
    precision_recall_curve,
    recall_curve,
    sampled_queries,
    similarity_histograms,
)
from tfdml.evaluation.details.embedded_sets import EmbeddedSet, queries_and_gallery
from tfdml.evaluation.details.error_analysis import (
    NeighborLists,
    confusions,
    hardest_queries,
    label_suspects,
    near_duplicates,
)
from tfdml.evaluation.details.records import Details
from tfdml.evaluation.record import Evaluation
from tfdml.evaluation.statistics import Measurements, compared
from tfdml.metrics.retrieval.measures import default_ranks, listed_ranks
from tfdml.typing import Data, Embedder, Labels

_VERIFICATION = ("auc", "eer", "tar@far=0.01", "fpr95")
_CLUSTERING = ("nmi", "ami", "f1")
WHOLE = ("verification", "clustering")  # metrics that are one number for all queries
_VOTES = 5  # neighbors that vote in "knn"
_PAIRS = 10_000  # drawn pairs of one class, and as many of any classes, in "verification"

Sides = tuple[EmbeddedSet, EmbeddedSet]


def evaluate(
    model: Embedder | npt.ArrayLike | Mapping[str, Embedder | npt.ArrayLike],
    data: Data | Labels,
    *,
    gallery: Data | Labels | None = None,
    gallery_embeddings: npt.ArrayLike | Mapping[str, npt.ArrayLike] | None = None,
    distractors: bool = False,
    k: int | str | Sequence[int | str] | None = None,
    main: str = "map@r",
    shown: int = 20,
    batch_size: int = 256,
    seed: int = 0,
) -> Evaluation:
    """Retrieval of a set: metrics with intervals, curves, and the examples to look at.

    Without `gallery`, each example is a query against all others (leave-one-out). Similarity is the cosine. Several
    models are compared in pairs on the same queries. docs/evaluation.md explains each part.

    See also: `tfdml.evaluation.compare` for embeddings of many models with other metrics, `tfdml.metrics.retrieval` for
    the numbers alone, `tfdml.evaluation.cross_validate` to choose settings.

    Example: each row's nearest neighbor has its class, but for the last one's.

        >>> x = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9], [0.8, 0.2]])
        >>> evaluation = tfdml.evaluate(x, np.array([0, 0, 1, 1, 1]), k=1)
        >>> evaluation.metrics["recall@1"].value, evaluation.queries, evaluation.protocol
        (0.8, 5, 'own-data/leave-one-out/exact-cosine/v1')
        >>> print(evaluation.html("test.html"))
        test.html

    Args:
        model: a Keras model of one output `(batch, dim)`, a model of two towers with `gallery`, or embeddings
            `(examples, dim)`; or several of them by name.
        data: a labeled set of `tfdml.datasets`; with embeddings also `(examples,)` integer class ids.
        gallery: the same, to search in; None to search in `data`.
        gallery_embeddings: `(items, dim)`, with embeddings and `gallery`; by the same names for several.
        distractors: whether examples without a label are searched, too: they are relevant to no query. Otherwise they
            are left out, with a warning that counts them.
        k: ranks of recall@k; None for 1, 2, 4 and 8, up to the number of candidates of a query.
        main: the metric of the pairs of models, "mrr" where a query has one relevant item.
        shown: maximum number of hardest queries, of confusions, of near-duplicates, of label suspects, and of the
            queries with the largest differences of two models.
        batch_size: number of examples embedded at the same time.
        seed: seed of the pairs in the histograms and of the queries in the precision-recall curve.

    Returns:
        `Evaluation`, with the protocol of the set. For a set without a protocol, it is
        `own-data/leave-one-out/exact-cosine/v1`, or `own-data/query-gallery/exact-cosine/v1` with a gallery. With
        distractors, `+distractors` follows.
    """
    require_whole("shown", shown, 0)
    require_seed(seed)
    by_name = model if isinstance(model, Mapping) else {"model": model}
    vectors = (
        gallery_embeddings if isinstance(gallery_embeddings, Mapping) else dict.fromkeys(by_name, gallery_embeddings)
    )
    require(len(by_name) > 0, "no model", "one model at least")
    require(vectors.keys() == by_name.keys(), f"gallery_embeddings of {sorted(vectors)}", f"of {sorted(by_name)}")
    sides = {
        name: queries_and_gallery(each, data, gallery, vectors[name], batch_size, distractors)
        for name, each in by_name.items()
    }
    queries, items = next(iter(sides.values()))
    names = ranked_names(k, num_candidates(queries, items))
    require_one_of(names, main=main)
    return measured(
        sides,
        sides.__getitem__,
        sorted(names, key=lambda name: name != main),
        details=lambda queries, items, mrr: details_of(queries, items, mrr, shown, seed),
        shown=shown,
        protocol=protocol_of(queries.data, has_gallery=queries is not items, distractors=not items.is_labeled.all()),
    )


def measured(
    names: Collection[str],
    sides_of: Callable[[str], Sides],
    metrics: Sequence[str],
    *,
    metric: str = "cosine",
    details: Callable[[EmbeddedSet, EmbeddedSet, np.ndarray], Details] | None = None,
    groups: Mapping[str, np.ndarray] | None = None,
    confidence: float = 0.95,
    shown: int = 5,
    against: str | None = None,
    **conditions: Any,
) -> Evaluation:
    """The evaluation of models by name, one after another, whose queries and gallery are `sides_of(name)`.

    `details` makes the `Details` of a model from queries, items and the reciprocal ranks of the queries.
    """
    values: dict[str, dict[str, np.ndarray]] = {}
    wholes: dict[str, dict[str, float]] = {}
    by_model: dict[str, Details] = {}
    notes: list[str] = []
    for name in names:
        with _named(name if len(names) > 1 else "", notes):
            queries, items = sides_of(name)
            values[name], wholes[name] = _values(queries, items, metrics, metric)
            if details is not None:
                by_model[name] = details(queries, items, values[name]["mrr"])
    evaluation = compared(
        Measurements(values, queries.labels, "classes", _row_names(queries), wholes),
        groups=groups or {},
        confidence=confidence,
        shown=shown,
        against=against,
        notes=tuple(notes),
        items=len(items.labels),
        details=by_model,
        sets=(queries.data, items.data),
        **conditions,
    )
    rows = np.array(sorted(evaluation.query_names), int)
    lists = {name: NeighborLists(*sides_of(name), metric=metric, query_rows=rows) for name in values if len(rows)}
    neighbors = {name: {int(row): each.neighbors(i) for i, row in enumerate(rows)} for name, each in lists.items()}
    return dataclasses.replace(evaluation, neighbors=neighbors)


def _row_names(embedded):
    count = len(embedded.labels)
    return np.arange(count).astype(str) if embedded.names is None else np.asarray(embedded.names, str)


@contextlib.contextmanager
def _named(name, notes):
    """Put the name of a model before the errors inside; warnings become notes."""
    prefix = f"{name}: " if name else ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except ValueError as error:
            raise ValueError(f"{prefix}{error}") from error
    notes += [f"{prefix}{warning.message}" for warning in caught]


def num_candidates(queries: EmbeddedSet, items: EmbeddedSet) -> int:
    """Number of items that a query can find; no query finds itself."""
    return len(items.labels) - (queries is items)


def ranked_names(k: int | str | Sequence[int | str] | None, candidates: int) -> list[str]:
    """The metrics of `evaluate`, whose ranks are `k`, and 1."""
    ranks = default_ranks(candidates) if k is None else listed_ranks(k)
    recalls = [f"recall@{rank}" for rank in dict.fromkeys([1, *ranks])]
    return ["map@r", *recalls, "r_precision", "mrr"]


def values_per_query(embeddings: npt.ArrayLike, labels: Labels, k: Any) -> dict[str, np.ndarray]:
    """The metrics of `evaluate` per query, by leave-one-out: dict of `(queries,)`."""
    queries = EmbeddedSet(np.asarray(embeddings), np.asarray(labels))
    return _values(queries, queries, ranked_names(k, num_candidates(queries, queries)), "cosine")[0]


def _values(queries, items, names, metric):
    """Metrics per query, dict of `(queries,)`, NaN without a relevant item; and metrics of the whole set."""
    sides = {} if queries is items else {"gallery": items.vectors, "gallery_labels": items.labels}
    ranks = [name.removeprefix("recall@") for name in names if name.startswith("recall@")]
    values = measures.retrieval(
        queries.vectors,
        queries.labels,
        k=[int(rank) if rank.isdecimal() else rank for rank in ranks] or 1,
        extra=[name for name in names if re.fullmatch(r"(precision|ndcg|map)@[0-9]+", name)],
        metric=metric,
        full_map="map" in names,
        per_query=True,
        **sides,
    )
    received = f"{len(queries.labels)} queries without a relevant item"
    expected = "labels that are the same ids in queries and gallery, and classes of two examples"
    require(not np.isnan(values["mrr"]).all(), received, expected)
    if "knn" in names:
        votes = measures.knn_accuracy(queries.vectors, queries.labels, k=_VOTES, metric=metric, per_query=True, **sides)
        values["knn"] = votes["accuracy"]
    wholes = {}
    if "verification" in names:
        wholes |= _verification(queries, items, metric)
    if "clustering" in names:
        scores = measures.clustering(queries.vectors, queries.labels, metric=metric)
        wholes |= {name: scores[name] for name in _CLUSTERING}
    return {name: values[name] for name in names if name not in WHOLE}, wholes


def _verification(queries, items, metric):
    """Verification metrics of drawn pairs, the same ones for every model."""
    rng, count = np.random.default_rng(0), len(queries.labels)
    query = rng.integers(count, size=2 * _PAIRS)
    order = np.argsort(items.labels, kind="stable")
    ordered, label = items.labels[order], queries.labels[query[:_PAIRS]]
    start, stop = np.searchsorted(ordered, label, "left"), np.searchsorted(ordered, label, "right")
    positive = start + (rng.random(_PAIRS) * (stop - start)).astype(int)
    item = np.concatenate([order[np.minimum(positive, len(order) - 1)], rng.integers(len(order), size=_PAIRS)])
    if queries is items:
        query, item = query[query != item], item[query != item]
    scores = measures.pair_scores(queries.vectors[query], items.vectors[item], metric=metric)
    numbers = measures.verification(scores, queries.labels[query] == items.labels[item])
    return {name: numbers[name] for name in _VERIFICATION}


def details_of(queries: EmbeddedSet, items: EmbeddedSet, mrr: np.ndarray, shown: int, seed: int) -> Details:
    """Curves and examples of one model, whose reciprocal ranks of the first relevant items are `mrr` `(queries,)`."""
    ranks = np.rint(1 / mrr)
    curve_queries = sampled_queries(ranks, seed)
    lists = NeighborLists(queries, items)
    suspects, num_suspects = label_suspects(lists, shown)
    return Details(
        recall=recall_curve(ranks, num_candidates(queries, items)),
        precision_recall=precision_recall_curve(queries, items, curve_queries),
        curve_queries=len(curve_queries),
        similarities=similarity_histograms(queries, items, seed),
        hardest=hardest_queries(lists, ranks, shown),
        confusions=confusions(lists, ranks, shown),
        near_duplicates=near_duplicates(lists, shown),
        label_suspects=suspects,
        suspects=num_suspects,
    )


def protocol_of(data: Data | None, *, has_gallery: bool, distractors: bool = False, metric: str = "cosine") -> str:
    """The protocol id of a labeled set; a general one for labels alone and for sets without a protocol."""
    design = "query-gallery" if has_gallery else "leave-one-out"
    protocol = getattr(data, "protocol", None) or f"own-data/{design}/exact-{metric}/v1"
    return protocol + "+distractors" * distractors
