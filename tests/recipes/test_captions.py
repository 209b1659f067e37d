"""Captions of glyphs: two towers of images and texts."""

import keras
import numpy as np
import pytest

import tfdml
from tests.recipes.quick import results_of
from tests.small_networks import write_image_text_preset
from tests.worlds import write_png


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


@pytest.mark.slow
@pytest.mark.parametrize("start", ["preset", "scratch"])
def test_two_towers_are_tuned_on_pairs_without_classes(start, tmp_path, monkeypatch, capsys):
    """Forty photos with two captions each, of which two photos share one: one subject."""
    rng, lines = np.random.default_rng(0), ["path,caption"]
    for row in range(40):
        write_png(tmp_path / "photos" / f"{row}.png", rng.integers(0, 256, (16, 16, 3)).astype("uint8"))
        lines += [f"photos/{row}.png,a red bird {row if row > 1 else 0}", f"photos/{row}.png,blue wings {row}"]
    (tmp_path / "captions.csv").write_text("\n".join(lines))
    words = ["--captions", tmp_path / "captions.csv"]
    if start == "preset":
        write_image_text_preset(tmp_path / "preset", "siglip", length=24)
        words += ["--preset", tmp_path / "preset"]
    record = results_of(monkeypatch, "captions", tmp_path / "run", *words)
    names = [f"{sides}, Recall@{k}" for sides in ("text to image", "image to text") for k in (1,)]
    assert set(names) <= set(record["before"])
    assert set(record["before"]) == set(record["after"])
    assert "after the training" in capsys.readouterr().out
    model = keras.saving.load_model(tmp_path / "run" / "pair.keras")
    texts = tfdml.models.TextModel(model)(["a red bird 3"])
    assert texts.shape == (1, model.towers[0].output_shape[1])
    assert (model.bias is None) == (start == "scratch")
