"""Neighbors as records, and filters."""

import datetime
import json

import numpy as np
import pyarrow as pa
import pytest

from tfdml import search
from tfdml._core.checksums import state_of
from tfdml.serving.index_records import IndexRecords, VectorSearch
from tfdml.serving.limits import RefusedError
from tfdml.serving.queries import FileQuery
from tfdml.visualize import Thumbnails, write_thumbnails

VECTORS = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
IDS = np.array([f"item {row}" for row in range(12)])
LABELS = ["ant", "bee", None] * 4
COLUMNS = {
    "path": [f"/secret/photos/{row}.png" for row in range(12)],
    "label": LABELS,
    "price": list(range(12)),
    "weight": [float("nan")] + [0.5] * 11,
    "day": [datetime.date(2024, 1, 1 + row) for row in range(12)],
}


@pytest.fixture(scope="module")
def records():
    return IndexRecords(search.Exact(VECTORS, IDS, metadata=COLUMNS, metric="euclidean"))


def by_hand(query, k, rows):
    """The nearest of some rows by float64 distances."""
    distances = np.linalg.norm(VECTORS[rows].astype(float) - query, axis=1)
    return [rows[place] for place in np.argsort(distances)[:k]]


def found_rows(results):
    return [[neighbor["row"] for neighbor in result] for result in results]


def query(vector=0, k=3, where=None, excluded_rows=()):
    return VectorSearch(vector=VECTORS[vector], k=k, where=json.dumps(where or {}), excluded_rows=excluded_rows)


def test_queries_of_several_filters_and_numbers_of_neighbors_are_answered_together(records):
    bees = [row for row in range(12) if LABELS[row] == "bee"]
    queries = [query(0), query(1, 5, {"label": "bee"}), query(2, 1), query(3, 2, {"label": ["ant", "bee"]})]
    expected = [by_hand(VECTORS[0], 3, list(range(12))), by_hand(VECTORS[1], 5, bees), [2]]
    expected += [by_hand(VECTORS[3], 2, [row for row in range(12) if LABELS[row]])]
    assert found_rows(records(queries)) == expected


def test_a_filter_of_null_and_one_that_nothing_passes(records):
    assert found_rows(records([query(k=9, where={"label": None})])) == [by_hand(VECTORS[0], 9, [2, 5, 8, 11])]
    assert records([query(where={"price": 99})]) == [[]]


def test_an_excluded_item_is_replaced_by_the_next_one(records):
    all_but_4 = [row for row in range(12) if row != 4]
    assert found_rows(records([query(4, 3, excluded_rows=(4,)), query(4, 3)])) == [
        by_hand(VECTORS[4], 3, all_but_4),
        by_hand(VECTORS[4], 3, list(range(12))),
    ]
    assert found_rows(records([query(4, 100, excluded_rows=(4,))])) == [by_hand(VECTORS[4], 11, all_but_4)]


def test_each_item_of_several_vectors_is_answered_once_and_a_query_does_not_find_its_own_item():
    products = np.arange(12) // 3
    index = search.Exact(VECTORS, IDS, metadata={"product": products}, metric="euclidean")
    records = IndexRecords(index, items="product")
    assert (records.description["items"], len(records)) == (4, 12)
    firsts, others = records([query(4, 9), query(4, 9, excluded_rows=(4,))])
    nearest = by_hand(VECTORS[4], 12, list(range(12)))
    expected = [next(row for row in nearest if products[row] == one) for one in dict.fromkeys(products[nearest])]
    assert found_rows([firsts, others]) == [expected, expected[1:]]
    assert found_rows(records([query(4, 2, {"product": [0, 3]})])) == [
        [row for row in expected if products[row] in (0, 3)]
    ]


def test_a_neighbor_has_id_row_score_and_metadata_but_no_path(records):
    ((neighbor,),) = records([query(0, 1)])
    metadata = {"label": "ant", "price": 0, "weight": None, "day": "2024-01-01"}
    expected = {"id": "item 0", "row": 0, "name": "0.png", "metadata": metadata, "score": None}
    assert {**neighbor, "score": None} == expected
    assert neighbor["score"] == pytest.approx(0, abs=1e-3)
    assert "secret" not in json.dumps([neighbor, records.description], allow_nan=False)


ALIASES = "null bool int8 uint64 float string large_string binary date32 duration[s] time64[us] month_day_nano_interval"
TYPES = [
    *map(pa.type_for_alias, ALIASES.split()),
    *(pa.decimal128(5, 2), pa.binary(2), pa.timestamp("ns", tz="UTC"), pa.dictionary(pa.int8(), pa.string())),
    *(pa.list_(pa.float32()), pa.list_(pa.int8(), 2), pa.struct({"w": pa.float32()})),
    pa.map_(pa.string(), pa.date32()),
]
VALUES = [None, True, 0, -1, 2**63, 10**400, 0.5, 1e300, "", "a", "7", "\ud800", "\0", "2024-01-01", "true"]


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_a_filter_on_a_column_of_any_type_is_answered_or_refused(type_):
    records = IndexRecords(search.Exact(VECTORS[:3], metadata=pa.table({"column": pa.nulls(3, type_)})))
    for value in [*VALUES, VALUES, VALUES[2:4], []]:
        (result,) = records([query(where={"column": value})])
        assert isinstance(result, RefusedError) or all(each["metadata"] == {"column": None} for each in result)
    nested = str(type_).startswith(("list", "fixed_size_list", "struct", "map"))
    assert ("column" not in records.description["filters"]) == nested


