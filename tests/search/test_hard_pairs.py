"""The hardest pairs of a whole set are those that loops over all of it find, in bounded memory."""

import functools
import tracemalloc

import numpy as np
import pytest

from tests.oracles import scores_of
from tests.search.products import unsteady
from tfdml import search
from tfdml.search import blocks, hard_pairs, scores
from tfdml.search.hard_pairs import hardest_pairs, hardest_triplets

METRICS = ("cosine", "dot", "euclidean")
LABELS = np.random.default_rng(0).permutation(np.repeat([-(2**62), 3, 7, 2**62, 2**62 + 1], [60, 1, 2, 30, 9]))


def embedded(spread, labels=LABELS, dim=6, seed=1):
    """Embeddings around one point a class: with little spread the neighbors of an example are of its own class."""
    generator = np.random.default_rng(seed)
    classes = np.unique(labels, return_inverse=True)[1]
    points = generator.standard_normal((classes.max() + 1, dim))
    return (points[classes] + spread * generator.standard_normal((len(labels), dim))).astype("float32")


def distances(x, metric):
    """`(examples, examples)` distances in float64."""
    return (metric == "cosine") - scores_of(x, x, metric)


def by_loops(x, labels, positives, negatives, metric):
    """The rows of `hardest_pairs`."""
    d = distances(x, metric)
    found = np.full((len(x), positives), -1), np.full((len(x), negatives), -1)
    for a in range(len(x)):
        same = [j for j in range(len(x)) if labels[j] == labels[a] and j != a]
        others = [j for j in range(len(x)) if labels[j] != labels[a]]
        for k, row in enumerate(sorted(same, key=lambda j: -d[a, j])[:positives]):
            found[0][a, k] = row
        for k, row in enumerate(sorted(others, key=lambda j: d[a, j])[:negatives]):
            found[1][a, k] = row
    return found


def assert_those_of_loops(found, x, labels, metric):
    expected = by_loops(x, labels, found.positives.shape[1], found.negatives.shape[1], metric)
    for rows, right in zip(found, expected, strict=True):
        assert rows.dtype == np.int64
        np.testing.assert_array_equal(rows, right)


class Index(search.Exact):
    """An exact index that remembers how many queries it got, and how many neighbors they asked for."""

    asked = ()

    def search(self, queries, k):
        self.asked = (*self.asked, (len(queries), k))
        return super().search(queries, k)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("spread", [0.1, 1.0, 10.0])
@pytest.mark.parametrize(("positives", "negatives"), [(1, 1), (4, 7), (40, 90)])
def test_pairs_are_those_of_loops_over_the_whole_set(metric, spread, positives, negatives):
    x = embedded(spread)
    found = hardest_pairs(x, LABELS, positives=positives, negatives=negatives, metric=metric)
    assert_those_of_loops(found, x, LABELS, metric)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("classes", [3, 40])
def test_threads_chunks_and_the_last_bits_of_the_product_do_not_change_what_is_found(metric, classes, monkeypatch):
    generator = np.random.default_rng(0)
    x, labels = generator.standard_normal((300, 24)).astype("float32"), generator.integers(0, classes, 300)
    x[100:160], x[200:260] = x[:60], np.nextafter(x[:60], np.float32(9))
    options = dict(positives=4, negatives=5, metric=metric)
    expected, triplets = hardest_pairs(x, labels, **options), hardest_triplets(x, labels, metric=metric, margin=0.0)
    for multiply, threads, scratch in ((scores.product, 1, 1), (unsteady, 1, 2**26), (unsteady, 2, 3_000)):
        monkeypatch.setattr(scores, "product", multiply)
        monkeypatch.setattr(blocks, "thread_count", lambda threads=threads: threads)
        monkeypatch.setattr(hard_pairs, "_CHUNK_BYTES", scratch)
        for found, right in zip(hardest_pairs(x, labels, **options), expected, strict=True):
            np.testing.assert_array_equal(found, right)
        np.testing.assert_array_equal(hardest_triplets(x, labels, metric=metric, margin=0.0), triplets)


@pytest.mark.parametrize("metric", METRICS)
def test_of_duplicates_any_will_do_but_never_the_example_itself_nor_one_twice(metric):
    generator = np.random.default_rng(3)
    x = generator.integers(-1, 2, (70, 3)) + np.array([2.0, 0.0, 0.0])
    labels = generator.integers(0, 4, 70)
    found = hardest_pairs(x, labels, positives=5, negatives=6, metric=metric)
    expected, d = by_loops(x, labels, 5, 6, metric), distances(x, metric)
    for rows, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.take_along_axis(d, rows, 1), np.take_along_axis(d, right, 1), atol=1e-6)
        assert all(len(set(row)) == len(row) and a not in row for a, row in enumerate(rows))
    assert (labels[found.positives] == labels[:, None]).all()
    assert (labels[found.negatives] != labels[:, None]).all()


