"""Comparison of rankings with judgements, and of scores that another tool measured."""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfdml._core.checks import require
from tfdml.evaluation.details.records import Example, Neighbor
from tfdml.evaluation.record import Evaluation
from tfdml.evaluation.statistics import (
    Measurements,
    as_number,
    compared,
    require_against,
    require_names,
    require_options,
    require_squares,
)
from tfdml.typing import FilePath

_NAME = re.compile(r"(recall|precision|ndcg|map)@([1-9][0-9]*)|map|mrr|ndcg")
_SHOWN = 5  # documents of a query on the page
_LARGEST = float(np.finfo(np.float32).max)
_LINES = {"run": (6, 4, "query Q0 document rank score tag"), "qrels": (4, 3, "query 0 document grade")}


def compare_runs(
    runs: Mapping[str, FilePath | Mapping[str, Mapping[str, float]]],
    qrels: FilePath | Mapping[str, Mapping[str, int]],
    *,
    metrics: Sequence[str] = ("ndcg@10", "map", "mrr", "recall@100"),
    against: str | None = None,
    confidence: float = 0.95,
    shown: int = 5,
) -> Evaluation:
    """Compare rankings of documents by judgements, with the statistics and the page of `compare` over queries.

    As trec_eval: documents rank by their score as float32, equal scores by id, descending; a document without a
    judgement is not relevant. With R documents of a grade above 0, and the ranks of those among them that a query
    found,

        recall@k = #{rank <= k} / R             precision@k = #{rank <= k} / k       mrr = 1 / the first rank, or 0
        map = 1/R sum_i i / rank_i              map@k = the same for ranks up to k
        ndcg@k = sum_{rank <= k} grade / log2(rank + 1), divided by its highest value; ndcg without k takes all ranks

    This recall@k is not the one of `tfdml.metrics.retrieval`: that asks for one relevant item. A judged query that is
    missing from a run has 0 in all metrics; a query of a run without a relevant document is left out; notes say both.

    Example: the relevant document is first in one run, and second in the other, for each of two queries.

        >>> qrels = {"q1": {"d1": 1}, "q2": {"d2": 1}}
        >>> runs = {"bm25": {"q1": {"d1": 0.3, "d2": 0.9}, "q2": {"d1": 0.7, "d2": 0.1}}}
        >>> runs["dense"] = {"q1": {"d1": 0.9, "d2": 0.3}, "q2": {"d1": 0.1, "d2": 0.7}}
        >>> comparison = tfdml.evaluation.compare_runs(runs, qrels, metrics=("mrr",))
        >>> {name: means["mrr"].value for name, means in comparison.means.items()}
        {'bm25': 0.5, 'dense': 1.0}

    Args:
        runs: by the name of the model a file in TREC form, or dicts `{query: {document: score}}`.
        qrels: a file in TREC form, or dicts `{query: {document: grade}}`; grades up to 0 are not relevant.
        metrics: the first one is the main metric.
        against, confidence, shown: as in `compare`.

    Raises:
        ValueError: a line of another form, a document twice for one query, a score that is not finite, a run without
            any of the judged queries.

    Source: trec_eval 9.0 (NIST) for the definitions; Järvelin and Kekäläinen, Cumulated Gain-based Evaluation of IR
    Techniques, ACM TOIS, 2002.
    """
    require(not isinstance(metrics, str) and len(metrics) > 0, f"metrics={metrics!r}", 'several names: ("map",)')
    unknown = [name for name in metrics if not _NAME.fullmatch(name)]
    expected = "'ndcg@10', 'recall@100', 'precision@10', 'map@10', 'map', 'mrr' and 'ndcg'"
    require(not unknown, f"metrics {unknown}", f"names such as {expected}")
    require_options(confidence, shown)
    require_names(runs, "runs")
    require_against(against, runs)
    judged = _as_dicts(qrels, "qrels", "qrels")
    relevant = {query: grades for query, grades in judged.items() if max(grades.values(), default=0) > 0}
    require(len(relevant) > 1, f"qrels with {len(relevant)} queries that have a relevant document", "two at least")
    notes = _note("qrels", len(judged) - len(relevant), "queries without a relevant document are left out")
    judgements = {document for grades in judged.values() for document in grades}
    values: dict[str, dict[str, np.ndarray]] = {}
    first: dict[str, list[list[tuple[str, float]]]] = {}
    for name in runs:
        run = _as_dicts(runs[name], "run", f"runs[{name!r}]")
        require(bool(run.keys() & relevant), f"runs[{name!r}] without any of the judged queries", "the ids of qrels")
        notes += _note(name, len(run.keys() - judged.keys()), "queries without judgements are left out")
        notes += _note(name, len(relevant.keys() - run.keys()), "judged queries are missing and count as 0")
        documents = {document for ranking in run.values() for document in ranking}
        if documents.isdisjoint(judgements):
            example, judged_one = (min(map(str, each), default="") for each in (documents, judgements))
            require(False, f"runs[{name!r}], with {example!r} and no judged document", f"ids such as {judged_one!r}")
        rankings = {query: _ranking(run.get(query, {})) for query in relevant}
        rows = [_measured(ranking, relevant[query], metrics) for query, ranking in rankings.items()]
        values[name] = dict(zip(metrics, np.array(rows).T, strict=True))
        first[name] = [
            [(document, run[query][document]) for document in ranking[:_SHOWN]] for query, ranking in rankings.items()
        ]
    queries = list(relevant)
    evaluation = compared(
        Measurements(values, np.arange(len(queries)), "queries", np.array(queries)),
        groups={},
        confidence=confidence,
        shown=shown,
        against=against,
        notes=tuple(notes),
        facts={"judgements": f"{sum(map(len, relevant.values())):,}"},
    )
    neighbors = {
        name: {row: _neighbors(ranked[row], relevant[queries[row]]) for row in evaluation.query_names}
        for name, ranked in first.items()
    }
    return dataclasses.replace(evaluation, neighbors=neighbors)


