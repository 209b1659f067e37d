"""The settings of recipes/glyphs.py come from the validation classes."""

import inspect

from recipes import glyphs as recipe
from studies import glyphs_choice, runner


def test_the_recipe_has_the_settings_of_the_best_trial():
    rows = runner.read_rows(glyphs_choice.ROWS)
    assert {row["protocol"] for row in rows} == {"glyphs/class-disjoint-validation/exact-cosine/v1"}
    chosen = glyphs_choice.best(rows)
    defaults = {name: option.default for name, option in inspect.signature(recipe.build_model).parameters.items()}
    assert chosen.learning_rate == defaults["learning_rate"]
    assert (chosen.augmentation, defaults["augmentation"]) == (0, ())
    assert chosen.batch == "x".join(map(str, recipe.BATCH))
    loss = recipe.build_model(10).loss
    assert type(loss) is type(glyphs_choice.LOSSES[chosen.loss]())
    assert loss.get_config() == glyphs_choice.LOSSES[chosen.loss]().get_config()
