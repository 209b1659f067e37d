"""Shards of an index on disk: one index, in their order, with errors that name the shard."""

import re
import shutil

import numpy as np
import pytest

from tfdml import search
from tfdml.cli.references import Reference
from tfdml.search.index.shards import merged_results, write_manifest

VECTORS = np.random.default_rng(0).normal(size=(90, 6)).astype(np.float32)
QUERIES = VECTORS[::7] + 0.1


@pytest.fixture
def folder(tmp_path):
    """Three shards of an exact index with ids of text."""
    ids = np.array([f"item {i}" for i in range(90)])
    for number, rows in enumerate(np.split(np.arange(90), [20, 50])):
        search.Exact(VECTORS[rows], ids[rows], metric="euclidean").save(tmp_path / f"part-{number}")
    sizes = {"part-0": 20, "part-1": 30, "part-2": 40}
    write_manifest(tmp_path, {}, [{"name": name, "vectors": size} for name, size in sizes.items()])
    return tmp_path


def index_ids(start, stop):
    return [f"item {i}" for i in range(start, stop)]


def test_shards_are_searched_as_one_index(folder):
    index = search.load(folder)
    whole = search.Exact(VECTORS, index.ids, metric="euclidean")
    for result, expected in zip(index.search(QUERIES, 60), whole.search(QUERIES, 60), strict=True):
        np.testing.assert_array_equal(result, expected)
    assert index.rows(["item 89", "item 20"]).tolist() == [89, 20]


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_results_of_several_searches_are_merged(metric):
    parts = [VECTORS[:30], VECTORS[30:35], VECTORS[35:]]
    starts = [0, 30, 35]
    results = []
    for start, vectors in zip(starts, parts, strict=True):
        ids, scores = search.Exact(vectors, metric=metric).search(QUERIES, min(8, len(vectors)))
        results.append((start + ids, scores))
    expected = search.Exact(VECTORS, metric=metric).search(QUERIES, 8)
    for result, whole in zip(merged_results(results, 8, metric), expected, strict=True):
        np.testing.assert_array_equal(result, whole)


def test_a_missing_damaged_or_other_shard_is_named(folder):
    shutil.copytree(folder, folder / "copy")
    copy = folder / "copy"
    (gallery,) = (copy / "part-1").glob("gallery-*.npy")
    gallery.write_bytes(gallery.read_bytes()[:-4] + b"\0\0\0\0")
    with pytest.raises(ValueError, match=re.escape("whose shard 'part-1' is damaged")):
        search.load(copy)
    shutil.rmtree(copy / "part-1")
    with pytest.raises(FileNotFoundError, match=re.escape("whose shard 'part-1' is missing")):
        search.load(copy)
    search.Exact(VECTORS[:30], metric="dot").save(copy / "part-1")
    with pytest.raises(ValueError, match="shard 1 of metric 'dot', ids 'int64'"):
        search.load(copy)
    search.Exact(VECTORS[:3], ["a", "b", "c"], metric="euclidean").save(copy / "part-1")
    with pytest.raises(ValueError, match=re.escape("whose shard 'part-1' has 3 vectors, expected 30")):
        search.load(copy)
    search.Exact(VECTORS[:30], index_ids(20, 50), metric="euclidean", model="another").save(copy / "part-1")
    with pytest.raises(ValueError, match="shard 1 of model 'another'"):
        search.load(copy)
    ids = index_ids(19, 49)
    search.Exact(VECTORS[:30], ids, metric="euclidean").save(copy / "part-1")
    with pytest.raises(ValueError, match=re.escape("the id ['item 19'] in two shards")):
        search.load(copy)


def test_the_command_line_reads_shards_as_an_index(folder):
    index = Reference(str(folder)).index()
    assert (len(index), Reference(str(folder)).item(index, "item 3")) == (90, {})
