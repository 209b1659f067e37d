"""What faiss adds to the tests of every kind of index: methods, codes, filters inside the search, and its files."""

import faiss
import numpy as np
import pytest

from tests.search.test_search import clustered
from tfdml import search

faiss.omp_set_num_threads(1)  # tests run side by side

X = clustered(2000, 16)


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


@pytest.mark.parametrize(
    ("other", "message"), [(lambda: faiss.IndexFlatL2(15), "vectors of dim 15"), (None, "damaged")]
)
def test_an_index_of_faiss_that_does_not_fit_is_refused(tmp_path, monkeypatch, other, message):
    search.Faiss(X[:500], method="graph").save(tmp_path / "index")
    (file,) = tmp_path.rglob("index.faiss")
    faiss.write_index(other(), str(file)) if other else file.write_bytes(file.read_bytes()[:-100])
    monkeypatch.setattr("tfdml.search.index.files.require_checksums", lambda folder: None)
    with pytest.raises(ValueError, match=message):
        search.load(tmp_path / "index")
