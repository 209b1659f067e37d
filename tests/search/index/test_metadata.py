"""Metadata is kept as it came, or refused; a dict of columns and values filters by the type of each column."""

import datetime as dt
import json
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tfdml import search
from tfdml.cli.commands import _mask
from tfdml.serving.index_records import IndexRecords, VectorSearch

X = np.random.default_rng(0).normal(size=(20, 4)).astype("float32")
DAY, TIME = dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, 10)
IN_UTC, IN_EAST = TIME.replace(tzinfo=dt.UTC), TIME.replace(tzinfo=dt.timezone(dt.timedelta(hours=2)))
LATE = pd.Timestamp("2024-01-01T10:00:00.000000001")
KINDS = [search.Exact, search.Scann, search.Faiss, search.Lance]

OTHER = {  # the value of a column, and one that its type would change
    "struct": ([{"a": 1}], {"z": 1}),
    "date": ([DAY], TIME),
    "time": ([TIME], DAY),
    "zone": ([IN_UTC], IN_EAST),
    "no zone": ([IN_UTC], TIME),
    "a zone": ([TIME], IN_UTC),
    "text": (["1"], 2.0**60),
    "whole": ([1], "007"),
    "fraction": ([1], 0.5),
    "not a number": ([1], float("nan")),
    "truth": ([True], 2),
    "one": ([True], 1),
    "float32": (np.float32([0.5]), 0.1),
    "large": ([0.5], 2**60 + 1),
    "int8": (np.int8([1]), 300),
    "decimal": ([Decimal("1.50")], Decimal("12.25")),
    "float": ([Decimal("0.1")], 0.1),
    "duration": (pa.array([1], pa.duration("s")), dt.timedelta(microseconds=5)),
    "number": ([dt.timedelta(1)], 5),
    "binary": ([b"a"], "a"),
    "category": (pd.Categorical(["a"]), 1),
    "list": ([[1]], [0.5]),
    "length": (pa.array([[1, 2]], pa.list_(pa.int64(), 2)), [1, 2, 3]),
    "nested": ([[{"day": DAY}]], [{"day": TIME}]),
}
SAME = {  # the value of a column, and one that stays as it is
    "null": ([1], None),
    "whole": ([1], 3.0),
    "float": ([0.5], 3),
    "nan": ([0.5], float("nan")),
    "float32": (np.float32([0.5]), 0.25),
    "int8": (np.int8([1]), 5),
    "decimal": ([Decimal("1.50")], Decimal("1.2")),
    "struct": ([{"a": 1, "b": 2}], {"a": 3}),
    "no struct": ([{"a": 1}], None),
    "list": ([[1]], []),
    "null in a list": ([[1]], [None, 2]),
    "category": (pd.Categorical(["a", "b"]), "c"),
    "category of numbers": (pd.Categorical([1, 2]), 3),
    "zone": ([IN_EAST], IN_EAST.replace(hour=3)),
    "nanosecond": (pd.to_datetime([LATE]), TIME),
}


