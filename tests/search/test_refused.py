"""What the functions of `tfdml.search` refuse: what the error names, and the call."""

import numpy as np
import pytest

from tests.search.test_search import X, build
from tests.search.upgrades.test_adapters import NEW, OLD, OLD_MODEL
from tfdml import samplers, search

ONES, NAN, EYE = np.ones((3, 3)), np.full((3, 2), np.nan), np.eye(4)
LABELS = np.arange(12) // 3
EMBEDDINGS = np.random.default_rng(0).standard_normal((12, 5)).astype("float32")
SETS, OTHER_SETS = np.ones((6, 3, 4, 5)), np.ones((6, 2, 4, 5))
NEIGHBORS = np.arange(9)[None].repeat(3, axis=0)
GUARD = search.FalseNegativeGuard
PRODUCTS = search.Exact(X[:10], metadata={"product": ["a", "b"] * 5})


def expanded(**options):
    return search.expand_queries(options.pop("queries", X[:9]), options.pop("gallery", X[:9]), **options)


def reranked(model=lambda a, b: np.zeros(len(a)), neighbors=NEIGHBORS, k=5, **options):
    return search.rerank(model, X[:3], X[:20], neighbors, k=k, **options)


def mined(function=search.hardest_pairs, embeddings=EMBEDDINGS, labels=LABELS, **options):
    return function(embeddings, labels, **options)


def items(column, k=1, product="product", **options):
    return search.Exact(X[:10], metadata={"product": column}).search(X[:2], k, items=product, **options)


def on_disk(shards, k=1, scale=1, **options):
    return search.search_on_disk(shards, np.float32(scale) * X[:2], k, **options)


def similar(similarity=0.9, **options):
    return search.similar_pairs(ONES, similarity, **options)


def upgraded(adapter, **options):
    return search.upgrade(search.Exact(OLD, model=OLD_MODEL), adapter, **options)


def partitioned(**options):
    return {"method": "partitioned", **options}


def tables(name, function, rows):
    """Rows of the same function: what the error names, by its options."""
    return {f"{name} | {received}": lambda options=options: function(**options) for received, options in rows.items()}


