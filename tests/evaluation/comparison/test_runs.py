"""Comparison of rankings and of scores: values by hand arithmetic, files, errors."""

import math
import re

import numpy as np
import pytest

from tfdml import evaluation
from tfdml.evaluation.comparison import intervals

QRELS = {"q1": {"a": 2, "b": 1, "c": 0, "z": 1}, "q2": {"a": 0, "b": 3}}
RUN = {"q1": {"c": 0.9, "a": 0.8, "x": 0.7, "b": 0.6}, "q2": {"a": 0.5, "b": 0.5, "c": 0.5}}
NAMES = ("ndcg@10", "ndcg@2", "ndcg", "map", "map@2", "mrr", "recall@2", "recall@100", "precision@2")


def test_values_of_a_ranking_by_hand():
    """For q1 the relevant ones are at ranks 2 and 4 of R = 3; for q2 equal scores rank c, b, a: rank 2 of R = 1."""
    found = evaluation.compare_runs({"run": RUN}, QRELS, metrics=NAMES)
    gain = 2 / math.log2(3) + 1 / math.log2(5)
    ideal = 2 + 1 / math.log2(3) + 1 / math.log2(4)
    expected = {
        "ndcg@10": (gain / ideal, 1 / math.log2(3)),
        "ndcg@2": (2 / math.log2(3) / (2 + 1 / math.log2(3)), 1 / math.log2(3)),
        "ndcg": (gain / ideal, 1 / math.log2(3)),
        "map": ((1 / 2 + 2 / 4) / 3, 1 / 2),
        "map@2": ((1 / 2) / 3, 1 / 2),
        "mrr": (1 / 2, 1 / 2),
        "recall@2": (1 / 3, 1),
        "recall@100": (2 / 3, 1),
        "precision@2": (1 / 2, 1 / 2),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(found.per_query["run"][name], values, err_msg=name)


def test_ties_are_of_float32_scores():
    run = {"q1": {"a": 0.1, "z": 0.1 + 1e-12}, "q2": {"a": 0.1 + 1e-12, "b": 0.1}}
    found = evaluation.compare_runs({"run": run}, {"q1": {"z": 1}, "q2": {"a": 1}}, metrics=("mrr",))
    assert found.per_query["run"]["mrr"].tolist() == [1, 0.5]  # z before a, and b before a


def test_files_give_what_dicts_give_and_what_is_left_out_is_said(tmp_path):
    lines = [f"{query} Q0 {name} 1 {score} tag" for query, by in RUN.items() for name, score in by.items()]
    (tmp_path / "run").write_text("\n".join([*lines, "", "q9 Q0 a 1 0.5 tag"]))
    grades = [f"{query} 0 {name} {grade}" for query, by in QRELS.items() for name, grade in by.items()]
    (tmp_path / "qrels").write_text("\n".join([*grades, "q3\t0\ta\t1", "q4 0 a 0"]))
    found = evaluation.compare_runs({"file": tmp_path / "run", "dict": RUN}, tmp_path / "qrels")
    assert found.means["file"] == found.means["dict"]
    assert found.per_query["file"]["mrr"].tolist() == [0.5, 0.5, 0]
    assert found.notes == (
        "qrels: 1 queries without a relevant document are left out.",
        "file: 1 queries without judgements are left out.",
        "file: 1 judged queries are missing and count as 0.",
        "dict: 1 judged queries are missing and count as 0.",
    )
    assert found.query_names == {}  # no query differs
    (tmp_path / "out").mkdir()
    page = (found.save(tmp_path / "out") / "index.html").read_text()
    assert found.notes[0] in page


def test_pairs_are_over_queries():
    rng = np.random.default_rng(0)
    qrels = {f"q{i}": {"a": 1} for i in range(12)}
    runs = {
        model: {query: {"a": high, "b": rng.random()} for query in qrels} for model, high in {"x": 2, "y": 0}.items()
    }
    found = evaluation.compare_runs(runs, qrels, metrics=("mrr", "map"), shown=1)
    x, y = (found.per_query[model]["mrr"] for model in "xy")
    assert (x.tolist(), y.tolist()) == ([1.0] * 12, [0.5] * 12)
    (pair,) = found.pairs
    assert pair.comparison == intervals.paired_comparison(x, y, np.arange(12), ("x", "y"), 0.95)
    assert (pair.better, pair.queries, found.query_names) == ("x", (0,), {0: "q0"})
    assert "12 queries; judgements: 12. In %, with [95% interval over queries]." in str(found)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"runs": {}}, "Received no runs, expected at least one."),
        (
            {"runs": {"a": {"q9": {"a": 1}}}},
            "Received runs['a'] without any of the judged queries, expected the ids of",
        ),
        ({"runs": {"a": {"q1": {"a": math.nan}}}}, "runs['a'] with a number of 'a' for 'q1' that is not finite"),
        ({"runs": {"a": {"q1": ["a"]}}}, "Received runs['a']['q1'] that is no dict, expected numbers by document."),
        ({"qrels": {"q1": {"a": 1}}}, "Received qrels with 1 queries that have a relevant document, expected two"),
        ({"metrics": ("map@r",)}, "Received metrics ['map@r'], expected names such as 'ndcg@10'"),
        ({"metrics": "map"}, "Received metrics='map', expected several names"),
        ({"confidence": 1}, "Received confidence=1, expected a number between 0 and 1."),
    ],
)
def test_runs_that_do_not_fit_are_named(changed, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        evaluation.compare_runs(**{"runs": {"a": RUN}, "qrels": QRELS, **changed})


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("q1 Q0 a 1 0.5", "Received run, line 2: 5 words, expected 6: query Q0 document rank score tag."),
        ("q1 Q0 d 1 0.5 tag", "Received run, line 2: 'd' again for 'q1', expected a document once."),
        ("q1 Q0 a 1 high tag", "Received run, line 2: 'high', expected a number: query Q0 document rank score tag."),
    ],
)
def test_a_wrong_line_is_named(line, text, tmp_path):
    (tmp_path / "run").write_text(f"q1 Q0 d 1 0.5 tag\n{line}\n")
    with pytest.raises(ValueError, match=re.escape(text)):
        evaluation.compare_runs({"a": tmp_path / "run"}, QRELS)


