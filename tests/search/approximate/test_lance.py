"""What Lance adds to the tests of every kind of index: its table, blocks of vectors, cells, versions and writers."""

import os
import signal
import subprocess
import sys

import lance
import numpy as np
import pyarrow as pa
import pytest

from tests.search.test_search import METRICS, clustered
from tfdml import search
from tfdml.search.approximate import lance as module
from tfdml.search.index.loading import versions_of

X = clustered(2000, 16)
CELLS = {"method": "partitioned", "leaves": 40, "leaves_to_search": 30}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("share", [None, 0.02, 0.6])
def test_blocks_of_a_table_give_the_results_of_exact_search_to_the_last_bit(metric, share, monkeypatch):
    monkeypatch.setattr(module, "_ROWS", 300)
    x = np.concatenate([X[:900], X[:500]])  # with equal scores
    where = None if share is None else np.random.default_rng(0).random(len(x)) < share
    found = search.Lance(x, metric=metric).search(X[:100], 9, where=where)
    for one, other in zip(found, search.Exact(x, metric=metric).search(X[:100], 9, where=where), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("share", [1, 0.5, 0.01])
def test_cells_find_nearly_all_and_score_them_exactly(metric, share):
    index, exact = search.Lance(X[:1900], metric=metric, **CELLS), search.Exact(X, metric=metric)
    index.add(X[1900:], np.arange(1900, 2000))  # not in a cell
    for one in (index, exact):
        one.remove(np.arange(0, 2000, 50))
    where = np.random.default_rng(0).random(len(exact)) < share
    (ids, scores), (expected, values) = (one.search(X[::10], 10, where=where) for one in (index, exact))
    assert where[exact.rows(ids)].all()
    assert search.neighbor_recall(ids, expected) > 0.95
    np.testing.assert_array_equal(scores[ids == expected], values[ids == expected])


def test_tuned_and_rebuilt_cells_are_kept_in_the_table(tmp_path):
    index = search.Lance(X, path=tmp_path / "x.lance", **CELLS)
    assert index.tune(0.9) > 0.85
    assert index.leaves_to_search < 30
    index.save(tmp_path / "x.lance")
    loaded = search.load(tmp_path / "x.lance")
    assert [getattr(loaded, name) for name in index.settings] == [getattr(index, name) for name in index.settings]
    loaded.rebuild(method="partitioned", leaves=20)
    assert (loaded.leaves, loaded.leaves_to_search, loaded.rescore) == (20, 5, None)
    statistics = lance.dataset(tmp_path / "x.lance").stats.index_stats("embedding_idx")
    assert statistics["indices"][0]["num_partitions"] == 20


def test_changes_are_versions_of_the_table_that_others_can_read(tmp_path):
    path = tmp_path / "shop" / "products.lance"
    index = search.Lance(X[:3], ["it's", "b", "c"], metadata={"price": [1, 2, 3]}, path=path, model="m")
    seen = [versions_of(path)]
    index.update(["b"], X[3:4])
    seen.append(versions_of(path))
    index.remove(["it's"])
    seen.append(versions_of(path))
    assert len(set(seen)) == 3
    assert search.load(path, model="m").ids.tolist() == ["c", "b"]
    table = lance.dataset(path)
    assert table.schema.names == ["price", "id", "embedding"]
    assert table.checkout_version(1).to_table(["id"])["id"].to_pylist() == ["it's", "b", "c"]
    table.checkout_version(2).restore()
    assert search.load(path).ids.tolist() == ["it's", "c", "b"]


def test_a_second_writer_is_refused_until_it_loads_the_table_again(tmp_path):
    first = search.Lance(X[:10], path=tmp_path / "x.lance")
    second = search.load(tmp_path / "x.lance")
    first.add(X[10:11], [10])
    for change in (lambda: second.add(X[11:12], [10]), lambda: second.remove([3]), lambda: second.rebuild()):
        with pytest.raises(ValueError, match=r"version 1 of .*another writer has changed, expected version 2"):
            change()
    assert second.search(X[:2], 10)[0].shape == (2, 10)  # in the version that it has
    second = search.load(tmp_path / "x.lance")
    second.add(X[11:12], [11])
    assert search.load(tmp_path / "x.lance").ids.tolist() == list(range(12))


def test_a_copy_replaces_an_index_whose_readers_go_on(tmp_path):
    search.Lance(X[:50], path=tmp_path / "x.lance", model="old")
    reader, other = search.load(tmp_path / "x.lance"), search.Lance(X[:, :8], model="new", **CELLS)
    other.save(tmp_path / "x.lance")
    assert reader.search(X[7:8], 1)[0] == [[7]]
    loaded = search.load(tmp_path / "x.lance", model="new")
    np.testing.assert_array_equal(loaded.search(X[:50, :8], 5)[0], other.search(X[:50, :8], 5)[0])


def test_vectors_are_read_where_they_are_asked_for():
    vectors, rows = search.Lance(X, metric="dot").vectors, np.array([[7, 7], [1999, 0]])
    assert (len(vectors), vectors.shape) == (2000, (2000, 16))
    for part in (5, slice(-3, None), rows, np.arange(2000) % 7 == 0):
        np.testing.assert_array_equal(vectors[part], X[part])
    np.testing.assert_array_equal(vectors, X)


def test_a_table_at_a_url_is_an_index(tmp_path):
    url = (tmp_path / "x.lance").as_uri()
    search.Lance(X[:20], path=url, model="m").add(X[20:30], np.arange(20, 30))
    for load in (search.load, search.Lance.load):
        np.testing.assert_array_equal(load(url, model="m").search(X[:30], 1)[0][:, 0], np.arange(30))
    search.Exact(X[:2]).save(tmp_path / "exact")
    with pytest.raises(ValueError, match=r"expected a folder\. Copy the table"):
        search.migrate(url, None, model="new")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda folder: search.Lance(X, path=folder / "x.lance"), FileExistsError, "a folder with '"),
        (lambda folder: search.Lance(X).save(folder), FileExistsError, "notes.txt"),
        (lambda folder: search.Lance(X).save(folder / "other.lance"), ValueError, "a table that tfdml.search.Lance"),
        (lambda folder: search.load(folder / "other.lance"), ValueError, "a table that tfdml.search.Lance wrote"),
        (lambda folder: search.Lance(X[:2], metadata={"id": [1, 2]}), ValueError, r"columns \['id'\], expected other"),
        (
            lambda folder: search.Lance(X[:2], metadata={"a.b": [1, 2]}),
            ValueError,
            r"columns \['a\.b'\], expected other",
        ),
        (lambda folder: search.Lance(X, method="graph"), ValueError, "'auto', 'exact', 'partitioned'"),
        (lambda folder: search.Lance(X, rescore=0), ValueError, "rescore=0"),
    ],
)
def test_what_a_table_cannot_be_is_refused_with_advice(make, error, message, tmp_path):
    search.Lance(X[:9], path=tmp_path / "x.lance")
    lance.write_dataset(pa.table({"a": [1]}), str(tmp_path / "other.lance"))
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(error, match=message):
        make(tmp_path)
    assert len(search.load(tmp_path / "x.lance")) == 9