def _neighbors(documents, grades):
    """The first documents of a query, as the page shows them."""
    grades_of = ((document, score, grades.get(document)) for document, score in documents)
    return tuple(
        Neighbor(Example(rank, document, "not judged" if grade is None else f"grade {grade}"), score, (grade or 0) > 0)
        for rank, (document, score, grade) in enumerate(grades_of)
    )


def _note(name, number, text):
    return [f"{name}: {number:,} {text}."] if number else []


def _ranking(scores):
    return sorted(scores, key=lambda document: (np.float32(scores[document]), document), reverse=True)


def _measured(ranking, grades, names):
    gains = np.array([max(grades.get(document, 0), 0) for document in ranking], np.float64)
    ranks = np.flatnonzero(gains) + 1
    ideal = np.sort([grade for grade in grades.values() if grade > 0])[::-1]
    return [_value(*name.partition("@")[::2], gains, ranks, ideal) for name in names]


def _value(measure, cutoff, gains, ranks, ideal):
    """A metric of one query; `ranks` of the relevant documents are from 1, and `cutoff` is a text or empty."""
    k = int(cutoff) if cutoff else math.inf
    first = ranks[ranks <= k]
    if measure == "recall":
        return len(first) / len(ideal)
    if measure == "precision":
        return len(first) / k
    if measure == "map":
        return (np.arange(1, len(first) + 1) / first).sum() / len(ideal)
    if measure == "mrr":
        return 1 / first[0] if len(first) else 0.0
    return _gain(gains, k) / _gain(ideal, k)


def _gain(grades, k):
    first = grades[: min(k, len(grades))]
    return (first / np.log2(np.arange(len(first)) + 2)).sum()


def _as_dicts(source, kind, argument):
    numbers = source if isinstance(source, Mapping) else _read(Path(source).expanduser(), kind)
    for query, by_document in numbers.items():
        require(isinstance(by_document, Mapping), f"{argument}[{query!r}] that is no dict", "numbers by document")
        wrong = next((document for document, x in by_document.items() if not abs(x) <= _LARGEST), None)
        received = f"{argument} with {by_document.get(wrong)} of {wrong!r} for {query!r}, which float32 does not hold"
        require(wrong is None, received, f"finite numbers of up to {_LARGEST:.2g}, which rank as in trec_eval")
    return numbers


