"""Finished runs restored from committed rows."""

import csv
import json
from dataclasses import replace

import pytest

from studies import __main__ as command
from studies import importance_sampling, leaderboard, mining, pages, restored, runner
from studies.importance_sampling import setting as importance_setting

PUBLISHED = pages.RESULTS
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


def test_a_board_is_restored_with_its_trials_by_its_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pages, "ROOT", tmp_path)  # pages, figures and rows of the test
    monkeypatch.setattr(pages, "RESULTS", tmp_path)
    (tmp_path / "docs" / "images").mkdir(parents=True)
    (tmp_path / "docs" / "leaderboard.md").write_text("# Leaderboard\n")
    published = (PUBLISHED / "leaderboard" / "pairs.csv").read_text()
    (tmp_path / "leaderboard").mkdir()
    (tmp_path / "leaderboard" / "pairs.csv").write_text(published)
    monkeypatch.setattr(leaderboard.setting, "train_seeds", untrained)
    command.main(["leaderboard", "pairs", "--restore", "--workers", "1"])
    assert capsys.readouterr().out.startswith(f"{len(published.splitlines()) - 1} runs restored")
    assert (tmp_path / "leaderboard" / "pairs.csv").read_text() == published


def test_rows_that_do_not_hold_all_of_a_run_are_refused(capsys):
    with pytest.raises(SystemExit):
        command.main(["reidentification", "--restore"])
    assert "not reidentification" in capsys.readouterr().err


def test_settings_have_the_types_of_their_fields(tmp_path):
    run = importance_setting.Run(labels=17, per_class=None, watch=True)
    row = {key: "" if value is None else str(value) for key, value in vars(run).items()}
    assert restored.run_of(row, importance_setting.Run) == run
    assert json.loads(json.dumps(vars(run))) == vars(run)
