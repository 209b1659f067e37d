"""The recipe of the models of savedmodels."""

import csv
import runpy

import pytest

from tests.recipes import quick
from tfdml import zoo


@pytest.mark.slow
def test_it_trains_models_and_writes_entries_that_load(tmp_path, monkeypatch, capsys):
    quick.run(monkeypatch, "zoo", tmp_path)
    root = tmp_path / "quick" / "savedmodels"
    assert zoo.list_models(root).names == ("glyphs-2d", "glyphs-sketches")
    card = zoo.card("glyphs-2d", root=root)
    assert str(card) in capsys.readouterr().out
    assert (card.dimension, card.classes) == (2, 40)
    assert card.protocol == "glyphs/class-disjoint/exact-euclidean/v1/first-40-classes"
    assert card.training["data"] == "glyphs/class-disjoint-train/exact-cosine/v1/first-40-classes"
    model = zoo.load("glyphs-sketches", root=root)
    assert model.towers[0].output.shape == (None, 64)
    assert all((weight == weight.astype("float16")).all() for weight in model.get_weights())


def test_the_settings_of_the_models_are_the_best_of_their_trials():
    recipe = runpy.run_path(str(quick.RECIPES / "zoo.py"))
    rows = list(csv.DictReader(recipe["CHOICE"].read_text().splitlines()))
    assert {row["model"] for row in rows} == set(recipe["TRIALS"])
    for name in recipe["TRIALS"]:
        best = max((row for row in rows if row["model"] == name), key=lambda row: float(row["map@r"]))
        run = recipe["RUNS"][name]
        assert (best["loss"], float(best["learning_rate"])) == (run.loss, run.learning_rate)
        assert "validation" in best["protocol"]
