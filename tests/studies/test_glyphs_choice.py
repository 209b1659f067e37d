"""The settings of recipes/glyphs.py come from the validation classes."""

import inspect
import json
from dataclasses import asdict, replace

import pytest

import tfdml
from recipes import glyphs as recipe
from studies import glyphs_choice, pages, runner
from studies.glyphs_choice import Trial

BASE = Trial()


def result(trial, score):
    return {
        "run": asdict(trial),
        "validation": {"recall@1": score, "map@r": score},
        **dict.fromkeys(("seconds", "protocol", "versions", "hardware"), "measured"),
    }


def test_a_trial_of_the_first_round_changes_one_setting():
    first, *others = glyphs_choice.first_round(BASE, {"loss": ["contrastive"], "widths": ["1-2", "3-4"]})
    assert first == BASE
    assert others == [replace(BASE, loss="contrastive"), replace(BASE, widths="1-2"), replace(BASE, widths="3-4")]


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


def test_the_base_and_the_combination_get_a_second_seed():
    better = [replace(BASE, batch="64x2"), replace(BASE, augmentation=2.0)]
    both = replace(BASE, batch="64x2", augmentation=2.0)
    results = [result(BASE, 0.5), *(result(trial, 0.6) for trial in better)]
    expected = [replace(BASE, seed=1), both, replace(both, seed=1)]
    assert glyphs_choice.second_round(BASE, results) == expected
    assert glyphs_choice.second_round(BASE, results[:2]) == [replace(BASE, seed=1), replace(better[0], seed=1)]


def test_the_best_finalist_has_the_highest_mean_over_its_two_seeds():
    other = replace(BASE, batch="64x2")
    lucky = replace(BASE, loss="contrastive")
    scores = {BASE: 0.6, replace(BASE, seed=1): 0.6, other: 0.7, replace(other, seed=1): 0.4, lucky: 0.9}
    rows = glyphs_choice.rows_of([result(trial, score) for trial, score in scores.items()])
    assert glyphs_choice.best(rows) == BASE
    table = glyphs_choice.table(rows).splitlines()
    assert table[2:] == [
        "| nothing changed | 2 | 60.0 | 60.0 |",
        "| batch 64x2 | 2 | 55.0 | 55.0 |",
        "| loss contrastive | 1 | 90.0 | 90.0 |",
    ]


def test_trials_are_trained_once_and_written_as_rows(monkeypatch, tmp_path):
    trained = []

    def invented(trial):
        trained.append(trial)
        return result(trial, trial.augmentation / 10)

    monkeypatch.setattr(glyphs_choice, "train", invented)
    for _ in range(2):
        results = glyphs_choice.choose(tmp_path / "runs", BASE, {"augmentation": [0.0, 2.0]})
        runner.write_rows(tmp_path / "rows.csv", glyphs_choice.rows_of(results))
    assert len(trained) == 5
    rows = runner.read_rows(tmp_path / "rows.csv")
    assert [(row["augmentation"], row["seed"]) for row in rows] == [(1, 0), (0, 0), (2, 0), (1, 1), (2, 1)]
    assert glyphs_choice.best(rows) == replace(BASE, augmentation=2.0)


@pytest.mark.slow
def test_a_trial_trains_and_is_measured_on_the_validation_classes(monkeypatch):
    train, validation, test = tfdml.datasets.glyphs(validation=True)
    monkeypatch.setattr(tfdml.datasets, "glyphs", lambda **options: (train, validation, None))
    glyphs_choice._parts.cache_clear()
    found = glyphs_choice.train(Trial(steps=2, classes=16, batch="4x2", widths="4-4"))
    assert found["protocol"] == validation.protocol != test.protocol
    assert 0 < found["validation"]["map@r"] < 1
    assert "keras" in found["versions"]
    json.dumps(found)


def test_the_recipe_has_the_settings_of_the_best_finalist():
    chosen = glyphs_choice.best(runner.read_rows(glyphs_choice.ROWS))
    defaults = {name: option.default for name, option in inspect.signature(recipe.build_model).parameters.items()}
    assert chosen.widths == "-".join(map(str, defaults["widths"]))
    assert (chosen.augmentation, chosen.learning_rate) == (defaults["augmentation"], defaults["learning_rate"])
    assert chosen.batch == "x".join(map(str, recipe.BATCH))
    loss = recipe.build_model(10).loss
    assert loss.get_config() == glyphs_choice.LOSSES[chosen.loss]().get_config()


def test_every_trial_saw_the_validation_classes_only():
    rows = runner.read_rows(glyphs_choice.ROWS)
    assert {row["protocol"] for row in rows} == {"glyphs/class-disjoint-validation/exact-cosine/v1"}


def test_the_table_of_the_page_is_the_measured_one():
    table = glyphs_choice.table(runner.read_rows(glyphs_choice.ROWS))
    page = glyphs_choice.PAGE.read_text()
    assert pages.replaced(page, glyphs_choice.MARK, table) == page
