"""Captions of glyphs: two towers of images and texts."""

import json
import runpy
from pathlib import Path

import keras
import numpy as np
import pytest

RECIPE = str(Path(__file__).parents[2] / "recipes" / "captions.py")


def test_styles_are_those_of_the_names_of_typefaces():
    style_of = runpy.run_path(RECIPE)["style_of"]
    assert style_of("DejaVuSans-BoldOblique") == {"sans-serif", "bold", "slanted"}
    assert style_of("DejaVuSansMono") == {"monospaced"}
    assert style_of("STIXGeneralBolIta") == {"serif", "bold", "slanted"}
    assert style_of("cmtt10") == {"monospaced"}


@pytest.mark.slow
def test_both_losses_are_measured_on_unseen_characters_and_models_are_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["captions", "--quick", "--output", str(tmp_path)])
    runpy.run_path(RECIPE, run_name="__main__")
    record = json.loads((tmp_path / "results.json").read_text())
    assert set(record["results"]) == {"softmax", "sigmoid"}
    for name, (run,) in record["results"].items():
        assert run["recall@10"] > 10 * run["chance"]
        model = keras.saving.load_model(tmp_path / f"{name}.keras")
        vectors = model.towers[1].predict(np.ones((2, 16), "int64"), verbose=0)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-4)
    assert f"{100 * record['results']['softmax'][0]['recall@1']:.1f}" in capsys.readouterr().out
