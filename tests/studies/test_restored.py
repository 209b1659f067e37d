"""Finished runs restored from committed rows."""

import csv
from dataclasses import replace

import pytest

from studies import importance_sampling, leaderboard, mining, pages, restored, runner

PAPERS = {"mining": mining, "importance_sampling": importance_sampling, "leaderboard": leaderboard}


def untrained(run):
    raise AssertionError(f"{run} would be trained")


@pytest.mark.parametrize(
    ("paper", "name"), [("mining", "boundaries"), ("importance_sampling", "class_sizes"), ("leaderboard", "batch")]
)
def test_a_run_with_a_row_is_not_trained_again(paper, name, tmp_path):
    module, texts = PAPERS[paper], (pages.RESULTS / paper / f"{name}.csv").read_text()
    rows = list(csv.DictReader(texts.splitlines()))
    options = replace(module.options(tmp_path, workers=1), train=untrained, train_seeds=None)
    written = restored.restore(rows, options, type(options.base), module.result_of)
    assert written == len(list(tmp_path.glob("*.json"))) == len({tuple(row.values()) for row in rows})
    runs = [restored.run_of(row, type(options.base)) for row in rows]
    rows_of = leaderboard.setting.rows_of if paper == "leaderboard" else runner.rows_of
    runner.write_rows(tmp_path / "again.csv", rows_of(runner.finished(runs, options)))
    assert (tmp_path / "again.csv").read_text() == texts
    assert restored.restore(rows, options, type(options.base), module.result_of) == 0
