"""Quick runs of recipes."""

import json
import runpy
from pathlib import Path

RECIPES = Path(__file__).parents[2] / "recipes"


def run(monkeypatch, recipe, output, *words):
    """Run a recipe quickly: the name of one of one file, or a module with `main`."""
    is_file = isinstance(recipe, str)
    words = [recipe if is_file else recipe.__name__, "--quick", "--output", output, *words]
    monkeypatch.setattr("sys.argv", list(map(str, words)))
    if is_file:
        runpy.run_path(str(RECIPES / f"{recipe}.py"), run_name="__main__")
    else:
        recipe.main()


def results_of(monkeypatch, recipe, output, *words):
    """The results that a quick run of a recipe leaves in a folder."""
    run(monkeypatch, recipe, output, *words)
    return json.loads((output / "results.json").read_text())