@pytest.mark.parametrize("metric", METRICS)
def test_embeddings_that_are_all_equal_still_have_their_pairs(metric):
    labels = np.repeat([0, 1], [25, 40])
    found = hardest_pairs(np.ones((65, 3)), labels, positives=2, negatives=2, metric=metric)
    assert (labels[found.positives] == labels[:, None]).all()
    assert (labels[found.negatives] != labels[:, None]).all()
    assert (found.positives != np.arange(65)[:, None]).all()


def test_only_examples_that_miss_negatives_are_searched_again_with_more_neighbors():
    labels = np.repeat([0, 1, 2], [4, 4, 50])
    made = []

    def make(vectors, metric):
        made.append(Index(vectors, metric=metric))
        return made[-1]

    line = np.random.default_rng(0).standard_normal(58) + np.where(np.arange(58) < 13, 50, 0)  # 5 of the 50 by others.
    found = hardest_pairs(line[:, None], labels, negatives=2, metric="euclidean", index=make)
    assert_those_of_loops(found, line[:, None], labels, "euclidean")
    assert made[0].asked == ((58, 18), (45, 52))  # 52 neighbors of an example in a class of 50 hold 2 of others.


@pytest.mark.parametrize("named", ["exact", "scann", "faiss", None, search.Exact, search.Scann])
def test_a_search_is_given_by_its_name_or_its_class(named):
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(40, 3)), np.arange(40) % 4
    for found, expected in zip(hardest_pairs(x, labels, index=named), hardest_pairs(x, labels), strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(hardest_triplets(x, labels, index=named), hardest_triplets(x, labels))


@pytest.mark.parametrize("options", [dict(method="quantized"), dict(method="partitioned", leaves=20)], ids=str)
def test_an_approximate_search_finds_nearly_the_same_negatives_and_the_same_positives(options):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(40), 50))
    x = embedded(0.7, labels, dim=16)
    scann = functools.partial(search.Scann, **options)
    found, exact = (hardest_pairs(x, labels, positives=3, negatives=5, index=make) for make in (scann, search.Exact))
    np.testing.assert_array_equal(found.positives, exact.positives)
    assert (labels[found.negatives] != labels[:, None]).all()
    assert (found.negatives >= 0).all()
    assert search.neighbor_recall(found.negatives, exact.negatives) > 0.85  # the cells differ from build to build


@pytest.mark.slow
def test_memory_stays_far_below_a_matrix_of_all_pairs(monkeypatch):
    monkeypatch.setattr(hard_pairs, "_CHUNK_BYTES", 2**22)
    labels = np.repeat([0, 1, 2], [1_000, 1_000, 3_000])
    x = np.random.default_rng(0).standard_normal((5_000, 4))
    x[:1_000] = [9.0, 0.0, 0.0, 0.0] + 0.01 * x[:1_000]  # All near neighbors of these are of their own class.
    small = functools.partial(search.Exact, max_bytes=2**23)
    tracemalloc.start()
    found = hardest_pairs(x, labels, metric="euclidean", index=small)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (labels[found.negatives] != labels[:, None]).all()
    assert peak < 18 * 2**20  # A matrix of 5,000 x 5,000 float32 takes 95 MiB, that of the largest class 34 MiB.


def triplets_by_loops(x, labels, margin, metric):
    d = distances(x, metric)
    positives, negatives = by_loops(x, labels, 1, 1, metric)
    hardness = {
        (a, p, n): d[a, p] - d[a, n]
        for a, (p, n) in enumerate(zip(positives[:, 0].tolist(), negatives[:, 0].tolist(), strict=True))
        if p >= 0
    }
    return [list(t) for t in sorted(hardness, key=lambda t: -hardness[t]) if hardness[t] + margin > 0]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("margin", [-0.3, 0.0, 0.2, np.inf])
def test_triplets_are_those_of_loops_that_violate_the_margin_hardest_first(metric, margin):
    x = embedded(0.4)
    found = hardest_triplets(x, LABELS, margin=margin, metric=metric)
    assert found.dtype == np.int64
    assert found.tolist() == triplets_by_loops(x, LABELS, margin, metric)
    assert 0 < len(found) <= 101  # One of 102 is alone in its class.


def test_there_is_no_triplet_where_classes_are_apart_or_of_one_example():
    assert hardest_triplets(np.eye(4)[[0, 0, 1, 1]], [0, 0, 1, 1], margin=1.0).shape == (0, 3)
    assert hardest_triplets(np.eye(4)[[0, 0, 1, 1]], [0, 0, 1, 1], margin=1.01).shape == (4, 3)
    assert hardest_triplets(np.eye(4), [0, 1, 2, 3], margin=np.inf).shape == (0, 3)
