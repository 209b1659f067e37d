"""Finished runs restored from committed rows."""

import csv
import json
from dataclasses import replace

import pytest

from studies import importance_sampling, mining, pages, restored, runner
from studies.importance_sampling import setting as importance_setting

PAPERS = {"mining": (mining, "boundaries"), "importance_sampling": (importance_sampling, "class_sizes")}


def untrained(run):
    raise AssertionError(f"{run} would be trained")


@pytest.mark.parametrize("paper", PAPERS)
def test_a_run_with_a_row_is_not_trained_again(paper, tmp_path):
    module, name = PAPERS[paper]
    rows = list(csv.DictReader((pages.RESULTS / paper / f"{name}.csv").read_text().splitlines()))
    options = replace(module.options(tmp_path, workers=1), train=untrained)
    written = restored.restore(rows, options)
    assert written == len(list(tmp_path.glob("*.json"))) == len({tuple(row.values()) for row in rows})
    runs = [restored.run_of(row, type(options.base)) for row in rows]
    runner.write_rows(tmp_path / "again.csv", runner.rows_of(runner.finished(runs, options)))
    again = csv.DictReader((tmp_path / "again.csv").read_text().splitlines())
    assert list(again) == [{key: row[key] for key in row} for row in rows]
    assert restored.restore(rows, options) == 0


def test_settings_have_the_types_of_their_fields(tmp_path):
    run = importance_setting.Run(labels=17, per_class=None, watch=True)
    row = {key: "" if value is None else str(value) for key, value in vars(run).items()}
    assert restored.run_of(row, importance_setting.Run) == run
    assert json.loads(json.dumps(vars(run))) == vars(run)
