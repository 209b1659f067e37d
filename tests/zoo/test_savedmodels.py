"""The models of this repository."""

import runpy
from pathlib import Path

import pytest

from tfdml import zoo

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.parent.name for path in (ROOT / "savedmodels").glob("*/model.json"))


def test_the_table_of_the_models_is_current():
    assert (ROOT / "savedmodels" / "README.md").read_text() == zoo.list(ROOT / "savedmodels").markdown()


def test_the_models_are_those_of_the_recipe():
    recipe = runpy.run_path(str(ROOT / "recipes" / "zoo.py"))
    assert sorted(recipe["RUNS"]) == NAMES
    for name in NAMES:
        card = zoo.card(name, root=ROOT / "savedmodels")
        assert card.choice == recipe["CHOICES"][name]
        assert card.training.items() >= recipe["settings"](recipe["RUNS"][name]).items()


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_whole_and_takes_less_than_5_mb(name):
    assert zoo.verify(name, root=ROOT / "savedmodels") == ()
    files = [path for path in (ROOT / "savedmodels" / name).rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 5e6


@pytest.mark.parametrize("name", NAMES)
def test_each_saved_model_holds_every_weight_once(name):
    card = zoo.card(name, root=ROOT / "savedmodels")
    sizes = [size for file, size in card.sizes.items() if file.endswith(".data-00000-of-00001")]
    assert len(sizes) == max(1, len(card.towers))
    for size in sizes:
        assert 4 * card.parameters <= size < 4.1 * card.parameters


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_of_a_card_are_reproduced(name):
    found = zoo.evaluate(name, root=ROOT / "savedmodels")
    assert found.agrees, found
