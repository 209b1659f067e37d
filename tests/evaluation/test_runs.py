"""Comparison of rankings and of scores: values by hand arithmetic, files, errors."""

import math
import re

import numpy as np
import pytest
from scipy import stats

from tfdml import evaluation, metrics

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
    assert found.pairs[0].queries == ()
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
    assert pair.comparison == metrics.paired_comparison(x, y, np.arange(12), names=("x", "y"))
    assert (pair.better, pair.queries, found.query_names[0]) == ("x", (0,), "q0")
    assert "12 queries; judgements: 12. In %, with [95% interval over queries]." in str(found)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"runs": {}}, "Received no runs, expected at least one."),
        (
            {"runs": {"a": {"q9": {"a": 1}}}},
            "Received runs['a'] without any of the judged queries, expected the ids of",
        ),
        ({"runs": {"a": {"q1": {"a": math.nan}}}}, "runs['a'] with nan of 'a' for 'q1', which float32 does not hold"),
        ({"runs": {"a": {"q1": {"a": 3.5e38}}}}, "runs['a'] with 3.5e+38 of 'a' for 'q1', which float32 does not hold"),
        (
            {"runs": {"a": RUN, "b": {"q1": {"a.jpg": 0.9}, "q2": {"b.jpg": 0.8}}}},
            "Received runs['b'], with 'a.jpg' and no judged document, expected ids such as 'a'.",
        ),
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


def test_ids_hold_every_character_but_blanks_tabs_and_line_breaks(tmp_path):
    names = ["a\u2028b", "a\x85b", "a\x0bb", "a\xa0b", "a\u3000b"]
    text = "".join(f"q{row} Q0\t{name}  1 0.5 tag\r\n" for row, name in enumerate(names))
    (tmp_path / "run").write_bytes(text.encode())
    found = evaluation.compare_runs(
        {"a": tmp_path / "run"}, {f"q{row}": {name: 1} for row, name in enumerate(names)}, metrics=("mrr",)
    )
    assert found.per_query["a"]["mrr"].tolist() == [1] * len(names)


def test_a_file_in_another_encoding_is_named(tmp_path):
    (tmp_path / "run").write_text("q1 Q0 a 1 0.5 tag", encoding="utf-16")
    with pytest.raises(ValueError, match=r"run', which is no text in UTF-8, expected one. Save it as UTF-8"):
        evaluation.compare_runs({"a": tmp_path / "run"}, QRELS)


def test_the_page_shows_the_first_documents_of_both_models_with_their_grades(tmp_path):
    other = RUN | {"q1": {f"<d{number}>": number for number in range(9)}}
    found = evaluation.compare_runs({"x": RUN, "y": other}, QRELS, metrics=("mrr",))
    names = {
        model: [(neighbor.example.name, neighbor.example.class_name, neighbor.relevant) for neighbor in by_row[0]]
        for model, by_row in found.neighbors.items()
    }
    graded = {"c": ("grade 0", False), "a": ("grade 2", True), "x": ("not judged", False), "b": ("grade 1", True)}
    assert names["x"] == [(name, *grade) for name, grade in graded.items()]
    assert names["y"] == [(f"<d{number}>", "not judged", False) for number in (8, 7, 6, 5, 4)]
    page = (found.save(tmp_path / "out") / "index.html").read_text()
    assert page.count("grade 2") == 1
    assert "&lt;d8&gt;" in page


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("q1 Q0 a 1 1_0 tag", "Received run, line 2: '1_0', expected a number: query Q0 document rank score tag."),
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
    assert "\na      2\n" in str(found)
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
        ({"score": [1, 2, 3, 4, 5, 1e308]}, "Received scores of up to 1e+308, expected numbers of up to 1e+150, not"),
        ({"score": [1e-200, 2e-200] * 3}, "Received scores of up to 2e-200, expected numbers of up to 1e+150, not all"),
        ({"score": ["high"] * 6}, "Received score 'high' of query 'u' for model 'a', expected a number."),
        (
            {"model": list("abcdef"), "query": ["u"] * 6},
            "Received values of score for 1 of the queries, expected two queries at least",
        ),
    ],
)
def test_scores_that_do_not_fit_are_named(changed, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        evaluation.compare_scores(SCORES | changed)
    with pytest.raises(ValueError, match=r"a table without \['score'\], expected the columns"):
        evaluation.compare_scores({name: SCORES[name] for name in ("model", "query")})


SEEDS = {"model": list("aaabbbccc"), "seed": [1, 2, 3] * 3, "score": [3.0, 2.0, 1.0, 9.0, 7.0, 5.0, 2.5, 2.0, 2.0]}


def test_seeds_are_compared_by_students_paired_t_test():
    """Of a minus b with differences -6, -5, -4: m = -5, s = 1, t = -8.66 with 2 degrees of freedom, where

    P(|T| >= t) = 1 - t / sqrt(t^2 + 2), and the 0.975 quantile is 4.30265.
    """
    found = evaluation.compare_scores(SEEDS)
    (first, *_), half = found.pairs, 4.30265 / np.sqrt(3)
    assert (first.comparison.names, first.comparison.difference) == (("a", "b"), -5)
    assert (first.comparison.low, first.comparison.high) == pytest.approx((-5 - half, -5 + half), rel=1e-5)
    assert first.comparison.p == pytest.approx(1 - np.sqrt(75 / 77), rel=1e-6)
    assert found.means["a"]["score"][:3] == pytest.approx((2, 2 - half, 2 + half), rel=1e-5)
    corrected = metrics.holm_correction([pair.comparison.p for pair in found.pairs])
    assert [pair.corrected for pair in found.pairs] == corrected.tolist()
    assert first.better == "b"
    assert "3 seeds. With [95% interval over seeds]." in str(found)
    assert "score, differences of the same seeds" in str(found)


def test_a_comparison_with_one_model_has_its_pairs_only():
    found = evaluation.compare_scores(SEEDS, against="b")
    assert [pair.comparison.names for pair in found.pairs] == [("a", "b"), ("c", "b")]
    p_values = [stats.ttest_rel(SEEDS["score"][start : start + 3], SEEDS["score"][3:6]).pvalue for start in (0, 6)]
    assert [pair.corrected for pair in found.pairs] == pytest.approx(sorted([2 * min(p_values), max(p_values)]))
    assert evaluation.compare_scores(SCORES, against="a").pairs[0].comparison.difference == 5
    assert evaluation.compare_runs({"a": RUN, "b": RUN, "c": RUN}, QRELS, against="b").pairs[1].comparison.names == (
        "c",
        "b",
    )
    with pytest.raises(ValueError, match=re.escape("Received against='d', expected one of a, b, c, or None.")):
        evaluation.compare_scores(SEEDS, against="d")


def test_equal_scores_of_seeds_are_not_told_apart(tmp_path):
    found = evaluation.compare_scores({"model": list("aabb"), "seed": [1, 2, 1, 2], "score": [1, 2, 3, 4]})
    assert (found.pairs[0].comparison.p, found.pairs[0].better) == (1, "")
    page = (found.save(tmp_path / "out") / "index.html").read_text()
    assert "<h2>Pairs</h2>" in page
    assert "Queries" not in page
    with pytest.raises(ValueError, match=r"Received values of score for 1 of the seeds, expected two seeds at least"):
        evaluation.compare_scores({"model": ["a", "b"], "seed": [1, 1], "score": [1, 2]})
