"""An index is a list: after each of many random changes it holds and finds what a loop over the list finds."""

import functools

import numpy as np
import pyarrow.compute as pc
import pytest

from tests.oracles import item_scores, scores_of, unit
from tests.search.test_search import KINDS, METRICS, build
from tfdml import search

DIM, STEPS = 5, 12
QUERIES = np.random.default_rng(1).normal(size=(6, DIM)).astype("float32")


class Program:
    """An index, and the items that it should hold, in order: id, vector, product and price."""

    def __init__(self, kind, seed, folder):
        self.rng, self.folder = np.random.default_rng(seed), folder / "index"
        self.metric, self.is_text = METRICS[seed % 3], seed // 3 % 2
        self.places = [[0, 0], [0, 1e6], [1e6, 0]][seed // 3 % 3] if self.metric == "euclidean" else [0, 0]
        self.count, self.held = 0, []
        self.held = self.new(self.rng.integers(1, 30))
        ids, vectors, table = columns(self.held)
        self.index = build(kind, vectors, ids, metric=self.metric, metadata=table)

    def draw(self, count):
        """Vectors, of which some are equal, products and prices."""
        place = self.places[0] if not self.held else self.rng.choice(self.places)
        vectors = (self.rng.normal(size=(count, DIM)) + place).astype("float32")
        vectors[self.rng.random(count) < 0.2] = vectors[0]
        return [(vector, f"p{self.rng.zipf(1.5) % 9}", int(self.rng.integers(5))) for vector in vectors]

    def new(self, count):
        """Items with ids that are not held, in no order: some are ids that were removed."""
        spare = [number for number in range(self.count + 2 * count) if self.id(number) not in self.ids]
        self.count += 2 * count
        numbers = self.rng.permutation(spare)[:count]
        return [(self.id(number), *rest) for number, rest in zip(numbers, self.draw(count), strict=True)]

    def id(self, number):
        """Text that later ids begin with, or whole numbers of any size."""
        return "ä" * int(number + 1) if self.is_text else int((-1) ** number * number * 10**15)

    @property
    def ids(self):
        return [item[0] for item in self.held]

    def some(self, most):
        """Up to `most` items that are held, in any order."""
        return [self.held[i] for i in self.rng.permutation(len(self.held))[: self.rng.integers(0, most + 1)]]

    def without(self, items):
        gone = {item[0] for item in items}
        return [item for item in self.held if item[0] not in gone]


def columns(items):
    """Ids, vectors and metadata of items."""
    ids, vectors, products, prices = map(list, zip(*items, strict=True))
    return np.array(ids), np.array(vectors), {"product": products, "price": prices}


def add(program):
    items = program.new(program.rng.integers(1, 12))
    ids, vectors, table = columns(items)
    program.index.add(vectors, ids, metadata=dict(reversed(table.items())))
    program.held += items


def remove(program):
    items = program.some(len(program.held) - 1)
    program.index.remove([item[0] for item in items])
    program.held = program.without(items)
    for item in items[:2]:
        with pytest.raises(ValueError, match="1 ids that are not in the index, such as"):
            program.index.rows([item[0]])


def update(program):
    """Vectors, metadata or both of some items, which move to the end."""
    old = program.some(7)
    others = program.draw(len(old)) if old else []
    has_vectors, has_table = [(True, False), (False, True), (True, True), (False, False)][program.rng.integers(4)]
    moved = [
        (item[0], (other if has_vectors else item[1:])[0], *(other if has_table else item[1:])[1:])
        for item, other in zip(old, others, strict=True)
    ]
    ids, vectors, table = columns(moved) if moved else ([], np.zeros((0, DIM)), None)
    program.index.update(ids, vectors if has_vectors else None, metadata=table if has_table else None)
    program.held = program.without(old) + moved


def save_and_load(program):
    program.index.save(program.folder)
    program.index = search.load(program.folder)


def rebuild(program):
    program.index.rebuild()
    assert len(program.index._items.segments) == 1


def refuse(program):
    """Ids that are not there, not new or of the other kind, and the removal of all change nothing."""
    index, gone, other = program.index, program.new(1)[0][0], "p" if not program.is_text else 5
    table = {"product": ["p"], "price": [1]}
    for wrong in (
        lambda: index.remove([gone]),
        lambda: index.remove([program.ids[0], gone]),
        lambda: index.rows([gone]),
        lambda: index.update([gone], QUERIES[:1]),
        lambda: index.update(program.ids[:1], QUERIES[:2]),
        lambda: index.update(program.ids[:1], QUERIES[:1, :2]),
        lambda: index.update(program.ids[:1], metadata={"price": [1]}),
        lambda: index.remove([other]),
        lambda: index.remove(program.ids),
        lambda: index.remove(program.ids[:1] * 2),
        lambda: index.add(QUERIES[:1], program.ids[-1:], metadata=table),
        lambda: index.add(QUERIES[:1], [other], metadata=table),
        lambda: index.add(QUERIES[:1] * np.nan, [gone], metadata=table),
        lambda: index.add(QUERIES[:1], [gone]),
        lambda: index.add(QUERIES[:1], None, metadata=table),
        lambda: index.add(QUERIES[:0], [], metadata=table),
        lambda: index.add(QUERIES[:1, :2], [gone], metadata=table),
        lambda: index.add(QUERIES[:2], [gone, gone], metadata={"product": ["p", "p"], "price": [1, 1]}),
        lambda: index.add(QUERIES[:2], [gone], metadata=table),
        lambda: index.add(QUERIES[:1], [gone], metadata={"price": [1]}),
        lambda: index.add(QUERIES[:1], [gone], metadata=table | {"price": ["x"]}),
        lambda: index.add(QUERIES[:1], [gone], metadata=table | {"price": [1, 2]}),
        lambda: index.add(QUERIES[:1], [gone], metadata=5),
        lambda: index.search(QUERIES, 1, where=np.ones(len(index), int)),
        lambda: index.search(QUERIES, 1, where=pc.field("cost") < 3),
        lambda: index.search(QUERIES, 1, where=pc.field("price") + 3),
        lambda: index.search(QUERIES, len(index) + 1),
        lambda: index.search(QUERIES, 1, where=np.zeros(len(index), bool)),
        lambda: index.search(QUERIES, 1, where=np.ones(len(index) + 1, bool)),
    ):
        with pytest.raises(ValueError, match=r"^Received .*expected|^Received .*\. \w+"):
            wrong()


RULES = (add, add, remove, update, update, save_and_load, rebuild, refuse)


def assert_same(program):
    """The index holds the list, and finds what loops over the list find, with each form of a filter."""
    index, (ids, vectors, table) = program.index, columns(program.held)
    prices = np.array(table["price"])
    assert (len(index), index.ids.tolist(), index.metadata.to_pydict()) == (len(ids), ids.tolist(), table)
    np.testing.assert_array_equal(index.rows(ids[::-1]), np.arange(len(ids))[::-1])
    if program.metric == "cosine":
        np.testing.assert_allclose(index.vectors, unit(vectors), rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(index.vectors, vectors)
    filters = [(None, prices >= 0), (prices > 2, prices > 2), (pc.field("price") == 1, prices == 1)]
    for where, mask in [*filters, ({"price": [0, 3]}, np.isin(prices, [0, 3]))]:
        assert index.count(where) == mask.sum()
        if mask.any():
            k = int(program.rng.integers(1, mask.sum() + 1))
            assert_finds(program, index, np.flatnonzero(mask), index.search(QUERIES, k, where=where))
            assert_finds_items(program, index, np.flatnonzero(mask), where)


def close(program):
    """A comparison of scores: to the last digits of float32 for distances, which may be of vectors far from 0."""
    rtol, atol = (2e-7, 0) if program.metric == "euclidean" else (1e-4, 1e-5)
    return functools.partial(np.testing.assert_allclose, rtol=rtol, atol=atol)


def oracle(program):
    """Scores of the queries in float64, larger ones nearer."""
    return scores_of(QUERIES, columns(program.held)[1], program.metric)


def assert_finds(program, index, rows, results):
    ids, scores = results
    sign, expected = -1 if program.metric == "euclidean" else 1, oracle(program)
    found = index.rows(ids)
    assert scores.dtype == np.float32
    assert np.isin(found, rows).all()
    assert all(len(set(row)) == len(row) for row in found)
    close(program)(sign * scores, -np.sort(-expected[:, rows], axis=1)[:, : scores.shape[1]])
    close(program)(sign * scores, np.take_along_axis(expected, found, axis=1))
    equal = scores[:, 1:] == scores[:, :-1]
    assert (found[:, 1:] > found[:, :-1])[equal].all() or index.kind == "scann"


def assert_finds_items(program, index, rows, where):
    """Each product once, by the mean of its best scores, with the id of its nearest vector."""
    products, sign = np.array([item[2] for item in program.held]), -1 if program.metric == "euclidean" else 1
    best, k = int(program.rng.integers(1, 4)), index.count(where, "product")
    assert k == len(set(products[rows]))
    ids, scores = index.search(QUERIES, k, where=where, items="product", best=best)
    found = index.rows(ids)
    for near, values, expected in zip(found, scores, oracle(program), strict=True):
        nearest, means = item_scores(expected[rows], products[rows], best)
        assert set(products[near]) == set(products[rows])
        close(program)(sign * values, [means[product] for product in products[near]])
        close(program)(sign * values, sorted(means.values(), reverse=True))
        close(program)(expected[near], [nearest[product] for product in products[near]])


@pytest.mark.parametrize(
    ("kind", "seed"), [(kind, seed) for kind in KINDS for seed in range(18 if kind == "exact" else 9)]
)
def test_a_program_of_changes_leaves_what_a_list_holds(kind, seed, tmp_path):
    program = Program(kind, seed, tmp_path)
    for step in program.rng.integers(len(RULES), size=STEPS):
        RULES[step](program)
        assert_same(program)
    if kind == "exact" and program.metric != "euclidean":
        ids, vectors, _ = columns(program.held)
        whole = search.Exact(vectors, ids, metric=program.metric)
        for one, other in zip(whole.search(QUERIES, len(ids)), program.index.search(QUERIES, len(ids)), strict=True):
            np.testing.assert_array_equal(one, other)