def add(kind, name, first, value):
    index = kind(X, metadata={name: pa.chunked_array([pa.array(first)] * (20 // len(first)))})
    index.add(X[:1], [20], metadata={name: [value] if name != "length" else pa.array([value])})
    return index


@pytest.mark.parametrize("name", OTHER)
def test_a_value_that_the_type_of_its_column_changes_is_refused_by_name(name):
    first, value = OTHER[name]
    index = search.Exact(X[:1], metadata={name: first})
    before = index.metadata.to_pydict()
    for change in (index.add, index.update):
        with pytest.raises(ValueError, match=f"does not fit the columns .* of column '{name}' changes from .*; expe"):
            change([0] if change == index.update else X[1:2], *[[1]][: change == index.add], metadata={name: [value]})
    assert index.metadata.to_pydict() == before


@pytest.mark.parametrize("name", SAME)
def test_a_value_that_fits_its_column_is_kept(name):
    first, value = SAME[name]
    index = search.Exact(X[:1], metadata={name: pa.array(first)[:1]})
    index.add(X[1:2], [1], metadata={name: [value]})
    kept, expected = index.metadata[name][1].as_py(), {"a": 3, "b": None} if name == "struct" else value
    assert kept == expected or (kept != kept and expected != expected)
    assert index.metadata[name].type == pa.array(first).type


VALUES = {  # of every type that metadata may have
    "text": ["a", "b", "c"],
    "bytes": [b"a", b"b", b"c"],
    "whole": [1, 2, 3],
    "int8": np.int8([1, 2, 3]),
    "float32": np.float32([0.1, 0.2, 0.3]),
    "decimal": [Decimal("1.5"), Decimal("2.5"), Decimal("3.5")],
    "truth": [True, False, True],
    "date": [DAY, DAY.replace(day=2), DAY.replace(day=3)],
    "time": [TIME, TIME.replace(hour=3), TIME.replace(hour=4)],
    "zone": pa.array([IN_EAST, IN_EAST.replace(hour=3), IN_EAST.replace(hour=4)]),
    "hour": [dt.time(1), dt.time(2), dt.time(3)],
    "duration": [dt.timedelta(1), dt.timedelta(2), dt.timedelta(3)],
    "category": pa.array(["a", "b", "a"]).dictionary_encode(),
    "list": [["a"], [], ["b", "c"]],
    "struct": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": 3, "b": "z"}],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", VALUES)
def test_a_column_without_a_value_takes_any_type_and_keeps_it(kind, name, tmp_path):
    values = pa.array(VALUES[name])
    index = kind(X, metadata={"m": [None] * 20, "n": range(20)})
    assert index.metadata["m"].type == pa.null()
    index.add(X[:1], [20], metadata={"m": [None], "n": [20]})
    index.remove([3])
    index.update([5], metadata={"m": values[:1], "n": [5]})
    index.add(X[:2], [21, 22], metadata={"n": [21, 22], "m": values[1:]})
    expected = {5: values[0].as_py(), 21: values[1].as_py(), 22: values[2].as_py()}
    for _ in range(2):
        found = dict(zip(index.ids.tolist(), index.metadata["m"].to_pylist(), strict=True))
        assert found == dict.fromkeys([id for id in range(23) if id != 3]) | expected
        assert index.metadata["m"].type == values.type
        assert sorted(index.metadata["n"].to_pylist()) == [row for row in range(23) if row != 3]
        assert index.search(X[:1], 1, where={"n": 21})[0].tolist() == [[21]]
        with pytest.raises(ValueError, match="of column 'm' changes"):
            index.add(X[:1], [99], metadata={"m": [{"other": 1}], "n": [99]})
        index.save(tmp_path / "index")
        index = search.load(tmp_path / "index")


@pytest.mark.parametrize("kind", KINDS[:3])
def test_a_part_without_a_value_takes_any_type(kind, tmp_path):
    index = kind(X, metadata={"tags": [[]] * 20, "made": [{"by": None, "in": 1}] * 20})
    index.add(X[:1], [20], metadata={"tags": [["new"]], "made": [{"by": "me", "in": 2}]})
    index.save(tmp_path / "index")
    table = search.load(tmp_path / "index").metadata
    assert table["tags"].to_pylist() == [[]] * 20 + [["new"]]
    assert table["made"].to_pylist() == [{"by": None, "in": 1}] * 20 + [{"by": "me", "in": 2}]


@pytest.mark.parametrize("kind", KINDS)
def test_every_index_keeps_or_refuses_what_is_added(kind, tmp_path):
    for name in ("struct", "date", "float32", "zone"):
        with pytest.raises(ValueError, match=f"of column '{name}' changes"):
            add(kind, name, *OTHER[name])
    for name in ("category", "float", "zone"):
        index = add(kind, name, *SAME[name])
        index.save(tmp_path / name)
        kept = search.load(tmp_path / name).metadata[name].to_pylist()
        assert kept == pa.array(SAME[name][0]).to_pylist() * (20 // len(SAME[name][0])) + [SAME[name][1]]


@pytest.mark.parametrize(
    "values",
    [
        [DAY, TIME],
        [TIME, DAY],
        [IN_UTC, IN_EAST],
        [TIME, IN_UTC],
        [IN_EAST, TIME],
        [0.5, True],
        [np.True_, 1],
        [1, "007"],
        ["a", b"b"],
        [dt.timedelta(1), 5],
        [[DAY], [TIME]],
        [{"a": DAY}, {"a": TIME}],
        [LATE, TIME],
        [dt.time(1, tzinfo=dt.UTC), None],
        [2**60 + 1, 0.5],
    ],
    ids=str,
)
@pytest.mark.parametrize("frame", [dict, lambda columns: pd.DataFrame({"m": pd.Series(columns["m"], dtype=object)})])
def test_python_values_that_arrow_would_change_are_refused(values, frame):
    with pytest.raises(ValueError, match=r"Received metadata .*(Convert them|not a table)"):
        search.Exact(X[:2], metadata=frame({"m": values}))


@pytest.mark.parametrize(
    "values",
    [[1, 0.5], [1, None], [DAY, None], [IN_EAST, IN_EAST], [(1, 2), [3]], [np.int8(1), 2], [np.str_("a"), "b"],
     [b"a", None], [Decimal(1), 2], [np.array([1.5]), [2]], [{"a": 1}, {"a": 2}], [np.float32(0.1), 0.1]],
    ids=str,
)  # fmt: skip
def test_python_values_of_one_kind_are_kept(values):
    kept = search.Exact(X[:2], metadata={"m": values}).metadata["m"].to_pylist()
    for value, there in zip(values, kept, strict=True):
        assert there == (list(value) if isinstance(value, tuple | np.ndarray) else value) or value != value


COLUMNS = {
    "class": ["coffee", "tea", "coffee", None],
    "category": pd.Categorical(["a", "b", "a", None]),
    "number": pd.Categorical([1, 2, 1, 3]),
    "whole": [1, 2, 1, 3],
    "float32": np.float32([0.1, 0.5, 0.1, 3]),
    "float16": np.float16([0.1, 0.5, 0.1, 3]),
    "decimal": [Decimal("1.5"), Decimal("2.5"), Decimal("1.5"), None],
    "truth": [True, False, True, None],
    "date": [DAY, dt.date(2024, 1, 2), DAY, None],
    "time": [TIME, TIME.replace(hour=3), TIME, None],
    "zone": pa.array([IN_UTC, IN_UTC.replace(hour=3), IN_UTC, None]),
    "duration": [dt.timedelta(1), dt.timedelta(2), dt.timedelta(1), None],
    "hour": [dt.time(1), dt.time(2), dt.time(1), None],
}
INDEX = search.Exact(X[:4], metadata=COLUMNS)
FIRST_AND_THIRD = [True, False, True, False]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("class", ["coffee"]),
        ("category", ["a", ["a"], ["a", "x"]]),
        ("number", [1, "1", 1.0]),
        ("whole", [1, "1", 1.0, np.int64(1), np.array([1]), (1,), {1}]),
        ("float32", [0.1, "0.1", np.float32(0.1)]),
        ("float16", [0.1, "0.1"]),
        ("decimal", [1.5, "1.5", "1.50", Decimal("1.5")]),
        ("truth", [True, "true"]),
        ("date", [DAY, "2024-01-01"]),
        ("time", [TIME, "2024-01-01 10:00:00", "2024-01-01T10:00"]),
        ("zone", [IN_UTC, IN_EAST.replace(hour=12), "2024-01-01 10:00:00+00:00", "2024-01-01T12:00+02:00"]),
        ("duration", [dt.timedelta(1), "1 day, 0:00:00", "1 days 00:00:00", "24:00:00.000"]),
        ("hour", [dt.time(1), "01:00:00"]),
    ],
)
def test_a_dict_filters_by_the_values_of_a_column_in_python_in_the_command_and_in_json(column, values):
    answer = IndexRecords(INDEX)
    for value in values:
        where = {column: value}
        assert INDEX.mask(where).tolist() == FIRST_AND_THIRD
        assert INDEX.count(where) == 2
        assert sorted(INDEX.search(X[:1], 2, where=where)[0][0]) == [0, 2]
        if isinstance(value, str):
            assert _mask([f"{column}={value}"], INDEX).tolist() == FIRST_AND_THIRD
        if isinstance(value, str | int | float | list):
            ((*found,),) = answer([VectorSearch(vector=X[0], k=4, where=json.dumps(where))])
            assert sorted(neighbor["row"] for neighbor in found) == [0, 2]


def test_all_columns_of_a_dict_hold_and_none_is_null():
    assert INDEX.mask({"whole": [1, 3], "category": ["a", None]}).tolist() == [True, False, True, True]
    assert INDEX.mask({"date": None}).tolist() == [False, False, False, True]
    assert INDEX.mask({"whole": []}).tolist() == [False] * 4
    assert INDEX.mask({}).all()
    for where in ({"class": "milk"}, {"whole": 99}, {"date": "2024-02-29"}, {"duration": "-1 day, 23:59:59"}):
        assert INDEX.mask(where).tolist() == [False] * 4


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("date", 19723), ("date", TIME), ("date", "2024"), ("time", DAY), ("zone", TIME)),
        *(
            ("duration", 1),
            ("duration", "1 day"),
            ("duration", "0:00:00.0000001"),
            ("whole", 1.5),
            ("whole", True),
            ("whole", 2**70),
        ),
        *(("truth", 1), ("float32", 1e300), ("float32", True), ("decimal", 1.55)),
        *(("class", 1), ("class", ["tea", ["tea"]]), ("category", {"a": 1})),
    ],
)
def test_a_value_of_another_type_is_refused_with_type_and_values(column, value):
    example = re.escape(str(INDEX.metadata[column][0].as_py()))
    message = f"a filter of '{column}' with .*expected values of type .*, such as {example}"
    with pytest.raises(ValueError, match=message):
        INDEX.mask({column: value})
    if not isinstance(value, dt.date):
        (refused,) = IndexRecords(INDEX)([VectorSearch(vector=X[0], where=json.dumps({column: value}), k=1)])
        assert "expected values of type" in str(refused)


def test_a_column_that_is_not_there_or_has_lists_is_refused():
    index = search.Exact(X[:1], metadata={"tags": [["new"]], "kind": ["shoe"]})
    for column in ("tags", "color"):
        with pytest.raises(ValueError, match=f"a filter of column '{column}', expected one of kind"):
            index.mask({column: "new"})
    with pytest.raises(ValueError, match="the index has no metadata"):
        search.Exact(X[:1]).mask({"kind": "shoe"})


def test_the_command_names_close_values_or_some_of_those_that_exist():
    with pytest.raises(ValueError, match="class=cofee, values that no item has, expected others, such as 'coffee'"):
        _mask(["class=cofee", "class=tea"], INDEX)
    with pytest.raises(ValueError, match="whole=7, values that no item has, expected others, such as '1', '2', '3'"):
        _mask(["whole=7"], INDEX)
    with pytest.raises(ValueError, match="no item has together"):
        _mask(["class=tea", "whole=1"], INDEX)


def test_the_values_of_categories_are_choices_of_a_server():
    choices = IndexRecords(INDEX).description["filters"]
    assert choices["category"] == ["a", "b"]
    assert choices["number"] == []
