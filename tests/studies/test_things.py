"""The study of ways to tune a pretrained network: photos, choice, table, and the whole story with a tiny network."""

import csv
from types import SimpleNamespace

import numpy as np
import pytest

import tfdml
from studies import pages, runner, things


def test_few_photos_are_the_first_views_of_every_fourth_thing():
    labels = np.repeat(np.arange(72), things.VIEWS)
    images = np.arange(len(labels)).reshape(-1, 1, 1, 1)
    train = tfdml.datasets.LabeledSet(images=images, labels=labels, class_names=tuple(map(str, range(72))))
    for number, photos in things.PHOTOS.items():
        assert len(photos.of(train)) == number
    few = things.PHOTOS[72].of(train)
    assert few.class_names == tuple(map(str, range(0, 72, 4)))
    assert few.images[:5].ravel().tolist() == [0, 1, 2, 3, 64]
    np.testing.assert_array_equal(things.PHOTOS[1152].of(train).images, images)


def test_a_mean_is_over_seeds_and_its_interval_over_things():
    part = SimpleNamespace(labels=np.repeat(np.arange(6), 2))
    costs = {"trained": 0.1, "trained_with_head": 0.2}
    results = [{"run": things.Run(seed=seed).__dict__, "core_seconds": 10.0 * seed, **costs} for seed in (0, 1)]
    ones = [[0, 0, 1, 1] * 3, [0, 0, 1, 0] * 3]
    tested = [{"queries": dict.fromkeys(things.KEYS, values)} for values in ones]
    row = things.row_of(results, tested, part, seed="mean")
    assert row["map@r"] == 0.375
    assert (row["map@r low"], row["map@r high"]) == tfdml.metrics.class_interval(np.mean(ones, axis=0), part.labels)
    assert (row["way"], row["photos"], row["core_seconds"]) == ("linear head", 72, 5)


@pytest.mark.slow
def test_a_quick_run_leaves_the_rows_of_all_ways_and_trains_nothing_twice(tmp_path, capsys):
    arguments = ["--quick", "--output", str(tmp_path)]
    things.main(arguments)
    assert " trained: " in capsys.readouterr().out
    rows = list(csv.DictReader((tmp_path / "things.csv").read_text().splitlines()))
    assert [row["way"] for row in rows[::2]] == ["as it is", "linear head", "LoRA", "all"]
    assert [row["seed"] for row in rows] == ["none", *3 * ["0", "mean"]]
    assert {row["protocol"] for row in rows} == {"things/photograph-disjoint/exact-cosine/v1"}
    trials = list(csv.DictReader((tmp_path / "things_choice.csv").read_text().splitlines()))
    assert [row["way"] for row in trials] == list(things.RATES)
    assert {row["protocol"] for row in trials} == {"things/photograph-disjoint-validation/exact-cosine/v1"}
    things.main(arguments)
    assert " trained: " not in capsys.readouterr().out


def test_the_published_runs_are_those_of_the_choice_and_lora_trains_at_most_two_percent():
    at, rows = things.Setting(pages.ROOT), runner.read_rows(things.ROWS)
    seeds = [run for seeds in things.chosen(runner.read_rows(things.CHOICE), at).values() for run in seeds]
    published = [row for row in rows if isinstance(row["seed"], float)]
    keys = ("way", "photos", "learning_rate", "seed")
    assert [[row[key] for key in keys] for row in published] == [[getattr(run, key) for key in keys] for run in seeds]
    assert {row["trained"] <= 0.02 for row in runner.where(rows, way="LoRA")} == {True}
