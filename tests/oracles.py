"""Unit vectors, scores, rankings and their numbers from the definitions, in float64."""

import itertools
import math

import numpy as np


def unit(x):
    """`(n, dim)`: each row divided by its length."""
    x = np.asarray(x, np.float64)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def scores_of(queries, gallery, metric="cosine"):
    """`(q, n)`: cosine, product or negative distance, each from its two vectors alone, so that equal ones are ties."""
    q, g = np.asarray(queries, np.float64), np.asarray(gallery, np.float64)
    if metric == "euclidean":
        return -np.linalg.norm(q[:, None] - g, axis=2)
    if metric == "cosine":
        q, g = unit(q), unit(g)
    return np.einsum("qd,nd->qn", q, g)


def rankings_of(scores, candidates, ties="index"):
    """Lists of the candidates of a query, the highest score first: equal ones in their order, or in each of their
    orders where `ties` is "expected".
    """
    ranking = sorted(candidates, key=lambda j: (-scores[j], j))
    equal = [list(items) for _, items in itertools.groupby(ranking, key=lambda j: scores[j])]
    orders = [itertools.permutations(items) if ties == "expected" else [items] for items in equal]
    return [[*itertools.chain(*order)] for order in itertools.product(*orders)]


def number_of(name, grades):
    """A number of one ranking of grades by its definition, such as "map@5"; NaN where no item is relevant."""
    relevance = [int(grade > 0) for grade in grades]
    total = sum(relevance)
    if not total:
        return math.nan
    precision = [found / place for place, found in enumerate(itertools.accumulate(relevance), 1)]
    kind, _, text = name.partition("@")
    k = {"": len(grades), "r": total}.get(text) or int(text)
    if kind in ("recall", "cmc"):
        return float(any(relevance[:k]))
    if kind == "precision":
        return sum(relevance[:k]) / k
    if kind == "r_precision":
        return precision[total - 1]
    if kind == "map":
        return sum(p * r for p, r in zip(precision[:k], relevance[:k], strict=True)) / total
    if kind == "mrr":
        return 1 / (1 + relevance.index(1))
    orders = (grades, sorted(grades, reverse=True))
    gain, best = (sum(float(x) / math.log2(i + 2) for i, x in enumerate(order[:k])) for order in orders)
    return gain / best  # ndcg


def item_scores(scores, items, best=1):
    """Of each item, the score of its nearest vector, and the mean of its `best` scores: two dicts."""
    ordered = {item: sorted(scores[items == item], reverse=True) for item in set(items)}
    return (
        {item: values[0] for item, values in ordered.items()},
        {item: float(np.mean(values[:best])) for item, values in ordered.items()},
    )