def _read(path, kind):
    numbers: dict[str, dict[str, float]] = {}
    try:
        with path.open(encoding="utf-8-sig") as file:
            for line, text in enumerate(file, 1):
                _add(numbers, re.findall(r"[^ \t\n]+", text), kind, f"{path.name}, line {line}: ")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Received {str(path)!r}, which is no text in UTF-8, expected one. Save it as UTF-8."
        ) from error
    return numbers


def _add(numbers, words, kind, where):
    """Add a line of a file, of words between blanks or tabs, to the numbers by query and document."""
    length, column, form = _LINES[kind]
    require(len(words) in (0, length), f"{where}{len(words)} words", f"{length}: {form}")
    if words:
        query, document, value = words[0], words[2], as_number(words[column])
        require(document not in numbers.get(query, {}), f"{where}{document!r} again for {query!r}", "a document once")
        require(math.isfinite(value), f"{where}{words[column]!r}", f"a number: {form}")
        numbers.setdefault(query, {})[document] = value


def compare_scores(
    table: Mapping[str, Sequence[Any]], *, against: str | None = None, confidence: float = 0.95, shown: int = 5
) -> Evaluation:
    """Compare models by scores that any tool measured, with the statistics and the page of `compare`.

    With a column "query", the intervals are over queries. With a column "seed", models are methods that were trained
    with the same seeds, and a score is the one of a training run: intervals are by `tfdml.metrics.seed_interval`, and p
    is the two-sided one of Student's paired t-test, without the lower bound 2 / 2^seeds of a test by signs. Higher is
    better.

    Example: six queries; `b` is worse at each.

        >>> table = {"model": ["a"] * 6 + ["b"] * 6, "query": 2 * list("uvwxyz")}
        >>> table["score"] = [0.9, 0.8, 0.7, 0.9, 0.8, 0.9, 0.5, 0.6, 0.5, 0.7, 0.6, 0.5]
        >>> comparison = tfdml.evaluation.compare_scores(table)
        >>> float(comparison.pairs[0].comparison.p), comparison.pairs[0].better
        (0.03125, 'a')

    Args:
        table: columns "model", "query" or "seed", and "score" of one length, such as a `pandas.DataFrame`.
        against, confidence, shown: as in `compare`.

    Raises:
        ValueError: a missing column; a score that is not finite; a query twice or missing for a model; one query.

    Source: Student, The Probable Error of a Mean, Biometrika, 1908.
    """
    require_options(confidence, shown)
    unit = "seed" if "seed" in table and "query" not in table else "query"
    missing = [name for name in ("model", unit, "score") if name not in table]
    require(not missing, f"a table without {missing}", "the columns 'model', 'query' or 'seed', and 'score'")
    models, units = ([str(value) for value in table[name]] for name in ("model", unit))
    scores = _scores_by_model(models, units, table["score"], unit)
    require_against(against, scores)
    names = list(dict.fromkeys(name for by_unit in scores.values() for name in by_unit))
    for model, by_unit in scores.items():
        without = next((name for name in names if name not in by_unit), None)
        require(without is None, f"no score of {unit} {without!r} for model {model!r}", f"each {unit} for each model")
    values = {model: {"score": np.array([by_unit[name] for name in names])} for model, by_unit in scores.items()}
    return compared(
        Measurements(values, np.arange(len(names)), "seeds" if unit == "seed" else "queries", np.array(names)),
        groups={},
        confidence=confidence,
        shown=shown,
        against=against,
        scale=1,
    )


def _scores_by_model(models, units, scores, unit):
    """The scores of three columns as dicts of the name of a query or seed to its score, by model."""
    lengths = {"model": len(models), unit: len(units), "score": len(scores)}
    require(len(set(lengths.values())) == 1 and len(models) > 0, f"columns of lengths {lengths}", "one length")
    by_model: dict[str, dict[str, float]] = {}
    for model, name, score in zip(models, units, scores, strict=True):
        by_unit = by_model.setdefault(model, {})
        require(name not in by_unit, f"{unit} {name!r} again for model {model!r}", f"each {unit} once for each model")
        by_unit[name] = as_number(score)
        require(math.isfinite(by_unit[name]), f"score {score!r} of {unit} {name!r} for model {model!r}", "a number")
    require_squares(np.array([score for by_unit in by_model.values() for score in by_unit.values()]), "scores")
    return by_model