REFUSED = {
    **tables(
        "expansion",
        expanded,
        {
            "k=10, expected a whole number from 1 to 9": {"k": 10},
            "k=9, expected a whole number from 1 to 8": {"k": 9, "self_rows": np.arange(9)},
            "queries of dim 12, gallery of 5, expected one dim": {"gallery": X[:9, :5], "k": 1},
            "self_rows from 0 to 9, expected rows of a gallery of 9": {"queries": X[:2], "k": 1, "self_rows": [0, 9]},
            "self_rows of shape (3,), expected (2,)": {"queries": X[:2], "k": 1, "self_rows": [0, 1, 2]},
        },
    ),
    "database | k=9, expected a whole number from 1 to 8": lambda: search.augment_database(X[:9], k=9),
    "alpha=-1, expected a finite number of 0 or more": lambda: search.augment_database(X, k=1, alpha=-1),
    "gallery with a value that is NaN": lambda: search.augment_database(NAN, k=1),
    "hubs | k=4": lambda: search.neighborhood_similarity(ONES, ONES, k=4),
    "hubs | k=0": lambda: search.neighborhood_similarity(ONES, ONES, k=0),
    "x of dim 3, cohort of 5": lambda: search.neighborhood_similarity(ONES, np.ones((3, 5))),
    "queries of shape (5, 3, 4, 5), candidates of shape (6, 2, 4, 5), expected one": lambda: search.maxsim(
        SETS[:5], OTHER_SETS
    ),
    "expected one dim, and one query or one per candidate": lambda: search.maxsim(SETS[..., :3], OTHER_SETS),
    "candidates of shape (6, 0, 4, 5), expected (batch, vectors, dim), at least": lambda: search.maxsim(
        SETS, OTHER_SETS[:, :0]
    ),
    "queries of shape (2, 5), expected (batch, vectors, dim)": lambda: search.maxsim(np.ones((2, 5)), OTHER_SETS),
    "maxsim | queries with a value that is NaN": lambda: search.maxsim(np.full((6, 1, 5), np.nan), OTHER_SETS),
    "no positives, expected one right answer at least": lambda: search.refine([1.0, 0.0], []),
    "positive of dim 3 and a query of dim 2": lambda: search.refine([1.0, 0.0], [[1.0, 0.0, 0.0]]),
    "negative of dim 1 and a query of dim 2": lambda: search.refine([1.0, 0.0], [[1.0, 0.0]], [[1.0]]),
    "Received 2 queries, expected one": lambda: search.refine([[1.0, 0.0]] * 2, [[1.0, 0.0]]),
    "refine | NaN": lambda: search.refine([1.0, np.nan], [[1.0, 0.0]]),
    **tables(
        "rerank",
        reranked,
        {
            "neighbors of shape (2,), expected (queries, n)": {"neighbors": [1, 2]},
            "3 queries and 2 rows of neighbors, expected one row each": {"neighbors": NEIGHBORS[:2]},
            "neighbors from 12 to 20, expected row numbers of the gallery": {"neighbors": NEIGHBORS + 12},
            "neighbors from -2 to 6, expected row numbers of the gallery": {"neighbors": NEIGHBORS - 2},
            "neighbors of dtype float64, expected integers": {"neighbors": NEIGHBORS + 0.5},
            "neighbors with -1 before a row number, expected -1": {"neighbors": np.tile([-1, 3], (3, 1)), "k": 1},
            "k=10, expected a whole number from 1 to 9": {"k": 10},
            "batch_size=0, expected a whole number of at least 1": {"batch_size": 0},
            "scores of shape (15, 2) for 15 pairs, expected one": {"model": lambda a, b: np.zeros((len(a), 2))},
            "scores of the model that are not finite": {"model": lambda a, b: np.full(len(a), np.nan)},
            "scores of shape (3, 3), expected one per neighbor, (3, 5) or (3, 9)": {"scores": np.zeros((3, 3))},
            "scores of the search that are not finite": {"scores": np.full((3, 9), np.nan)},
        },
    ),
    "1 embeddings, expected at least 2": lambda: search.Whitening.learn(X[:1]),
    "shrinkage=2, expected a number from 0 to 1": lambda: search.Whitening.learn(X, shrinkage=2),
    "dim=13 of 12 directions": lambda: search.Whitening.learn(X, dim=13, shrinkage=0.5),
    "whitening | dim=0, expected a whole number of at least 1": lambda: search.Whitening.learn(X, dim=0),
    "whitening | embeddings that are all the same": lambda: search.Whitening.learn(np.full((5, 3), 0.1, "float32")),
    "embeddings of dim 5, expected 12, as in training": lambda: search.Whitening.learn(X)(X[:, :5]),
    **{
        f"{similarity} | a cosine similarity above -1 and up to 1": lambda similarity=similarity: (
            search.near_duplicates(EYE, similarity)
        )
        for similarity in (-1, 1.01, np.nan)
    },
    "first in row 0": lambda: search.near_duplicates(EYE * np.nan, 0.5),
    **tables(
        "similar pairs",
        similar,
        {
            "a cosine similarity above -1": {"similarity": -1},
            "recall=0, expected a number above 0": {"recall": 0},
            "sample=0, expected a whole number of at least 1": {"sample": 0},
            "max_pairs=0": {"max_pairs": 0},
            "vectors of dim 3 and a gallery of dim 4, expected the same dim": {"gallery": np.ones((2, 4))},
            "more than max_pairs=2 pairs are similar": {"similarity": 0.5, "max_pairs": 2},
        },
    ),
    **{
        f"{rows} | row numbers below 3": lambda rows=rows: search.pair_groups(rows, 3) for rows in ([[0, 3]], [[-1, 0]])
    },
    "[0, 1] | row numbers below 3": lambda: search.pair_groups([0, 1], 3),
    **tables(
        "guard",
        GUARD,
        {
            "skip=-1, expected a whole number of at least 0": {"skip": -1},
            "candidates=0, expected a whole number of at least 1": {"candidates": 0},
            "fraction=1.2, expected a number above 0 and at most 1": {"fraction": 1.2},
            "margin=nan, expected a number or None": {"margin": np.nan},
            "max_score='high', expected a number or None": {"max_score": "high"},
            "teacher alone, expected both of teacher and max_teacher_score": {"teacher": EMBEDDINGS},
            "max_teacher_score alone, expected both": {"max_teacher_score": 0.5},
        },
    ),
    "guard.candidates=3, expected at least the 4 negatives per example": lambda: mined(
        negatives=4, guard=GUARD(candidates=3)
    ),
    "5 embeddings of the teacher, expected 12, one per example": lambda: mined(
        guard=GUARD(teacher=EMBEDDINGS[:5], max_teacher_score=0.5)
    ),
    "guard='margin', expected": lambda: samplers.MinedPairs(LABELS, guard="margin"),
    **{
        f"{function.__name__} | {received}": lambda function=function, change=change: mined(function, **change)
        for function in (search.hardest_pairs, search.hardest_triplets)
        for received, change in {
            "guard=0.95, expected tfdml.search.FalseNegativeGuard": {"guard": 0.95},
            "embeddings with a value that": {"embeddings": EMBEDDINGS * np.nan},
            "embeddings of shape (12,), expected (n, dim)": {"embeddings": EMBEDDINGS[:, 0]},
            "labels of shape (12,), expected (11,)": {"embeddings": EMBEDDINGS[:11]},
            "labels of dtype float32, expected integers": {"labels": LABELS.astype("float32")},
            "labels of 1 class, expected two or more: there are no negatives": {"labels": np.zeros(12, int)},
            "beyond the range of float32": {"embeddings": np.full((12, 2), 1e30), "metric": "dot"},
            "metric='manhattan', expected one of 'cosine', 'dot', 'euclidean'": {"metric": "manhattan"},
        }.items()
    },
    **{
        f"{name}={value!r}, expected a whole number of at least 1": lambda name=name, value=value: mined(
            **{name: value}
        )
        for name in ("positives", "negatives")
        for value in (0, -1, 2.0, True, None)
    },
    **{
        f"margin={margin!r}, expected a number": lambda margin=margin: mined(search.hardest_triplets, margin=margin)
        for margin in (np.nan, "0.1", None)
    },
    **{
        f"{named} | expected 'exact', 'scann', 'faiss', 'lance', None, or a class such as": lambda named=named: mined(
            index=named
        )
        for named in ("annoy", "", 3)
    },
    # several vectors of one item
    "of type string, without a value for 1 vectors, expected numbers": lambda: items([*"abcdefghi", None]),
    "items='shop', expected a column of the metadata: product": lambda: items([*"abcdefghij"], product="shop"),
    "expected numbers or text, one for each": lambda: items([[row] for row in range(10)]),
    "k=3, expected a whole number from 1 to 2, the 2 items of the index": lambda: items(["a", "b"] * 5, 3),
    "items | k=0, expected a whole number from 1 to 2": lambda: items(["a", "b"] * 5, 0),
    "best=0, expected a whole number of at least 1": lambda: items(["a", "b"] * 5, best=0),
    "best=2 without items, expected items, a column": lambda: PRODUCTS.search(X[:2], 1, best=2),
    "metadata that is not a table": lambda: search.Exact(X[:2], metadata={"product": ["a", 7]}),
    "metadata of 3 rows, expected 2: one per vector": lambda: search.Exact(X[:2], metadata={"product": [*"aab"]}),
    "no items, expected at least one": lambda: PRODUCTS.search(X[:1], 1, where=[False] * 10, items="product"),
    "items='product', expected a column of the metadata: none": lambda: search.Exact(X).search(
        X[:1], 1, items="product"
    ),
    # shards on disk
    "without a vector": lambda: on_disk([]),
    "of no rows | without a vector": lambda: on_disk(np.empty((0, 12))),
    "shard 0 of shape (12,)": lambda: on_disk(X[0]),
    "dim 5, expected 12": lambda: on_disk(X[:, :5]),
    "expected an array, a .npy file or a .parquet file": lambda: on_disk("vectors.csv"),
    "from 1 to 50": lambda: on_disk(X, 51),
    "on disk | expected one of": lambda: on_disk(X, metric="l2"),
    "too little": lambda: on_disk(X, max_bytes=100),
    "on disk | range of float32": lambda: on_disk(X * np.float32(1e20), scale=1e20, metric="dot"),
    # adapters
    **{
        f"{kind.__name__} | {received}": lambda kind=kind, old=old, new=new, options=options: kind.learn(
            old, new, **options
        )
        for kind in (search.LinearAdapter, search.MLPAdapter)
        for received, (old, new, options) in {
            "Received 3 old and 300 new embeddings, expected embeddings of the same": (OLD[:3], NEW, {}),
            "at least two": (OLD[:1], NEW[:1], {}),
            "old embeddings that are all the same": (OLD[[0, 0]], NEW[:2], {}),
            "ridge=0, expected a number above 0": (OLD, NEW, {"ridge": 0}),
            "metric='l2'": (OLD, NEW, {"metric": "l2"}),
            "new embeddings with a value that is NaN": (OLD, NEW * np.nan, {}),
            "model='', expected a fingerprint": (OLD, NEW, {"old_model": ""}),
        }.items()
    },
    **{
        f"{name}=0": lambda name=name: search.MLPAdapter.learn(OLD, NEW, **{name: 0})
        for name in ("units", "epochs", "batch_size", "learning_rate")
    },
    "embeddings of dim 4, expected 6, as of the old model": lambda: search.LinearAdapter.learn(OLD, NEW)(NEW),
    "an adapter from dim 4, expected one from dim 6, the dim of the index": lambda: upgraded(
        search.LinearAdapter.learn(NEW, OLD)
    ),
    "an adapter for metric='dot', expected one for 'cosine', as the index": lambda: upgraded(
        search.LinearAdapter.learn(OLD, NEW, metric="dot")
    ),
    # indexes
    "scann | expected one of 'auto', 'exact', 'quantized', 'partitioned'": lambda: build("scann", X, method="hnsw"),
    "faiss | expected one of 'auto', 'exact', 'partitioned', 'graph'": lambda: build("faiss", X, method="quantized"),
    "codes='int4'": lambda: build("faiss", X, codes="int4"),
    "for method='graph', expected 'float32' or 'int8'": lambda: build("faiss", X, codes="binary", method="graph"),
    "50 vectors for codes='product', expected at least 256": lambda: build("faiss", X, codes="product"),
    **{
        f"{kind} | {received}": lambda kind=kind, options=options: build(kind, X, **options)
        for kind in ("scann", "faiss")
        for received, options in {
            "Pass method='partitioned'": {"leaves": 5},
            "leaves=51": partitioned(leaves=51),
            "leaves_to_search=6": partitioned(leaves=5, leaves_to_search=6),
            "rescore=0, expected a whole number of at least 1": {"rescore": 0},
            "leaves=2.5": partitioned(leaves=2.5),
        }.items()
    },
    "soar=0 for method=": lambda: build("scann", X, soar=0, method="partitioned"),
    "soar=1.5 for method=": lambda: build("scann", X, soar=1.5),
    "euclidean | soar=1.5 for method=": lambda: build("scann", X, metric="euclidean", **partitioned(soar=1.5)),
    "max_bytes | expected at least": lambda: search.Exact(X, max_bytes=100).search(X, 1),
    **{
        f"{np.shape(found)} | expected (q, m)": lambda found=found, exact=exact: search.neighbor_recall(found, exact)
        for found, exact in (([1], [1]), ([[1]], [[1], [2]]), (np.ones((0, 2)), np.ones((0, 2))))
    },
}


@pytest.mark.parametrize("received", REFUSED)
def test_what_cannot_be_searched_is_refused_and_named(received):
    with pytest.raises(ValueError, match="Received ") as raised:
        REFUSED[received]()
    assert received.rpartition(" | ")[2] in str(raised.value)
