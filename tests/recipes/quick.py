"""Quick runs of recipes."""

import json
import runpy
from pathlib import Path

RECIPES = Path(__file__).parents[2] / "recipes"


def run(monkeypatch, recipe, output, *words):
    """Run a recipe of one file quickly."""
    monkeypatch.setattr("sys.argv", [recipe, "--quick", "--output", str(output), *map(str, words)])
    runpy.run_path(str(RECIPES / f"{recipe}.py"), run_name="__main__")


def results_of(monkeypatch, recipe, output, *words):
    """The results that a quick run of a recipe leaves in a folder."""
    run(monkeypatch, recipe, output, *words)
    return json.loads((output / "results.json").read_text())
