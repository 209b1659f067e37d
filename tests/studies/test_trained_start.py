"""The batch designs from a trained network: what is trained, and the spreads with and without weights."""

import csv
from dataclasses import asdict, fields, replace

import keras
import numpy as np
import pytest

from studies import importance_sampling, pages, restored, runner
from studies.importance_sampling import trained_start, whole_network

KEYS = ("recall@1", "recall@2", "recall@8", "map@r")
RUNS = {"trained_start": 2 * 2 * 5 * 5, "trained_pairs": 2 * 3 * 5, "whole_network": 2 * 2 * 5 * 5}


def path_of(name):
    return pages.RESULTS / "importance_sampling" / f"{name}.csv"


def trained_by(name, monkeypatch, train):
    """The study, whose runs are those of another function."""
    monkeypatch.setattr(trained_start, "train_seeds", lambda runs: [train(run) for run in runs])
    monkeypatch.setattr(whole_network, "train", train)
    return importance_sampling.STUDIES[name]


def result(run, score, **about):
    numbers = dict.fromkeys(KEYS, score)
    return {"run": asdict(run), "validation": numbers, "test": numbers, **about}


def test_the_spreads_are_those_of_hand_arithmetic():
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
    lines = trained_start.table(rows).splitlines()[2:4]  # lambda of 64
    for line, mean, of_seeds in zip(lines, ("45.0", "15.0"), ([50, 40], [10, 20]), strict=True):
        half = 12.706 * np.std(of_seeds, ddof=1) / np.sqrt(2)  # Student's t for two seeds
        assert line.endswith(f"| {mean} ± {half:.1f} |")


@pytest.mark.parametrize("name", [name for name in RUNS if path_of(name).exists()])
def test_the_published_rows_have_equal_trials_and_are_those_that_the_study_makes(name, tmp_path, monkeypatch):
    rows = list(csv.DictReader(path_of(name).read_text().splitlines()))
    settings = [key for key in rows[0] if key in {field.name for field in fields(whole_network.Run)}]
    kept = {tuple(row[key] for key in settings): row for row in rows}

    def recalled(run):
        """A published run, or one that is worse than any."""
        row = kept.get(tuple(str(value) for value in asdict(run).values()))
        if row is None:
            return result(run, -1.0, seconds=0.0, protocol="-", hardware="-", versions="-")
        return restored.result_of(row, run)

    study = trained_by(name, monkeypatch, recalled)
    runner.write_rows(tmp_path / "rows.csv", study.rows(importance_sampling.options(tmp_path, workers=1)))
    assert (tmp_path / "rows.csv").read_text() == path_of(name).read_text()
    assert len(kept) == RUNS[name]


def test_the_scale_and_the_averages_of_a_whole_network_stay_and_the_rest_is_trained():
    run = whole_network.Run(channels="4-8", classes=40)
    model = whole_network.network(run, None)
    kinds = {type(layer).__name__: layer.trainable for layer in model._flatten_layers() if layer.weights}
    normalized = [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.BatchNormalization)]
    assert normalized
    assert not any(layer.trainable_variables for layer in normalized)
    assert kinds["Conv2D"] is kinds["Dense"] is True
    assert model.output_shape == (None, 64)


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
