"""The recipe of a comparison, small."""

import json

import pytest

from recipes import compare as recipe


@pytest.mark.slow
def test_the_recipe_compares_models_with_pixels(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["compare", "--quick", "--output", str(tmp_path / "out")])
    recipe.main()
    record = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert list(record["means"]) == ["pixels", *recipe.MODELS]
    assert [pair["better"] for pair in record["pairs"][:4]] == list(recipe.MODELS)
