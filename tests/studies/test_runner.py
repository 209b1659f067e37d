"""Runs that are trained once, tuned, repeated and summarized."""

import json
from dataclasses import dataclass

import pytest

from studies import runner


@dataclass(frozen=True)
class Run:
    loss: str = "a loss"
    learning_rate: float = 0.1
    seed: int = 0


def train(run):
    """Validation prefers the rate 0.2 for one loss, and 0.1 for the others; the test numbers count with the seed."""
    best = 0.2 if run.loss == "fast" else 0.1
    return {
        "run": vars(run),
        "validation": {"recall@1": 1 - abs(run.learning_rate - best)},
        "test": {"recall@1": 0.5 + 0.1 * run.seed},
        **dict.fromkeys(("seconds", "protocol", "hardware", "versions"), "-"),
    }


@pytest.fixture
def options(tmp_path):
    return runner.Options(Run(), train, tmp_path / "runs", rates=(0.05, 0.1, 0.2), seeds=(3, 4), workers=1)


def test_each_run_has_its_best_rate_and_every_seed(options):
    rows = runner.results([Run("slow"), Run("fast")], options)
    assert [(row["loss"], row["learning_rate"], row["seed"]) for row in rows] == [
        ("slow", 0.1, 3),
        ("slow", 0.1, 4),
        ("fast", 0.2, 3),
        ("fast", 0.2, 4),
    ]
    assert [row["recall@1"] for row in rows] == pytest.approx([0.8, 0.9] * 2)
    assert [row["validation recall@1"] for row in rows] == [1.0] * 4


def test_a_run_is_trained_once_and_kept_under_a_name_that_holds_its_settings(options, capsys):
    first, again = Run(), Run(loss="another one")
    runner.finished([first, again, first], options)
    assert capsys.readouterr().out.count("trained: ") == 2
    kept = options.folder / "loss-another-one_learning_rate-0.1_seed-0.json"
    assert json.loads(kept.read_text())["run"]["loss"] == "another one"
    runner.finished([again, first], options)
    assert capsys.readouterr().out == ""
    kept.unlink()
    results = runner.finished([again, first], options)
    assert capsys.readouterr().out == f"1 of 1 trained: {kept.stem}\n"
    assert [result["run"]["loss"] for result in results] == ["another one", "a loss"]
    assert not list(options.folder.glob(".*"))
