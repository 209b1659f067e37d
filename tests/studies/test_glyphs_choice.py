"""The settings of recipes/glyphs.py come from the validation classes."""

import inspect
from dataclasses import asdict, replace

import pytest

import tfdml
from recipes import glyphs as recipe
from studies import glyphs_choice, runner
from studies.glyphs_choice import Trial

BASE = Trial()


def result(trial, score):
    return {
        "run": asdict(trial),
        "validation": {"recall@1": score, "map@r": score},
        **dict.fromkeys(("seconds", "protocol", "versions", "hardware"), "measured"),
    }


def test_a_trial_of_the_first_round_changes_one_setting():
    first, *others = glyphs_choice.first_round(BASE, {"loss": ["contrastive"], "batch": ["16x8", "64x2"]})
    assert first == BASE
    assert others == [replace(BASE, loss="contrastive"), replace(BASE, batch="16x8"), replace(BASE, batch="64x2")]


def test_the_best_value_of_each_setting_is_combined_and_worse_ones_are_left_out():
    scores = {
        BASE: 0.5,
        replace(BASE, learning_rate=1e-2): 0.7,
        replace(BASE, learning_rate=1e-3): 0.6,
        replace(BASE, loss="contrastive"): 0.4,
        replace(BASE, batch="64x2"): 0.55,
    }
    assert glyphs_choice.combination(BASE, scores) == replace(BASE, learning_rate=1e-2, batch="64x2")
    assert glyphs_choice.combination(BASE, {BASE: 0.5, replace(BASE, batch="64x2"): 0.5}) == BASE


def test_trials_close_to_the_best_one_get_a_second_seed():
    near, far = replace(BASE, batch="64x2"), replace(BASE, augmentation=2.0)
    scores = {BASE: 0.705, near: 0.7, far: 0.6}
    assert glyphs_choice.second_seeds(scores) == [replace(BASE, seed=1), replace(near, seed=1)]
    assert glyphs_choice.second_seeds(scores | {BASE: 0.72}) == []


def test_the_highest_mean_over_two_seeds_is_chosen():
    near, far = replace(BASE, batch="64x2"), replace(BASE, loss="contrastive")
    scores = {BASE: 0.69, near: 0.7, far: 0.5, replace(BASE, seed=1): 0.7, replace(near, seed=1): 0.5}
    rows = glyphs_choice.rows_of([result(trial, score) for trial, score in scores.items()])
    assert glyphs_choice.best(rows) == BASE
    assert glyphs_choice.best(rows[:3]) == near
    assert glyphs_choice.table(rows).splitlines()[2:] == [
        "| nothing changed | 2 | 69.5 | 69.5 |",
        "| batch 64x2 | 2 | 60.0 | 60.0 |",
        "| loss contrastive | 1 | 50.0 | 50.0 |",
    ]


def test_trials_are_trained_once_and_written_as_rows(monkeypatch, tmp_path):
    trained = []

    def invented(trial):
        trained.append(trial)
        return result(trial, trial.augmentation / 10)

    monkeypatch.setattr(glyphs_choice, "train", invented)
    for _ in range(2):
        results = glyphs_choice.choose(tmp_path / "runs", BASE, {"augmentation": [0.0, 2.0]})  # combined: 2.0
        runner.write_rows(tmp_path / "rows.csv", glyphs_choice.rows_of(results))
    assert len(trained) == 3
    rows = runner.read_rows(tmp_path / "rows.csv")
    assert [row["augmentation"] for row in rows] == [1, 0, 2]
    assert glyphs_choice.best(rows) == replace(BASE, augmentation=2.0)


@pytest.mark.slow
def test_a_trial_trains_and_is_measured_on_the_validation_classes(monkeypatch):
    train, validation, _ = tfdml.datasets.glyphs(validation=True)
    held_out = replace(validation.take(range(90)), protocol="validation")
    monkeypatch.setattr(tfdml.datasets, "glyphs", lambda **options: (train, held_out, None))
    found = glyphs_choice.train(Trial(steps=2, batch="4x2"))
    assert found["run"]["steps"] == 2
    assert found["protocol"] == "validation"
    assert 0 < found["validation"]["map@r"] < 1
    assert "keras" in found["versions"]


def test_the_recipe_has_the_settings_of_the_best_trial():
    chosen = glyphs_choice.best(runner.read_rows(glyphs_choice.ROWS))
    defaults = {name: option.default for name, option in inspect.signature(recipe.build_model).parameters.items()}
    assert chosen.learning_rate == defaults["learning_rate"]
    assert (chosen.augmentation, defaults["augmentation"]) == (0, ())
    assert chosen.batch == "x".join(map(str, recipe.BATCH))
    loss = recipe.build_model(10).loss
    assert type(loss) is type(glyphs_choice.LOSSES[chosen.loss]())
    assert loss.get_config() == glyphs_choice.LOSSES[chosen.loss]().get_config()


def test_every_trial_saw_the_validation_classes_only():
    rows = runner.read_rows(glyphs_choice.ROWS)
    assert {row["protocol"] for row in rows} == {"glyphs/class-disjoint-validation/exact-cosine/v1"}
