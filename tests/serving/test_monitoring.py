"""Counts of searches, and their table on a full disk."""

import os
import threading

import numpy as np
import pytest

from tfdml.serving import monitoring
from tfdml.serving.monitoring import Monitor, RecallCheck


def test_below_the_threshold_an_image_is_unknown(tmp_path):
    monitor = Monitor(tmp_path / "log.csv")
    monitor.count_searches([0.5, 0.7], 0.6)
    monitor.count_searches([], 0.6)
    assert [line.split(",")[1:] for line in (tmp_path / "log.csv").read_text().splitlines()[1:]] == [
        ["0.5", "1", ""],
        ["0.7", "0", ""],
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
    assert log.read_text().startswith("time,score,unknown,recall\n2")


@pytest.mark.parametrize("room", [0, 1, 18, 19, 20, 40])
def test_a_disk_that_fills_up_within_a_line_leaves_whole_lines(tmp_path, monkeypatch, room):
    log, opened = tmp_path / "log.csv", open

    class Full:
        """A file on a disk that has room for some bytes more."""

        def __init__(self, *arguments, **options):
            self.file = opened(*arguments, **options)

        def __getattr__(self, name):
            return getattr(self.file, name)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, content):
            return self.file.write(content[:room])

    monitor = Monitor(log)
    monitor.count_searches([0.25], None)
    monkeypatch.setattr("tfdml.serving.monitoring.open", Full, raising=False)
    with pytest.warns(UserWarning, match="searches are not logged: .*No space left"):
        monitor.count_searches([0.5, 0.625], None)
    monitor.count_searches([0.5, 0.625], None)  # says nothing again
    monkeypatch.undo()
    monitor.count_searches([0.75], None)
    assert [line.split(",")[1] for line in log.read_text().splitlines()] == ["score", "0.25", "0.75"]
    assert log.read_text().endswith("\n")


def test_a_line_that_was_cut_by_a_crash_is_removed_and_named(tmp_path):
    log = tmp_path / "log.csv"
    Monitor(log).count_searches([0.25], None)
    os.truncate(log, log.stat().st_size - 4)
    with pytest.warns(UserWarning, match="the last line was cut, and is removed: b'2"):
        monitor = Monitor(log)
    monitor.count_searches([0.5], None)
    assert [line.split(",")[1] for line in log.read_text().splitlines()] == ["score", "0.5"]
    log.write_text("id,label\nwithout an end")
    with pytest.raises(ValueError, match="one that a server has written"):
        Monitor(log)
    assert log.read_text() == "id,label\nwithout an end"


def test_checks_are_a_share_of_the_searches_and_keep_their_budget(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(monitoring.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(monitoring.random, "random", np.random.default_rng(0).random)
    check, counted, done = RecallCheck(0.25), [], threading.Event()
    chosen = [check.chosen(2) for _ in range(1000)]
    assert set(chosen) == {-1, 0, 1}
    assert 450 < sum(number >= 0 for number in chosen) < 550  # 0.25 of 2,000 searches

    def slow():
        assert check.chosen(10**9) == -1  # one at a time
        now[0] += 3.0
        return 0.75

    def count(share):
        counted.append(share)
        done.set()

    check(slow, count)
    assert done.wait(10)
    assert counted == [0.75]
    now[0] = 3.0 + 3.0 / 0.01 - 0.1
    assert check.chosen(10**9) == -1
    now[0] += 0.2
    assert check.chosen(10**9) >= 0
    assert RecallCheck(0.0).chosen(10**9) == -1
    check.close()


def test_a_check_that_fails_warns_and_counts_the_search():
    check, counted = RecallCheck(1.0), []
    with pytest.warns(UserWarning, match="recall of a search is not known: division"):
        check._check(lambda: 1 / 0, counted.append)
    assert counted == [""]
