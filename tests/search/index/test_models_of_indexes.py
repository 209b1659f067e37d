"""Indexes know the model of their vectors, and refuse vectors and queries of another one."""

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from tests.worlds import Pixels
from tfdml import models, search

X = np.random.default_rng(0).standard_normal((40, 8)).astype("float32")
OLD, NEW = "0" * 64, "1" * 64
KINDS = pytest.mark.parametrize("kind", [search.Exact, search.Scann, search.Faiss, search.Lance])


def refused(items):
    return pytest.raises(
        ValueError, match=rf"{items} of model {NEW[:12]} \(fingerprint {NEW}\), .* {OLD[:12]}, .*{OLD}"
    )


@KINDS
def test_vectors_and_queries_of_another_model_are_refused_and_the_index_stays(kind):
    index = kind(X[:30], model=OLD)
    assert index.fingerprint == OLD
    with refused("vectors"):
        index.add(X[30:], np.arange(30, 40), model=NEW)
    with refused("vectors"):
        index.update([3], X[30:31], model=NEW)
    with refused("queries"):
        index.search(X[:2], 3, model=Pixels(fingerprint=NEW))
    assert len(index) == 30
    index.add(X[30:], np.arange(30, 40), model=OLD)
    index.update([3], X[30:31], model=index)
    np.testing.assert_array_equal(index.search(X[:2], 3, model=OLD)[0], index.search(X[:2], 3)[0])


@KINDS
def test_another_model_is_taken_by_name(kind):
    index = kind(X[:30], model=OLD)
    index.add(X[30:], np.arange(30, 40), model=NEW, other_model=True)
    index.update([3], X[3:4], model=NEW, other_model=True)
    assert index.search(X[35:36], 1, model=NEW, other_model=True)[0] == [[35]]
    assert index.fingerprint == OLD


@KINDS
def test_the_model_is_saved_with_the_index_and_compared_when_it_is_loaded(kind, tmp_path):
    kind(X, model=OLD).save(tmp_path / "index")
    for load in (search.load, kind.load):
        assert load(tmp_path / "index").fingerprint == OLD
        assert load(tmp_path / "index", model=Pixels(fingerprint=OLD)).fingerprint == OLD
        assert len(load(tmp_path / "index", model=NEW, other_model=True)) == 40
        with refused("queries"):
            load(tmp_path / "index", model=Pixels(fingerprint=NEW))


def test_an_index_without_a_model_takes_all_and_can_be_given_one(tmp_path):
    index = search.Exact(X)
    assert index.fingerprint is None
    index.save(tmp_path / "index")
    assert '"model"' not in (tmp_path / "index" / "index.json").read_text()
    index = search.load(tmp_path / "index", model=NEW)
    index.search(X[:2], 3, model=NEW)
    index.fingerprint = OLD
    index.save(tmp_path / "index")
    with refused("queries"):
        search.load(tmp_path / "index").search(X[:2], 3, model=NEW)


def test_a_damaged_model_is_a_damaged_index(tmp_path, monkeypatch):
    index = search.Exact(X)
    index.fingerprint = 7
    index.save(tmp_path / "index")
    with pytest.raises(ValueError, match=r"index\.json \(model\) in .* is damaged"):
        search.load(tmp_path / "index")


@pytest.mark.parametrize("name", ["out", "out.parquet"])
def test_embeddings_on_disk_state_their_model(name, tmp_path):
    models.write_embeddings(Pixels(fingerprint=OLD), X, tmp_path / name)
    stored = models.read_embeddings(tmp_path / name)
    assert stored.fingerprint == OLD
    index = search.Exact(stored.embeddings, stored.rows, model=stored)
    with refused("queries"):
        index.search(X[:2], 3, model=NEW)


def test_shards_on_disk_are_of_one_model_and_of_that_of_the_queries(tmp_path):
    for name, rows, model in (("a", X[:20], OLD), ("b", X[20:], OLD), ("c", X, NEW)):
        models.write_embeddings(Pixels(fingerprint=model), rows, tmp_path / f"{name}.parquet")
    a, b, c = (tmp_path / f"{name}.parquet" for name in "abc")
    table = pyarrow.table({"embedding": parquet.read_table(a)["embedding"]})
    parquet.write_table(table, tmp_path / "plain.parquet")
    rows, _ = search.search_on_disk([a, b], X[:5], 1, model=OLD)
    assert rows[:, 0].tolist() == [0, 1, 2, 3, 4]
    search.search_on_disk([a, X, tmp_path / "plain.parquet"], X[:5], 1, model=NEW, other_model=True)
    search.search_on_disk([tmp_path / "plain.parquet", X], X[:5], 1, model=NEW)
    with pytest.raises(
        ValueError, match=rf"c\.parquet' with vectors of model {NEW[:12]}.*{OLD[:12]}, as of shard .*a\."
    ):
        search.search_on_disk([a, c], X[:5], 1)
    with pytest.raises(ValueError, match=rf"a\.parquet' with vectors of model {OLD[:12]}.*as of the queries"):
        search.search_on_disk([a, b], X[:5], 1, model=Pixels(fingerprint=NEW))
