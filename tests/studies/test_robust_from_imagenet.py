"""Robust losses from ImageNet: which trials choose, what is tested, and two seeds that train."""

from dataclasses import replace

import pytest

from studies import pages, runner
from studies.leaderboard import setting as board
from studies.leaderboard.methods import GRIDS
from studies.mining.robust import features

MINING = pages.RESULTS / "mining"


@pytest.mark.parametrize("loss", GRIDS)
def test_each_method_has_24_trials_and_the_best_one_of_the_validation_part_is_tested_with_five_seeds(loss):
    rows = runner.where(runner.read_rows(MINING / "robust_values.csv"), loss=loss)
    trials, tested = (runner.where(rows, part=part) for part in ("validation", "test"))
    chosen = [(row["settings"], row["learning_rate"]) for row in trials]
    run = board.Run(data="photo patches", start="trained", loss=loss, steps=500)
    assert chosen == [(trial.settings, trial.learning_rate) for trial in board.trials(run)]
    assert len(chosen) == 24
    best = max(trials, key=lambda row: row["map@r"])
    assert {(row["settings"], row["learning_rate"]) for row in tested} == {(best["settings"], best["learning_rate"])}
    assert [row["seed"] for row in tested] == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_two_seeds_of_a_quick_run_train(tmp_path, monkeypatch):
    monkeypatch.setattr(board, "ROWS", tmp_path)
    run = features.Run(loss="margin on similarities", mining="top k", batch=40, steps=8, classes=40)
    one, other = features.train_seeds([run, replace(run, seed=1)])
    assert one["run"] == {**other["run"], "seed": 0}
    assert one["test"] != other["test"]
    assert one["protocol"] == "photo-patches/photograph-disjoint/exact-cosine/v1/first-40/features"
    assert list(one["test"]) == ["recall@1", "recall@10", "recall@100", "map@r"]
    assert 0.05 < one["test"]["recall@1"] <= 1
