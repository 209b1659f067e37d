"""Captions of glyphs: two towers of images and texts."""

import keras
import numpy as np
import pytest

from tests.recipes.quick import results_of


@pytest.mark.slow
def test_both_losses_are_measured_on_unseen_characters_and_models_are_kept(tmp_path, monkeypatch, capsys):
    record = results_of(monkeypatch, "captions", tmp_path)
    assert set(record["results"]) == {"softmax", "sigmoid"}
    for name, (run,) in record["results"].items():
        assert run["recall@10"] > 10 * run["chance"]
        model = keras.saving.load_model(tmp_path / f"{name}.keras")
        vectors = model.towers[1].predict(np.ones((2, 16), "int64"), verbose=0)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-4)
    assert f"{100 * record['results']['softmax'][0]['recall@1']:.1f}" in capsys.readouterr().out