ADD_FOR_EVER = """
import sys
import numpy as np
from tfdml import search

vectors = np.random.default_rng(0).normal(size=(20_000, 8)).astype("float32")
index = search.load(sys.argv[1])
print("begun", flush=True)
while True:
    ids = np.arange(len(index), len(index) + 10)
    index.add(vectors[ids], ids)
    index.update(ids[:3], vectors[ids[:3]])
"""


@pytest.mark.slow
def test_a_table_is_whole_after_kill_9_of_its_writer(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(20_000, 8)).astype("float32")
    search.Lance(vectors[:10], path=tmp_path / "x.lance")
    sizes = [10]
    for seconds in (0.02, 0.11, 0.17):
        program = [sys.executable, "-c", ADD_FOR_EVER, str(tmp_path / "x.lance")]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout.readline() == "begun\n"
            with pytest.raises(subprocess.TimeoutExpired):
                writer.wait(seconds)
            os.kill(writer.pid, signal.SIGKILL)
        index = search.load(tmp_path / "x.lance")
        np.testing.assert_array_equal(np.sort(index.ids), np.arange(len(index)))
        np.testing.assert_array_equal(index.search(vectors[: len(index)], 1)[0][:, 0], np.arange(len(index)))
        sizes.append(len(index))
    assert sizes == sorted(sizes)
    assert sizes[-1] > 20
