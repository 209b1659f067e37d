"""The study of ways to tune a pretrained network: choice, table, and the whole story with a tiny network."""

import csv

import pytest

from studies import pages, runner, things


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
