"""The sweep over the options of a loss."""

import json
import runpy

import optuna
import pytest

pytestmark = pytest.mark.slow


def sweep(monkeypatch, output, trials):
    monkeypatch.setattr("sys.argv", ["sweep", "--quick", "--trials", str(trials), "--output", str(output)])
    runpy.run_module("recipes.sweep", run_name="__main__")
    return json.loads((output / "results.json").read_text())


def test_a_second_start_adds_the_missing_trials_and_the_test_classes_stay_closed(tmp_path, monkeypatch, capsys):
    first = sweep(monkeypatch, tmp_path, 1)
    assert first["protocol"] == "glyphs/class-disjoint-validation/exact-cosine/v1/first-40-classes"
    (defaults,) = first["trials"]
    assert (defaults["alpha"], defaults["beta"], defaults["threshold"], defaults["margin"]) == (2.0, 50.0, 0.5, 0.1)
    assert 0 < defaults["map@r"] < 1
    second = sweep(monkeypatch, tmp_path, 2)
    assert len(second["trials"]) == 2
    assert defaults in second["trials"]
    assert second["trials"][0]["map@r"] >= second["trials"][1]["map@r"]
    assert f"{100 * defaults['map@r']:.1f}" in capsys.readouterr().out


def test_trials_after_a_resume_do_not_repeat_the_draws_of_the_first_start(tmp_path):
    open_study = runpy.run_module("recipes.sweep")["open_study"]
    drawn = []
    for _ in range(3):  # three starts of one seed
        study = open_study(tmp_path, seed=0)
        trial = study.ask()
        drawn.append(trial.suggest_float("alpha", 0.5, 20.0, log=True))
        study.tell(trial, 0.5, state=optuna.trial.TrialState.COMPLETE)
    assert drawn[0] == 2.0  # the default
    assert len(set(drawn)) == 3
