"""The batch designs from a trained network: the published rows, and two seeds."""

import csv
from dataclasses import asdict, fields, replace

import pytest

from studies import importance_sampling, pages, restored, runner
from studies.importance_sampling import trained_start, whole_network

RUNS = {"trained_start": 2 * 2 * 5 * 5, "trained_pairs": 2 * 3 * 5, "whole_network": 2 * 2 * 5 * 5}


def path_of(name):
    return pages.RESULTS / "importance_sampling" / f"{name}.csv"


@pytest.mark.parametrize("name", [name for name in RUNS if path_of(name).exists()])
def test_the_published_rows_have_equal_trials_and_are_those_that_the_study_makes(name, tmp_path, monkeypatch):
    rows = list(csv.DictReader(path_of(name).read_text().splitlines()))
    settings = [key for key in rows[0] if key in {field.name for field in fields(whole_network.Run)}]
    kept = {tuple(row[key] for key in settings): row for row in rows}

    def recalled(run):
        """A published run, or one that is worse than any."""
        row = kept.get(tuple(str(value) for value in asdict(run).values()))
        if row is None:
            worst = dict.fromkeys(("recall@1", "recall@2", "recall@8", "map@r"), -1.0)
            about = dict.fromkeys(("protocol", "hardware", "versions"), "-")
            return {"run": asdict(run), "validation": worst, "test": worst, "seconds": 0.0, **about}
        return restored.result_of(row, run)

    monkeypatch.setattr(trained_start, "train_seeds", lambda runs: list(map(recalled, runs)))
    monkeypatch.setattr(whole_network, "train", recalled)
    made = importance_sampling.STUDIES[name].rows(importance_sampling.options(tmp_path, workers=1))
    runner.write_rows(tmp_path / "rows.csv", made)
    assert (tmp_path / "rows.csv").read_text() == path_of(name).read_text()
    assert len(kept) == RUNS[name]


@pytest.mark.slow
def test_two_seeds_of_a_quick_run_train(tmp_path, monkeypatch):
    monkeypatch.setattr(trained_start, "ROWS", tmp_path)
    run = trained_start.Run(design="32x2", steps=8, classes=40)
    one, other = trained_start.train_seeds([run, replace(run, seed=1)])
    assert one["run"] == {**other["run"], "seed": 0}
    assert one["test"] != other["test"]
    assert "first-40" in one["protocol"]
    assert "euclidean" in one["protocol"]
    assert 0.05 < one["test"]["recall@1"] <= 1
