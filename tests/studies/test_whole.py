"""The board of whole networks: what is trained together, what is chosen, and the published rows."""

from dataclasses import asdict, replace

import keras
import numpy as np
import pytest

from studies import pages, runner
from studies.leaderboard import setting, whole


def result(run):
    score = run.learning_rate + run.seed / 100 + len(run.settings) / 1000
    about = dict.fromkeys(("protocol", "backend", "finished", "hardware", "versions"), run.part)
    return {"run": asdict(run), "scores": {"recall@1": score, "map@r": score}, "core_seconds": 1.0, **about}


class Bench:
    """A bench that trains nothing."""

    waves: list[list]

    def __init__(self, *arguments):
        pass

    def results(self, runs):
        Bench.waves.append(runs)
        return [result(run) for run in runs]


@pytest.fixture
def options(tmp_path, monkeypatch):
    monkeypatch.setattr(whole, "Bench", Bench)
    monkeypatch.setattr(Bench, "waves", [], raising=False)
    return setting.options(tmp_path / "runs", workers=1)


def test_every_method_has_four_trials_then_five_seeds_of_the_best(options):
    rows = whole.trained(options, whole.base(options), 20)
    assert list(map(len, Bench.waves)) == [*[20] * 11, 12, 20]
    assert list(dict.fromkeys(row["loss"] for row in rows)) == list(whole.LOSSES)
    assert len(rows) == len(whole.LOSSES) * (4 + 5) == sum(map(len, Bench.waves))
    for loss in whole.LOSSES:
        of_loss = runner.where(rows, loss=loss)
        best = max(runner.where(of_loss, part="validation"), key=lambda row: row["map@r"])
        tested = runner.where(of_loss, part="test")
        assert [row["seed"] for row in tested] == [1, 2, 3, 4, 5]
        assert {(row["learning_rate"], row["settings"]) for row in tested} == {
            (best["learning_rate"], best["settings"])
        }
    assert whole.trained(options, whole.base(options), 20) == rows
    assert len(Bench.waves) == 13


def test_learning_rates_are_those_of_the_schedule_of_keras():
    run = replace(setting.Run(), steps=40, learning_rate=0.005)
    rate = keras.optimizers.schedules.CosineDecay(0.0, 36, warmup_target=0.005, warmup_steps=4)
    np.testing.assert_allclose(whole.rate_of(run), [float(rate(step)) for step in range(40)], atol=1e-8)


def test_the_page_states_the_differences_of_the_rows():
    rows = runner.where(runner.read_rows(whole.FILE), part="test")
    mean = {loss: runner.mean_of(runner.where(rows, loss=loss), "map@r") for loss in whole.LOSSES}
    text = " ".join((pages.ROOT / "docs" / "leaderboard.md").read_text().split())
    ahead = [mean[loss] - mean["RAW"] for loss in ("KL", "grouped KL", "TopK", "TopK-PN")]
    assert f"{min(ahead):.1f} to {max(ahead):.1f} points of MAP@R ahead of RAW" in text
    assert f"the binomial deviance is {mean['RAW'] - mean['TopK of binomial']:.0f} points behind" in text
    assert f"negatives gain {mean['margin'] - mean['margin, random']:.0f} points of MAP@R" in text
    weights = mean["balanced contrastive"] - mean["balanced contrastive, no weights"]
    assert f"with them it gains {weights:.0f} points" in text
