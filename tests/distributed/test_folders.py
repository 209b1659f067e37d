"""Folders of runs: one writer at a time."""

import json

import pytest

from tfdml.distributed.folders import RUN, begun, record_of, write_record


def test_two_calls_do_not_write_one_folder_at_once(tmp_path):
    folder = tmp_path / "embedded"
    with begun(folder, {"set": "a"}) as first:
        write_record(first, "part-000000", {"rows": 2})
        for run in ({"set": "a"}, {"set": "b"}):
            with pytest.raises(BlockingIOError, match=r"folder='.*embedded', which process"), begun(folder, run):
                pass
    assert json.loads((folder / RUN).read_text()) == {"set": "a"}
    with begun(folder, {"set": "a"}) as again:
        assert record_of(again, "part-000000") == {"rows": 2}
    with pytest.raises(ValueError, match="a run of set 'a' where this call has 'b'"), begun(folder, {"set": "b"}):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["embedded"]
