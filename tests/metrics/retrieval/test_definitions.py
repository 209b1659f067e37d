"""All numbers of `retrieval` are those of their definitions: one law over random searches of few vectors."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.oracles import number_of, rankings_of, scores_of
from tfdml.metrics import retrieval
from tfdml.metrics.retrieval import ranks

METRICS = ("cosine", "dot", "euclidean")
ALWAYS = ("precision@1", "r_precision", "map@r", "map", "mrr")
EXTRA = ("precision@3", "ndcg@4", "map@6")


def shared_tags(a, b):
    """Grades: how many tags two examples share."""
    return a.astype("float32") @ b.T.astype("float32")


def drawn(rng, kind):
    """A search: the arguments of `retrieval`, the scores and grades of its pairs, and who is a candidate.

    One set, one set with flags, or queries and a gallery; with or without groups. Dot products and distances are those
    of whole numbers, some of them far from 0, so that many are equal.
    """
    metric, ties = METRICS[rng.integers(3)], "index" if kind == "lists" else ["index", "expected"][rng.integers(2)]
    form = rng.choice(["one set", "gallery", "flags"] if kind != "lists" else ["one set", "gallery"])
    few = 6 if ties == "expected" else int(rng.integers(6, 30))  # all orders of equal scores are counted
    count, items = int(rng.integers(3, 14)) if form == "gallery" else few + (form != "gallery"), few
    total = count + items * (form == "gallery")
    if metric == "cosine":
        x = rng.normal(size=(total, 3))
    else:
        x = rng.integers(-3, 4, (total, 2)) + int(rng.choice([0, 10**6 if metric == "euclidean" else 100]))
    classes = rng.integers(0, rng.integers(2, 6), total)
    classes[:2], tags = [0, 1], rng.random((total, 4)) < 0.3
    groups = rng.integers(0, 5, total) if rng.random() < 0.5 else None
    q, g = np.arange(count), np.arange(count, total) if form == "gallery" else np.arange(count)
    offset, dtype = [(0, "int8"), (-9, "int64"), (2**62, "int64"), (2**62, "uint64")][rng.integers(4)]
    labels = tags if kind == "tags" else (classes + offset).astype(dtype)
    options = {"metric": metric, "ties": ties}
    if form == "flags":
        flags = rng.random(total) < 0.7, rng.permutation(total) < few
        options |= {"queries": flags[0] | (q < 2), "in_gallery": flags[1]}
        q, g = np.flatnonzero(options["queries"]), np.flatnonzero(flags[1])
    if form == "gallery":
        options |= {"gallery": x[g], "gallery_labels": labels[g]}
    if groups is not None:
        options |= {"groups": groups[q] if form == "gallery" else groups}
        options |= {"gallery_groups": groups[g]} if form == "gallery" else {}
    if kind in ("tags", "function"):
        options["match"] = shared_tags if kind == "tags" else lambda a, b: a[:, None] == b
    grades = shared_tags(tags, tags) if kind == "tags" else classes[:, None] == classes
    out = np.equal.outer(np.arange(total), np.arange(total)) if groups is None else np.equal.outer(groups, groups)
    rows = slice(None) if form == "flags" else q
    return SimpleNamespace(
        x=x[rows],
        labels=labels[rows],
        options=options,
        classes=classes[q],
        scores=scores_of(x[q], x[g], metric),
        grades=grades[np.ix_(q, g)],
        is_candidate=~out[np.ix_(q, g)],
    )


def expected(search, names):
    """The numbers of each query, by loops: a dict of arrays."""
    found = []
    for scores, grades, is_candidate in zip(search.scores, search.grades, search.is_candidate, strict=True):
        rankings = rankings_of(scores, np.flatnonzero(is_candidate), search.options["ties"])
        found.append([np.mean([number_of(name, [grades[j] for j in each]) for each in rankings]) for name in names])
    return dict(zip(names, np.transpose(found), strict=True))


def require_numbers(found, numbers):
    assert list(found)[: len(numbers)] == list(numbers)
    for name, values in numbers.items():
        np.testing.assert_allclose(found[name], values, rtol=0, atol=1e-12, err_msg=name)


def means(numbers, classes, average):
    """The mean over the queries with a relevant item, or over the means of their classes."""
    is_used = ~np.isnan(numbers["mrr"])
    groups = [is_used] if average == "micro" else [is_used & (classes == c) for c in np.unique(classes[is_used])]
    return {name: np.mean([values[group].mean() for group in groups]) for name, values in numbers.items()}


@pytest.mark.filterwarnings("ignore:For .* of the queries the first relevant item ties")
@pytest.mark.parametrize("kind", ["tile", "sort", "count", "function", "tags", "lists"])
def test_all_numbers_are_those_of_the_definitions(kind, monkeypatch):
    if kind in ("tile", "sort", "count"):
        monkeypatch.setattr(ranks, "_fastest_method", lambda *arguments: getattr(ranks, kind))
    for seed in range(40):
        rng = np.random.default_rng(seed)
        search = drawn(rng, kind)
        k = sorted({1, int(rng.integers(1, 5))})
        names = [*(f"recall@{rank}" for rank in k), *EXTRA, *ALWAYS]
        options = {"k": k, "extra": EXTRA, **search.options}
        numbers = expected(search, dict.fromkeys(names))
        if kind == "lists":
            options["neighbors"] = np.argsort(-search.scores, axis=1, kind="stable")
            options = {name: value for name, value in options.items() if name not in ("gallery", "metric")}
            del numbers["map"]
        x = None if kind == "lists" else search.x
        if np.isnan(numbers["mrr"]).all():
            with pytest.raises(ValueError, match=r"None of the \d+ queries has a relevant item"):
                retrieval(x, search.labels, **options)
            continue
        require_numbers(retrieval(x, search.labels, per_query=True, **options), numbers)
        average = "macro" if kind not in ("function", "tags") and rng.random() < 0.5 else "micro"
        found = retrieval(x, search.labels, average=average, **options)
        require_numbers(found, means(numbers, search.classes, average))
        skipped = np.isnan(numbers["mrr"]).sum()
        assert (found["queries"], found["skipped"]) == (len(search.classes) - skipped, skipped)
        top = retrieval(x, search.labels, average=average, full_map=False, **options)
        assert top == {name: value for name, value in found.items() if name != "map"}