def test_metadata_of_any_name_and_type_is_json_in_its_own_place():
    day, nan = datetime.date(2024, 1, 1), float("nan")
    columns = {"id": [7], "row": ["r"], "score": [True], "name": [None], "metadata": ["m"], "path": ["/secret/a.png"]}
    columns |= {"days": [[day, None]], "size": [{"w": nan, "days": [day]}], "raw": [b"\xff"]}
    ((neighbor,),) = IndexRecords(search.Exact(VECTORS[:1], ["x"], metadata=columns))([query(0, 1)])
    assert neighbor == {
        "id": "x",
        "row": 0,
        "score": pytest.approx(1),
        "name": "a.png",
        "metadata": {
            **{"id": 7, "row": "r", "score": True, "name": None, "metadata": "m", "raw": "b'\\xff'"},
            **{"days": ["2024-01-01", None], "size": {"w": None, "days": ["2024-01-01"]}},
        },
    }
    json.dumps(neighbor, allow_nan=False)


FACTS = {"items": 12, "dim": 3, "metric": "euclidean", "pictures": True, "random_items": True}


def test_items_are_described_with_the_values_of_text_and_found_by_id_and_by_row(records):
    assert records.description == FACTS | {"filters": {"label": ["ant", "bee"], "price": [], "weight": [], "day": []}}
    assert records.row("id", "item 3") == records.row("row", 3) == 3
    np.testing.assert_allclose(records.vector(3), VECTORS[3], atol=1e-6)
    assert str(records.path(3)) == "/secret/photos/3.png"


def test_an_index_without_metadata_has_neighbors_and_no_pictures():
    records = IndexRecords(search.Exact(VECTORS, np.arange(12) + 2**60))
    assert records.description == FACTS | {"metric": "cosine", "pictures": False, "filters": {}}
    (((first, *_),)) = records([query(5)])
    assert first == {"id": 5 + 2**60, "row": 5, "score": pytest.approx(1), "metadata": {}}
    assert records.path(5) is None
    assert records.row("id", 5 + 2**60) == records.row("id", str(5 + 2**60)) == 5  # a text, as of JavaScript
    with pytest.raises(RefusedError):
        records.row("id", 2**70)


OTHER = "0123456789abcdef"


def test_an_item_has_the_picture_of_its_own_file_alone(tmp_path):
    """A thumbnail or a file of another checksum, and what an index no longer has, is the picture of no item."""
    for name in ("a", "b", "c"):
        (tmp_path / "photos").mkdir(exist_ok=True)
        (tmp_path / "photos" / f"{name}.png").write_bytes(f"{name} there".encode())
    states = [state_of(tmp_path / "photos" / f"{name}.png") for name in "abc"]
    columns = {
        "path": [f"photos/{name}.png" for name in "abcd"],
        "_root": [str(tmp_path)] * 4,
        "_size": [7, 7, 7, 7],
        "_checksum": [states[0][1], OTHER, states[2][1], OTHER],
    }
    path = write_thumbnails(
        tmp_path / "small.npz", [0, 2, 3, 9], np.zeros((4, 8, 8, 3), np.uint8), versions=[OTHER, None, OTHER, OTHER]
    )
    index = search.Exact(np.eye(4), metadata=columns)
    records = IndexRecords(index, Thumbnails.load(path))
    assert [records.thumbnail(row) is not None for row in range(4)] == [False, False, True, True]
    assert [records.has_file(row) for row in range(4)] == [True, False, True, False]
    for row in (1, 3):
        with pytest.raises(RefusedError, match=r"gone or another one, expected its file\.$"):
            records.path(row)
        with pytest.raises(RefusedError, match="an item without its file"):
            records.file(row)
    assert records.file(0) == FileQuery(b"a there")
    assert records.description["filters"] == {}
    assert all("_" not in column for item in records.random_items(4) for column in item["metadata"])
    with pytest.raises(RefusedError, match="where with '_root', expected columns of the index"):
        raise records([VectorSearch(vector=np.eye(4)[0], k=1, where=json.dumps({"_root": str(tmp_path)}))])[0]
    (tmp_path / "photos").rename(tmp_path / "moved")
    for root in (tmp_path / "moved", tmp_path):
        assert IndexRecords(index, root=root).has_file(0) == (root != tmp_path)


def test_an_index_whose_columns_are_all_the_owners_has_no_metadata_for_clients():
    records = IndexRecords(search.Exact(np.eye(3), metadata={"_note": ["x", "y", "z"]}))
    assert {str(item["metadata"]) for item in records.random_items(3)} == {"{}"}
