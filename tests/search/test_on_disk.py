"""Exact search in shards on disk."""

import ml_dtypes
import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from tfdml import metrics, search
from tfdml.search.on_disk.shards import blocks_of


def vectors(rows=500, dim=6, seed=0):
    """Vectors of which some are duplicates, so that order decides."""
    x = np.random.default_rng(seed).normal(size=(rows, dim)).astype(np.float32) * 20
    if rows > 150:
        x[100:150] = x[:50]
    return x


def write_parquet(path, x):
    column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(x.reshape(-1)), x.shape[1])
    parquet.write_table(pyarrow.table({"row": np.arange(len(x)), "embedding": column}), path, row_group_size=70)


@pytest.fixture
def files(tmp_path):
    """The vectors as a mapped .npy file, a Parquet file of several row groups, and an array in memory."""
    x = vectors()
    np.save(tmp_path / "first.npy", x[:200])
    write_parquet(tmp_path / "second.parquet", x[200:420])
    return [tmp_path / "first.npy", str(tmp_path / "second.parquet"), x[420:]]


@pytest.mark.parametrize("metric", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("max_bytes", [40_000, 2**29])
def test_rows_and_scores_are_those_of_the_search_in_memory(metric, max_bytes, files):
    expected = search.Exact(vectors(), metric=metric).search(vectors(9, seed=1), 160)
    found = search.search_on_disk(files, vectors(9, seed=1), 160, metric=metric, max_bytes=max_bytes)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype


class ReadOnce:
    """Vectors of which every row may be read once."""

    ndim = 2

    def __init__(self, x):
        self.x, self.left = x, set(range(len(x)))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, rows):
        self.left -= (found := set(range(rows.start, rows.stop)) & self.left)
        assert len(found) == rows.stop - rows.start
        return self.x[rows]


@pytest.mark.parametrize("metric", ["cosine", "dot", "euclidean"])
def test_vectors_are_read_once_and_those_far_from_the_others_change_no_score(metric):
    x, queries = vectors(), vectors(9, seed=1)
    far = np.concatenate([x[:100] + np.float32(1e6), x[100:]])
    shard = ReadOnce(far)
    found, scores = search.search_on_disk([shard], queries, 300, metric=metric, max_bytes=100_000)
    assert not shard.left
    expected, expected_scores = search.Exact(far, metric=metric).search(queries, 300)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(scores, expected_scores)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.int8])
def test_short_numbers_are_scored_in_float32(dtype, tmp_path):
    x, queries = vectors().astype(dtype), vectors(5, seed=1)
    mapped = np.memmap(tmp_path / "x", mode="w+", dtype=dtype, shape=x.shape)
    mapped[:] = x
    expected = search.Exact(x.astype(np.float32)).search(queries, 20)
    for shards in (mapped, [x[:3], x[3:]]):
        for ours, theirs in zip(search.search_on_disk(shards, queries, 20), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.int8])
def test_metrics_of_short_numbers_are_those_of_their_float32_values(dtype):
    x, labels = vectors().astype(dtype), np.arange(500) % 60
    expected = metrics.retrieval(x.astype(np.float32), labels, ties="expected")
    assert metrics.retrieval(x, labels, ties="expected") == expected


def test_one_block_of_rows_is_read_at_a_time(files):
    blocks = blocks_of(files, 64)
    assert [block.length for block in blocks] == [64, 64, 64, 8, 64, 6, 64, 6, 64, 6, 10, 64, 16]
    assert [block.start for block in blocks] == np.cumsum([0, *(block.length for block in blocks[:-1])]).tolist()
    np.testing.assert_array_equal(np.concatenate([block.read(6) for block in blocks]), vectors())


def test_no_query_finds_nothing():
    rows, scores = search.search_on_disk(vectors(), np.empty((0, 6), np.float32), 3)
    assert rows.shape == scores.shape == (0, 3)


def changed(path, change):
    path.write_bytes(change(path.read_bytes()))


DAMAGES = {
    "a cut": ("first.npy", lambda content: content[:2000]),
    "a header without an end": ("first.npy", lambda content: content.replace(b"'shape'", b"'shape(")),
    "a header without a beginning": ("first.npy", lambda content: content.replace(b"{'descr'", b"  descr ")),
    "another shape": ("first.npy", lambda content: content.replace(b"(200, 6)", b"(100, 6)")),
    "a cut of a table": ("second.parquet", lambda content: content[:2000]),
    "a page": ("second.parquet", lambda content: content[:4] + bytes(896) + content[900:]),
}


@pytest.mark.parametrize(("name", "damage"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_shard_is_named(name, damage, files, tmp_path):
    changed(tmp_path / name, damage)
    with pytest.raises(ValueError, match=f"(?s){name}', which cannot be read: .* Write it again"):
        search.search_on_disk(files, vectors(2), 1)


def test_a_parquet_file_whose_text_is_damaged_or_whose_name_is_not_utf8(files, tmp_path):
    path = (tmp_path / "second.parquet").rename(tmp_path / "caf\udce9.parquet")
    assert len(search.search_on_disk(path, vectors(2), 1)[0]) == 2
    changed(path, lambda content: content.replace(b"embedding", b"embeddin\xe9"))
    with pytest.raises(ValueError, match=r"caf.udce9\.parquet', which cannot be read: .* Write it again"):
        search.search_on_disk(path, vectors(2), 1)


def test_values_that_are_not_finite_are_named_with_their_shard(tmp_path):
    x = vectors()
    x[300] = np.nan
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(ValueError, match=r"x\.npy', rows from 0 on, with a value that is NaN"):
        search.search_on_disk(tmp_path / "x.npy", vectors(2), 1)


def test_a_missing_shard_is_named():
    with pytest.raises(FileNotFoundError, match=r"nothing\.npy', which does not exist"):
        search.search_on_disk("nothing.npy", vectors(2), 1)
