"""What faiss adds to the tests of every kind of index: methods, codes, filters inside the search, and its files."""

import faiss
import numpy as np
import pytest

from tests.search.test_search import METRICS, clustered
from tfdml import search

faiss.omp_set_num_threads(1)  # tests run side by side

X = clustered(2000, 16)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("method", "codes"),
    [
        ("exact", "float32"),
        ("exact", "product"),
        ("exact", "binary"),
        ("partitioned", "int8"),
        ("partitioned", "product"),
        ("partitioned", "binary"),
        ("graph", "float32"),
        ("graph", "int8"),
    ],
)
def test_nearly_all_neighbors_come_with_their_exact_scores(metric, method, codes):
    exact, exact_scores = search.Exact(X, metric=metric).search(X[:200], 10)
    ids, scores = search.Faiss(X, metric=metric, method=method, codes=codes).search(X[:200], 10)
    assert search.neighbor_recall(ids, exact) > 0.95
    same = ids == exact
    np.testing.assert_array_equal(scores[same], exact_scores[same])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("method", ["exact", "partitioned", "graph"])
def test_a_filter_is_applied_inside_the_search(metric, method):
    mask = np.random.default_rng(0).random(len(X)) < 0.2
    index = search.Faiss(X, metric=metric, method=method, rescore=100)
    ids, _ = index.search(X[:200], 10, where=mask)
    assert mask[ids].all()
    assert search.neighbor_recall(ids, search.Exact(X, metric=metric).search(X[:200], 10, where=mask)[0]) > 0.95


def test_equal_scores_are_in_the_order_of_the_index():
    x = np.repeat(X[:100], 3, axis=0)
    ids, _ = search.Faiss(x, rescore=50).search(X[:100], 3)
    np.testing.assert_array_equal(ids, np.arange(300).reshape(100, 3))


def test_codes_take_the_bytes_that_the_page_says():
    indexes = {codes: search.Faiss(X, codes=codes) for codes in ("float32", "int8", "product", "binary")}
    sizes = {codes: index._items.segments[0].searcher.index.sa_code_size() for codes, index in indexes.items()}
    assert sizes["binary"] <= 16 // 8 + 8
    assert sizes | {"binary": None} == {"float32": 64, "int8": 16, "product": 4, "binary": None}


def test_tuned_settings_reach_the_recall_on_other_queries():
    index = search.Faiss(X, method="partitioned", codes="int8", leaves=50)
    assert index.tune(0.9, queries=X[:400]) > 0.85
    assert index.leaves_to_search < 50
    exact = search.Exact(X).search(X[400:800], 10)[0]
    assert search.neighbor_recall(index.search(X[400:800], 10)[0], exact) > 0.8


def test_a_folder_keeps_the_settings_and_the_results(tmp_path):
    index = search.Faiss(X, method="partitioned", codes="binary", leaves=20, leaves_to_search=7, rescore=50)
    index.save(tmp_path / "index")
    loaded = search.load(tmp_path / "index")
    assert [getattr(loaded, name) for name in index.settings] == ["cosine", 16, "partitioned", 20, 7, 50, "binary"]
    for one, other in zip(loaded.search(X[:50], 5), index.search(X[:50], 5), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: faiss.IndexFlatL2(15), "vectors of dim 15"),
        (None, "damaged"),
    ],
)
def test_an_index_of_faiss_that_does_not_fit_is_refused(tmp_path, monkeypatch, other, message):
    search.Faiss(X[:500], method="graph").save(tmp_path / "index")
    (file,) = tmp_path.rglob("index.faiss")
    faiss.write_index(other(), str(file)) if other else file.write_bytes(file.read_bytes()[:-100])
    monkeypatch.setattr("tfdml.search.index.files.require_checksums", lambda folder: None)
    with pytest.raises(ValueError, match=message):
        search.load(tmp_path / "index")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "quantized"}, "expected one of 'auto', 'exact', 'partitioned', 'graph'"),
        ({"codes": "int4"}, "codes='int4'"),
        ({"codes": "binary", "method": "graph"}, "codes='binary' for method='graph', expected 'float32' or 'int8'"),
        ({"codes": "product"}, "50 vectors for codes='product', expected at least 256"),
        ({"leaves": 5}, "Pass method='partitioned'"),
        ({"method": "partitioned", "leaves": 51}, "leaves=51"),
        ({"rescore": 0}, "rescore=0"),
    ],
)
def test_wrong_settings_are_refused_with_advice(options, message):
    with pytest.raises(ValueError, match=message):
        search.Faiss(X[:50], **options)


def test_the_size_chooses_the_method():
    assert search.Faiss(X).method == "exact"
    large = search.Faiss(np.random.default_rng(0).normal(size=(20_000, 4)))
    assert (large.method, large.leaves, large.leaves_to_search) == ("partitioned", 141, 36)
