"""Entries of the zoo from presets: the recipe on a preset of random weights."""

import json

import pytest
from PIL import Image

import tfdml
from tests.recipes import quick
from tfdml import cli


@pytest.mark.slow
def test_a_preset_becomes_an_entry_that_images_and_texts_search(tmp_path, monkeypatch, capsys):
    root = tmp_path / "savedmodels"
    quick.run(monkeypatch, "presets", root)
    assert "of 8 descriptions find their photograph" in capsys.readouterr().out
    entry = root / "random"
    card = tfdml.zoo.card(entry)
    assert (card.license, card.preprocessing.fit, card.preprocessing.shape) == ("CC0-1.0", "stretch", (32, 32, 3))
    assert not tfdml.zoo.check(entry)
    texts, index = tfdml.models.TextModel.load(entry / "text"), tmp_path / "index"
    images = tfdml.zoo.load(entry)
    photo = tmp_path / "photos" / "coffee.png"
    photo.parent.mkdir()
    Image.fromarray(tfdml.datasets.photograph("coffee")).save(photo)
    assert texts.fingerprint == tfdml.models.fingerprint(images, card.preprocessing)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["embed", str(photo.parent), str(index), "--model", "random"]) == 0  # its name in savedmodels
    capsys.readouterr()
    assert cli.main(["search", "random", str(index), "--json", "--text", "a cup of coffee"]) == 0
    ((found,),) = [each["neighbors"] for each in json.loads(capsys.readouterr().out)]
    assert found["metadata"]["path"].endswith("coffee.png")
