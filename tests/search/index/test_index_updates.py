"""Indexes that change: add, remove, update, filters, metadata, and what a folder keeps of them."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.search.test_search import METRICS, build, clustered, every_folder
from tfdml import search

X = clustered(600, seed=5)
WORDS = np.array([f"item {i}" for i in range(600)])
PRICES = np.arange(600) % 7


def table(rows):
    return {"price": PRICES[rows], "name": WORDS[rows]}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("share", [0.02, 0.5])
@pytest.mark.parametrize("k", [1, 9])
def test_a_filter_changes_no_bit_of_the_neighbors_that_pass(metric, share, k):
    x = clustered(3000, 12)
    x[100:400] = x[400:700]
    mask = np.random.default_rng(0).random(3000) < share
    index = search.Exact(x, metric=metric)
    ids, scores = index.search(x[::60], 3000)
    found, values = index.search(x[::60], k, where=mask)
    for row in range(len(ids)):
        passing = np.flatnonzero(mask[ids[row]])[:k]
        np.testing.assert_array_equal(found[row], ids[row, passing])
        np.testing.assert_array_equal(values[row], scores[row, passing])


def test_a_filter_that_only_neighbors_of_neighbors_pass_is_found_whole():
    x = clustered(2000, 12)
    mask = np.arange(2000) >= 1900  # in one run, so that most slices of scores are empty
    assert len(set(search.Exact(x, max_bytes=200_000).search(x[:70], 100, where=mask)[0][3])) == 100


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("kind", "method"),
    [("scann", "quantized"), ("scann", "partitioned"), *(("faiss", method) for method in search.Faiss.methods)],
)
def test_approximate_search_leaves_out_what_was_removed_or_does_not_pass(kind, method, metric):
    x = clustered(3000, 16)
    index, exact = build(kind, x, method=method, metric=metric), search.Exact(x, metric=metric)
    near = np.unique(exact.search(x[:100], 20)[0])[::2]
    for one in (index, exact):
        one.remove(near)
    mask = index.ids % 3 > 0
    for where in (None, mask):
        found, _ = index.search(x[:100], 10, where=where)
        assert not np.isin(found, near).any()
        assert where is None or (found % 3 > 0).all()
        assert search.neighbor_recall(found, exact.search(x[:100], 10, where=where)[0]) > 0.9  # cells are random


def test_what_a_query_does_not_find_in_its_cells_is_searched_exactly():
    x = clustered(2000, 8, classes=20)
    index = search.Scann(x, method="partitioned", leaves=50, leaves_to_search=1, rescore=10)
    mask = index.search(x[:1], 2000)[1][0][np.argsort(index.search(x[:1], 2000)[0][0])] < 0.2
    found, scores = index.search(x[:1], 5, where=mask)
    expected, values = search.Exact(x).search(x[:1], 5, where=mask)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(scores, values, rtol=1e-5)


def test_many_small_additions_leave_few_segments():
    index = search.Exact(np.eye(8)[:1], [0])
    for i in range(1, 200):
        index.add(np.eye(8)[[i % 8]] * i, [i])
    assert len(index._items.segments) <= 3 * np.log(200) / np.log(4) + 3
    np.testing.assert_array_equal(index.ids, np.arange(200))
    index.remove(np.arange(150))
    assert sum(len(segment.ids) for segment in index._items.segments) <= 100


def test_null_does_not_pass_a_filter():
    index = search.Exact(X[:4], metadata={"price": [1, None, 3, None]})
    assert index.mask(pc.field("price") < 2).tolist() == [True, False, False, False]
    index.add(X[4:6], [4, 5], metadata={"price": pa.nulls(2)})
    assert index.mask(pc.field("price").is_null()).tolist() == [False, True, False, True, True, True]


def test_text_ids_may_grow_longer_and_come_from_any_library():
    index = search.Exact(X[:3], ["a", "b", "ä"])
    index.add(X[3:5], np.array(["a long id", "z"], object))
    index.add(X[5:6], pa.array(["from arrow"]))
    np.testing.assert_array_equal(index.search(X[:6], 1)[0][:, 0], ["a", "b", "ä", "a long id", "z", "from arrow"])


@pytest.mark.parametrize(
    "ids",
    [
        np.array(["a", "b", "ä"], np.dtypes.StringDType()),
        np.array(["a", "b", "ä"], object),
        pa.array(["a", "b", "ä"]).dictionary_encode(),
        ("a", "b", "ä"),
    ],
    ids=["StringDType", "object", "arrow", "tuple"],
)
def test_text_ids_come_from_any_kind_of_array(ids):
    index = search.Exact(X[:3], ids)
    assert index.ids.tolist() == ["a", "b", "ä"]
    np.testing.assert_array_equal(index.rows(ids), [0, 1, 2])
    assert search.Exact(X[:3], np.array([7, 8, 9], object)).rows([[9, 7]]).tolist() == [[2, 0]]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1, "a", "b"], "Received ids of types int, str, expected integers alone or text alone"),
        ([True, 2, 3], "types bool, int"),
        ([True, False, True], "type bool"),
        (np.array([True, False, True]), "dtype bool, expected integers alone or text alone"),
        ([1.0, 2.0, 3.0], "type float"),
        (np.array([1.0, 2.0, 3.0]), "dtype float64"),
        (np.array(["a", np.nan, "c"], object), "types float, str"),
        (np.array(["a", None, "c"], np.dtypes.StringDType(na_object=None)), "types NoneType, str"),
        ([b"a", b"b", b"c"], "type bytes"),
        (["a", b"b", "c"], "types bytes, str"),
        ([["a"], ["b", "c"], ["d"]], "type list"),
        ([["a", "b", "c"]], r"shape \(1, 3\), expected \(3,\): one id per row"),
        ([2**63, 1, 2], r"up to 9223372036854775808, expected -2\*\*63 to"),
        ([2**70, 1, 2], "up to 1180591620717411303424"),
        (["a\0", "b", "c"], r"the id 'a\\x00', expected ids without the character 0"),
        (["a", "\ud800", "c"], r"the character '\\ud800', expected text that UTF-8 can encode"),
        (["a", "b", 1025 * "x"], "the id x{60}... of 1,025 characters, expected at most 1,024 characters"),
    ],
)
def test_ids_that_an_index_would_not_keep_as_they_are_are_refused(ids, message):
    with pytest.raises(ValueError, match=message):
        search.Exact(X[:3], ids)
    with pytest.raises(ValueError, match=message):
        search.Exact(X[:5], list("pqrst")).add(X[:3], ids)


def test_long_and_odd_text_is_not_there_and_takes_no_memory():
    index = search.Exact(X[:300], WORDS[:300])
    index.add(X[300:301], [1024 * "x"])
    for text in (10**6 * "x", "item 3\0", "item \ud800", ""):
        tracemalloc.start()
        for look_up in (index.rows, index.remove):
            with pytest.raises(ValueError, match="Received 1 ids that are not in the index, such as") as error:
                look_up(["item 3", text])
            assert str(error.value).isprintable()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10 * 2**20
    assert index.rows(["item 3", 1024 * "x"]).tolist() == [3, 300]


def test_scores_beyond_the_range_of_float32_are_refused_after_additions_too():
    index = search.Exact(np.eye(4)[:1], metric="dot")
    for i in range(1, 4):
        index.add(1e30 * np.eye(4)[[i]], [i])
    assert len(index._items.segments) == 1
    with pytest.raises(ValueError, match="beyond the range of float32"):
        index.search(1e9 * np.eye(4)[:1], 1)


@every_folder
def test_a_loaded_index_maps_its_vectors(tmp_path, kind):
    build(kind, X, metric="dot").save(tmp_path)
    base = search.load(tmp_path).vectors
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)


# Settings.


def test_tuned_settings_reach_the_recall_on_other_queries():
    x = np.random.default_rng(0).normal(size=(4000, 24))
    index = search.Scann(x[:3000], method="partitioned")
    for queries in (None, x[3000:3500]):
        reported = index.tune(0.9, k=5, queries=queries, sample=400)
        found, exact = index.search(x[3500:], 5)[0], search.Exact(x[:3000]).search(x[3500:], 5)[0]
        assert reported > 0.87
        assert search.neighbor_recall(found, exact) > 0.85  # chosen on 400 queries, measured on 500
        assert index.leaves_to_search < index.leaves
        assert index.rescore < 250
    few = index.leaves_to_search
    index.tune(0.6, k=5, sample=400)
    assert index.leaves_to_search < few


def test_settings_without_cells_and_in_duplicates_are_chosen_too():
    x = np.repeat(clustered(60), 3, axis=0)
    index = search.Scann(x)
    assert index.tune(0.9, k=5) > 0.5
    assert (index.leaves_to_search, index.method) == (None, "exact")
    assert search.Scann(X[:8]).tune() == 1  # of the 7 neighbors that there are


# Errors.


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"list": [1]}, "does not fit the columns"),
        ({"struct": [1]}, "does not fit the columns"),
        ({"text": ["\ud800"]}, "not a table"),
        ({"text": [2**70]}, "not a table"),
    ],
)
def test_metadata_of_another_type_is_refused(values, message):
    first = {"none": pa.nulls(2), "list": [[1], None], "struct": [{"a": 1}, None], "text": ["u", None]}
    index = search.Exact(X[:2], metadata=first)
    with pytest.raises(ValueError, match=message):
        index.add(X[2:3], [2], metadata={"none": [None], "list": [[2]], "struct": [None], "text": ["w"], **values})
    for wrong in (pc.field("list") == pa.scalar([1]), pc.field("struct") == pa.scalar(None), pc.field("list") == 1):
        with pytest.raises(ValueError, match="expected an expression of the columns"):
            index.search(X[:1], 1, where=wrong)
    assert len(index) == 2


def test_columns_of_one_name_and_masks_that_hide_entries_are_refused():
    with pytest.raises(ValueError, match=r"columns \['a', 'a'\], expected distinct names"):
        search.Exact(X[:2], metadata=pa.table([pa.array([1, 2])] * 2, names=["a", "a"]))
    for mask, message in (
        (np.ma.masked_array([True, False], mask=[True, False]), "where with 1 masked entries"),
        ([[True], [False, True]], r"where of shape \(2,\), object, expected \(2,\) booleans"),
    ):
        with pytest.raises(ValueError, match=message):
            search.Exact(X[:2]).mask(mask)


def test_an_index_without_metadata_says_so():
    index = search.Exact(X[:20])
    with pytest.raises(ValueError, match="the index has no metadata"):
        index.search(X[:1], 1, where=pc.field("price") < 3)
    with pytest.raises(ValueError, match="metadata, expected none"):
        index.add(X[:1], [50], metadata={"price": [1]})
    with pytest.raises(ValueError, match="kind text, expected int64"):
        index.remove(["3"])
    for recall in (0, 1, 2.0):
        with pytest.raises(ValueError, match="expected a number between 0 and 1"):
            search.Scann(X[:20]).tune(recall)
