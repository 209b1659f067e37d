"""The join of shards: the pairs and similarities of one machine, and a recall that is measured."""

import numpy as np
import pytest

from tests.distributed.embedded import shards, vectors
from tfdml import distributed, search
from tfdml.distributed import joining

pytestmark = pytest.mark.slow

ROWS = 2000


@pytest.fixture(scope="module")
def embedded(cluster, tmp_path_factory):
    return shards(tmp_path_factory.mktemp("embedded"), rows=ROWS, shard_size=512)


def test_pairs_are_those_of_the_exact_join(embedded, monkeypatch):
    monkeypatch.setattr(joining, "_PER_REGION", ROWS // 5)
    pairs = distributed.join(embedded, 0.99, recall=1.0, sample=500)
    expected = search.similar_pairs(vectors(ROWS), 0.99)
    codes, expected_codes = (rows[:, 0] * ROWS + rows[:, 1] for rows in (pairs.rows, expected.rows))
    is_found = np.isin(expected_codes, codes)
    assert np.isin(codes, expected_codes).all()
    assert is_found.mean() > 0.98
    np.testing.assert_array_equal(pairs.similarity, expected.similarity[is_found])
    assert not list(embedded.folder.glob(".join-*"))


def test_the_recall_is_measured_on_other_rows_and_bounds_the_truth(embedded, monkeypatch):
    monkeypatch.setattr(joining, "_PER_REGION", ROWS // 3)
    pairs = distributed.join(embedded, 0.9, recall=0.8, sample=400, seed=2)
    expected = search.similar_pairs(vectors(ROWS), 0.9)
    missed = ~np.isin(expected.rows @ [ROWS, 1], pairs.rows @ [ROWS, 1])
    complete = 1 - len(np.unique(expected.rows[missed])) / len(np.unique(expected.rows))
    assert pairs.recall.rows > 300
    assert pairs.recall.lower <= complete
    assert abs(pairs.recall.complete / pairs.recall.rows - complete) < 0.1


def test_too_many_pairs_and_options_out_of_range_are_errors(embedded):
    with pytest.raises(ValueError, match="more than max_pairs=10 pairs"):
        distributed.join(embedded, 0.99, sample=100, max_pairs=10)
    with pytest.raises(ValueError, match="similarity=2"):
        distributed.join(embedded, 2)
    with pytest.raises(ValueError, match="sample=0"):
        distributed.join(embedded, 0.9, sample=0)
