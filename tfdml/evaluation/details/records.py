"""Curves and examples of the evaluation of one model."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Curve(NamedTuple):
    """Points of a curve: two float arrays `(points,)`."""

    x: np.ndarray
    y: np.ndarray


class Similarities(NamedTuple):
    """Numbers of positive and of negative pairs `(bins,)` between `edges` of cosine similarity `(bins + 1,)`."""

    edges: np.ndarray
    positive: np.ndarray
    negative: np.ndarray


class Example(NamedTuple):
    """An example of a set: its row, its file (the row as text for other sets), and the name of its class."""

    row: int
    name: str
    class_name: str


class Neighbor(NamedTuple):
    """An item of the gallery, its similarity to the query, and whether it has the class of the query."""

    example: Example
    similarity: float
    relevant: bool


class HardQuery(NamedTuple):
    """A query, the rank of its first relevant item, and its nearest neighbors."""

    query: Example
    rank: int
    neighbors: tuple[Neighbor, ...]


class Confusion(NamedTuple):
    """Queries of a class whose first neighbor has the class `other`: their number, and the number of all queries."""

    class_name: str
    other: str
    errors: int
    queries: int


class NearDuplicate(NamedTuple):
    """A query and its nearest neighbor, one of the nearest pairs of the set."""

    query: Example
    neighbor: Neighbor


class LabelSuspect(NamedTuple):
    """A query whose first `agreeing` neighbors all have the class `suggested`, another class than the query."""

    query: Example
    suggested: str
    agreeing: int
    neighbors: tuple[Neighbor, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Details:
    """Curves and examples of one model; see docs/evaluation.md.

    Attributes:
        recall: `Curve` of Recall@k over k, up to the size of the gallery.
        precision_recall: `Curve` of the interpolated precision over recall, the mean over `curve_queries` queries.
        curve_queries: number of queries of `precision_recall`, drawn at random where the set has more.
        similarities: `Similarities` of positive and negative pairs.
        hardest: the queries whose first relevant item ranks last, hardest first; if it ranks first for all queries, the
            queries least similar to it.
        confusions: the pairs of classes with the largest numbers of wrong first neighbors.
        near_duplicates: the nearest pairs of a query and an item, nearest first.
        label_suspects: queries whose first neighbors agree on another class, most neighbors first.
        suspects: number of all label suspects; `label_suspects` are the first ones.
    """

    recall: Curve
    precision_recall: Curve
    curve_queries: int
    similarities: Similarities
    hardest: tuple[HardQuery, ...]
    confusions: tuple[Confusion, ...]
    near_duplicates: tuple[NearDuplicate, ...]
    label_suspects: tuple[LabelSuspect, ...]
    suspects: int
