"""The settings of recipes/glyphs.py come from the validation classes."""

import inspect
from dataclasses import asdict, replace

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