SCORES = {"model": list("aaabbb"), "query": list("uvwwvu"), "score": [3, 2, 1, 5, 7, 9]}


def test_scores_are_paired_by_query():
    found = evaluation.compare_scores(SCORES)
    assert {model: values["score"].tolist() for model, values in found.per_query.items()} == {
        "a": [3, 2, 1],
        "b": [9, 7, 5],
    }
    assert (found.means["a"]["score"].value, found.pairs[0].comparison.difference) == (2, -5)
    assert "a      2 [no interval]" in str(found)
    assert "No interval: 3 queries; a 95% interval needs 6." in str(found)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (
            {"query": list("uvwwvx")},
            "Received no score of query 'x' for model 'a', expected each query for each model.",
        ),
        ({"query": list("uuwwvu")}, "Received query 'u' again for model 'a', expected each query once"),
        (
            {"query": list("uvw")},
            "Received columns of lengths {'model': 6, 'query': 3, 'score': 6}, expected one length",
        ),
        ({"score": [1, 2, 3, 4, 5, math.nan]}, "Received score nan of query 'u' for model 'b', expected a number."),
        ({"score": ["high"] * 6}, "Received score 'high' of query 'u' for model 'a', expected a number."),
        (
            {"model": list("abcdef"), "query": ["u"] * 6},
            "Received 1 queries with values of score, expected two queries at least",
        ),
    ],
)
def test_scores_that_do_not_fit_are_named(changed, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        evaluation.compare_scores(SCORES | changed)
    with pytest.raises(ValueError, match=r"a table without \['score'\], expected the columns"):
        evaluation.compare_scores({name: SCORES[name] for name in ("model", "query")})
