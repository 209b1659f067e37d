"""Indexes in shards: ids and scores of one index, from one process and from actors, with errors that name the shard."""

import re
import shutil

import numpy as np
import pytest
from pyarrow import compute

from tests.distributed.embedded import ROWS, vectors
from tfdml import distributed, search

pytestmark = pytest.mark.slow

QUERIES = np.random.default_rng(3).normal(size=(20, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def built(embedded, tmp_path_factory):
    """The folder of an exact index in five shards."""
    folder = tmp_path_factory.mktemp("built") / "index"
    distributed.build_index(embedded, folder)
    return folder


def assert_equal(results, expected):
    for result, whole in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, whole)


@pytest.mark.parametrize("metric", ["cosine", "dot", "euclidean"])
def test_an_exact_index_of_shards_has_ids_and_scores_of_one_index(embedded, tmp_path, metric):
    index = distributed.build_index(embedded, tmp_path / "index", metric=metric)
    expected = search.Exact(vectors(), metric=metric).search(QUERIES, 12)
    assert_equal(index.search(QUERIES, 12), expected)
    assert (type(index), len(index)) == (search.Exact, ROWS)


def test_filters_rows_and_metadata_are_those_of_one_index(built):
    index = search.load(built)
    labels = np.array([f"class {i % 10}" for i in range(ROWS)])
    whole = search.Exact(vectors(), metadata={"label": labels})
    for where in (compute.field("label") == "class 3", labels == "class 4"):
        assert_equal(index.search(QUERIES, 9, where=where), whole.search(QUERIES, 9, where=where))
    assert index.metadata["label"].to_pylist() == labels.tolist()
    np.testing.assert_array_equal(index.rows([299, 64, 0]), [299, 64, 0])
    index.remove([64])
    index.add(vectors()[64:65], [1000], metadata={"label": ["new"]})
    assert index.search(vectors()[64:65], 1)[0].tolist() == [[1000]]


def test_actors_give_the_results_of_one_process(built):
    where = compute.field("label") == "class 3"
    with distributed.SearchActors(built, actors=2) as actors:
        index = search.load(built)
        for options in ({}, {"where": where}, {"where": {"label": ["class 3", "none"]}}):
            assert_equal(actors.search(QUERIES, 30, **options), index.search(QUERIES, 30, **options))
        assert (len(actors), actors.dim, actors.metric) == (ROWS, 8, "cosine")
        with pytest.raises(ValueError, match=r"queries of model another .*, expected those of model a projection"):
            actors.search(QUERIES, 3, model="another")
        assert actors.fingerprint == index.fingerprint == "a projection"
        with pytest.raises(ValueError, match="k=31"):
            actors.search(QUERIES, 31, where=where)
        with pytest.raises(ValueError, match="queries of dim 3, expected 8"):
            actors.search(QUERIES[:, :3], 1)
        with pytest.raises(ValueError, match="expected an expression of metadata"):
            actors.search(QUERIES, 1, where=np.ones(ROWS, bool))


def test_an_approximate_index_of_shards(embedded, tmp_path):
    index = distributed.build_index(embedded, tmp_path / "index", index="faiss", codes="float32", method="exact")
    np.testing.assert_array_equal(index.search(QUERIES, 5)[0], search.Exact(vectors()).search(QUERIES, 5)[0])
    assert isinstance(index, search.Faiss)


def test_a_stopped_build_goes_on_and_another_one_is_an_error(embedded, tmp_path):
    distributed.build_index(embedded, tmp_path / "index")
    kept = (tmp_path / "index" / "part-000000" / "index.json").stat().st_mtime_ns
    (tmp_path / "index" / "part-000003.json").unlink()
    (tmp_path / "index" / "shards.json").unlink()
    with pytest.raises(FileNotFoundError):
        search.load(tmp_path / "index")
    distributed.build_index(embedded, tmp_path / "index")
    assert (tmp_path / "index" / "part-000000" / "index.json").stat().st_mtime_ns == kept
    with pytest.raises(ValueError, match="a run of metric 'cosine' where this call has 'dot'"):
        distributed.build_index(embedded, tmp_path / "index", metric="dot")
    with pytest.raises(ValueError, match="ids='path' for embeddings without paths"):
        distributed.build_index(embedded, tmp_path / "paths", ids="path")


def test_a_missing_or_damaged_shard_is_named(built, tmp_path):
    shutil.copytree(built, tmp_path / "missing")
    shutil.rmtree(tmp_path / "missing" / "part-000002")
    shutil.copytree(built, tmp_path / "damaged")
    (vectors_file,) = (tmp_path / "damaged" / "part-000003").glob("gallery-*.npy")
    content = bytearray(vectors_file.read_bytes())
    content[-1] ^= 1
    vectors_file.write_bytes(bytes(content))
    for load in (search.load, lambda folder: distributed.SearchActors(folder, actors=1)):
        with pytest.raises(FileNotFoundError, match=re.escape("whose shard 'part-000002' is missing")):
            load(tmp_path / "missing")
        with pytest.raises(ValueError, match=re.escape("whose shard 'part-000003' is damaged")):
            load(tmp_path / "damaged")
