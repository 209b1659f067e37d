"""The batch designs from a trained start: what is trained, and the ratio of the spreads with and without weights."""

import csv
import zlib
from dataclasses import asdict, replace

import numpy as np
import pytest

from studies import importance_sampling, pages, runner
from studies.importance_sampling import trained_start

PUBLISHED = pages.RESULTS / "importance_sampling" / "trained_start.csv"
KEYS = ("recall@1", "recall@2", "recall@8", "map@r")


def texts():
    return list(csv.DictReader(PUBLISHED.read_text().splitlines()))


def result(run, score, **about):
    numbers = dict.fromkeys(KEYS, score)
    return {"run": asdict(run), "validation": numbers, "test": numbers, **about}


def test_the_ratio_of_spreads_is_that_of_hand_arithmetic():
    levels = {
        ("2x32", 0.0): (0.8, 0.6),
        ("32x2", 0.0): (0.3, 0.2),
        ("2x32", 1.0): (0.8, 0.9),
        ("32x2", 1.0): (0.7, 0.7),
    }
    rows = [
        {"negatives": negatives, "delta": delta, "design": design, "seed": seed, "recall@1": score}
        for negatives in trained_start.LAMBDAS
        for (design, delta), scores in levels.items()
        for seed, score in enumerate(scores)
    ]
    text = trained_start.spreads(rows)
    half = 12.706 * np.std([0.2, 0.5], ddof=1) / np.sqrt(2)  # Student's t for two seeds
    assert f"| 64 | 45.0 ± {12.706 * np.std([50, 40], ddof=1) / np.sqrt(2):.1f} | 15.0 ± " in text
    assert f"| 0.35 ± {half:.2f} |" in text


def test_the_published_rows_have_equal_trials_and_are_those_that_the_study_makes(tmp_path, monkeypatch):
    names = list(asdict(trained_start.Run()))
    kept = {tuple(row[name] for name in names): row for row in texts()}

    def recalled(run):
        """A published run, or one that is worse than any."""
        row = kept.get(tuple(str(value) for value in asdict(run).values()))
        if row is None:
            return result(run, -1.0, seconds=0.0, protocol="-", hardware="-", versions="-")
        about = {name: row[name] for name in ("protocol", "hardware", "versions")}
        numbers = {
            part: {key: float(row[f"{mark}{key}"]) for key in KEYS}
            for part, mark in (("validation", "validation "), ("test", ""))
        }
        return {"run": asdict(run), **numbers, "seconds": float(row["seconds"]), **about}

    monkeypatch.setattr(trained_start, "train_seeds", lambda runs: [recalled(run) for run in runs])
    options = importance_sampling.options(tmp_path, workers=1)
    runner.write_rows(tmp_path / "rows.csv", trained_start.rows(options))
    assert (tmp_path / "rows.csv").read_text() == PUBLISHED.read_text()
    assert len(kept) == 2 * 2 * 5 * 5


def test_a_quick_study_has_a_row_for_each_lambda_and_weighting(tmp_path, monkeypatch):
    def invented(run):
        score = (1 + zlib.crc32(runner.name_of(run).encode()) % 999) / 1000
        return result(run, score, seconds=1.0, protocol="-", hardware="-", versions="-")

    monkeypatch.setattr(trained_start, "train_seeds", lambda runs: [invented(run) for run in runs])
    rows = trained_start.rows(importance_sampling.options(tmp_path, quick=True))
    assert {(row["negatives"], row["delta"], row["design"]) for row in rows} == {
        (negatives, delta, design) for negatives in (64.0, 256.0) for delta in (0.0, 1.0) for design in ("2x32", "32x2")
    }
    assert len(trained_start.tables(rows)) == 2


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
