"""Tables of metrics per class."""

import numpy as np
import pytest

from tfdml.metrics import per_class, retrieval


def test_the_table_of_classes_has_the_worst_first_by_hand():
    values = {"map@r": [1, 0.5, np.nan, 0.25, np.nan, 0.75], "mrr": [1, 0, np.nan, 1, np.nan, 0.5]}
    rows = per_class(values, [7, 7, 7, -3, 5, 9])
    assert [list(row) for row in rows] == [["label", "queries", "skipped", "map@r", "mrr"]] * 4
    assert list(rows[0].values()) == [-3, 1, 0, 0.25, 1]
    assert list(rows[1].values()) == [7, 2, 1, 0.75, 0.5]  # As good as 9, which has the larger label.
    assert list(rows[2].values()) == [9, 1, 0, 0.75, 0.5]
    assert list(rows[3].values())[:3] == [5, 0, 1]
    assert np.isnan(rows[3]["map@r"])
    assert [row["label"] for row in per_class(values, [7, 7, 7, -3, 5, 9], by="mrr")] == [7, 9, -3, 5]


def test_the_mean_over_the_table_is_the_macro_average():
    rng = np.random.default_rng(10)
    x, labels = rng.normal(size=(60, 4)), rng.integers(0, 9, 60)
    rows = per_class(retrieval(x, labels, per_query=True), labels)
    for name, value in retrieval(x, labels, average="macro").items():
        expected = (
            np.mean([row[name] for row in rows])
            if name not in ("queries", "skipped")
            else sum(row[name] for row in rows)
        )
        assert value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("values", "labels", "by", "message"),
    [
        ({"mrr": [1, 2]}, [0, 1], "map@r", "by='map@r', expected one of mrr"),
        ({"mrr": [1, 2]}, [0, 1, 2], "mrr", r"mrr of shape \(2,\), expected \(3,\)"),
        ({"mrr": [1, 2]}, [0.0, 1.0], "mrr", "expected integers"),
    ],
)
def test_wrong_tables_are_refused_with_advice(values, labels, by, message):
    with pytest.raises(ValueError, match=message):
        per_class(values, labels, by=by)
