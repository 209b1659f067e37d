"""An index in its folder is whole, whenever its writer is killed; see tests/_core/test_atomic.py for its readers."""

import numpy as np
import pytest

from tests.moments import copied_at_every_operation
from tfdml import search


def assert_whole(folder):
    index = search.load(folder)
    vectors = np.random.default_rng(0).normal(size=(20_000, 16)).astype("float32")
    assert len(index) % 10 == 0
    np.testing.assert_array_equal(np.sort(index.ids), np.arange(len(index)))
    np.testing.assert_array_equal(index.search(vectors[index.ids], 1)[0][:, 0], index.ids)
    assert index.metadata["name"].to_pylist() == [f"name {i}" for i in index.ids]
    return len(index)


@pytest.mark.slow
def test_the_old_or_the_new_index_is_whole_before_every_file_operation_of_adding_and_saving(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(20_000, 16)).astype("float32")
    folder = tmp_path / "home" / "index"
    search.Exact(vectors[:10], metadata={"name": [f"name {i}" for i in range(10)]}).save(folder)
    index = search.load(folder)
    with copied_at_every_operation(folder.parent, tmp_path / "copies") as copies:
        ids = np.arange(10, 20)
        index.add(vectors[ids], ids, metadata={"name": [f"name {i}" for i in ids]})
        index.update(ids[:1], vectors[ids[:1]])
        index.save(folder)
    sizes = [assert_whole(copy / "index") for copy in copies]
    assert sizes == sorted(sizes)
    assert (min(sizes), max(sizes)) == (10, 20)
    assert len(sizes) > 30
    killed_half_way = copies[len(copies) // 2]
    search.load(killed_half_way / "index").save(killed_half_way / "index")
    assert [place.name for place in killed_half_way.iterdir()] == ["index"]
