"""Counts of searches, and their table on a full disk."""

import pytest

from tfdml.serving.monitoring import Monitor


def test_below_the_threshold_an_image_is_unknown(tmp_path):
    monitor = Monitor(tmp_path / "log.csv")
    monitor.count_searches([0.5, 0.7], 0.6)
    monitor.count_searches([], 0.6)
    assert [line.split(",")[1:] for line in (tmp_path / "log.csv").read_text().splitlines()[1:]] == [
        ["0.5", "1"],
        ["0.7", "0"],
    ]
    text = monitor.text().decode()
    assert "tfdml_searches_unknown_total 1.0" in text
    assert 'tfdml_search_best_score_bucket{le="0.5"} 1.0' in text


def test_a_log_that_cannot_be_written_warns_once_and_no_search_fails(tmp_path):
    log = tmp_path / "log.csv"
    monitor = Monitor(log)
    log.unlink()
    log.symlink_to("/dev/full")  # always full
    with pytest.warns(UserWarning, match="searches are not logged: .*No space left"):
        monitor.count_searches([0.5], None)
    monitor.count_searches([0.5], None)
    log.unlink()
    monitor.count_searches([0.5], None)
    assert log.read_text().startswith("time,score,unknown\n2")
