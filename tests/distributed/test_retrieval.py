"""Search and evaluation in shards, equal to the whole."""

import numpy as np
import pytest

from tests.distributed.embedded import ROWS, vectors
from tfdml import distributed, metrics, search

pytestmark = pytest.mark.slow

LABELS = np.arange(ROWS) % 10


def test_search_equals_the_search_of_all_vectors(embedded):
    queries = vectors(40, seed=5)
    for metric in ("cosine", "euclidean"):
        results = distributed.search_shards(embedded, queries, 80, metric=metric)
        for result, expected in zip(results, search.Exact(vectors(), metric=metric).search(queries, 80), strict=True):
            np.testing.assert_array_equal(result, expected)


def test_metrics_equal_those_of_the_whole_gallery(embedded):
    queries = vectors(40, seed=5)
    numbers = distributed.retrieval(embedded, queries, LABELS[:40], gallery_labels=LABELS)
    expected = metrics.retrieval(queries, LABELS[:40], gallery=vectors(), gallery_labels=LABELS, full_map=False)
    assert {"recall@1", "map@r", "recall@8"} <= set(numbers)
    assert numbers == {name: expected[name] for name in numbers}


def test_queries_of_the_gallery_ignore_themselves(embedded):
    rows = np.arange(0, ROWS, 7)
    numbers = distributed.retrieval(embedded, vectors()[rows], LABELS[rows], gallery_labels=LABELS, query_rows=rows)
    whole = metrics.retrieval(vectors(), LABELS, full_map=False, per_query=True)
    assert numbers["recall@1"] == pytest.approx(whole["recall@1"][rows].mean())
    assert numbers["map@r"] == pytest.approx(whole["map@r"][rows].mean())


def test_another_number_of_labels_is_an_error(embedded):
    with pytest.raises(ValueError, match="10 gallery_labels, expected 300"):
        distributed.retrieval(embedded, vectors(4), LABELS[:4], gallery_labels=LABELS[:10])
    with pytest.raises(ValueError, match=r"queries of model another .*, expected those of model a projection"):
        distributed.search_shards(embedded, vectors(4), 3, model="another")
    with pytest.raises(ValueError, match="k=301"):
        distributed.search_shards(embedded, vectors(4), 301)
