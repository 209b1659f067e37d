"""Photographs of things: where they come from, how they are drawn, and a quick run of all ways to tune."""

import json
import runpy
import zlib
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from recipes import things as recipe

RECIPE = str(Path(__file__).parents[2] / "recipes" / "things.py")
CHECKSUMS = [1206083491, 4180556343, 4135493965]


def test_no_photograph_is_in_two_splits():
    for one, other in combinations(recipe.PHOTOGRAPHS.values(), 2):
        assert one.keys().isdisjoint(other)


def test_a_photo_shows_its_thing_on_other_photographs_of_its_split(monkeypatch):
    cut, backgrounds = [], []
    gray = Image.new("RGB", (128, 128))
    monkeypatch.setattr(recipe, "photograph", cut.append)
    monkeypatch.setattr(recipe, "cutout", lambda picture, box, rng: (gray, Image.new("L", gray.size)))
    monkeypatch.setattr(recipe, "background", lambda file, rng: backgrounds.append(file) or gray.copy())
    for split, things in recipe.PHOTOGRAPHS.items():
        file, boxes = next(iter(things.items()))
        cut.clear(), backgrounds.clear()
        for i in range(60):
            recipe.view(file, next(iter(boxes.values())), split, np.random.default_rng(i))
        assert cut == 60 * [file]
        assert set(backgrounds) == set(things) - {file}


def test_every_thing_is_inside_its_photograph():
    for things in recipe.PHOTOGRAPHS.values():
        for file, boxes in things.items():
            width, height = recipe.photograph(file).size
            for left, upper, right, lower in boxes.values():
                assert 0 <= left < right <= width
                assert 0 <= upper < lower <= height


def test_photos_have_the_same_pixels_in_every_run():
    validation, test = recipe.things(("validation", "test"), views=2, most=2)
    assert validation.images.shape == (4, 128, 128, 3)
    assert validation.labels.tolist() == [0, 0, 1, 1]
    assert test.class_names == ("astronaut face", "astronaut flag")
    assert [zlib.crc32(image) for image in (*validation.images[:2], test.images[-1])] == CHECKSUMS
    (alone,) = recipe.things(("test",), views=1, most=1)
    np.testing.assert_array_equal(alone.images[0], test.images[0])


@pytest.mark.slow
def test_a_quick_run_measures_every_way_on_the_validation_part(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["things", "--quick", "--output", str(tmp_path)])
    runpy.run_path(RECIPE, run_name="__main__")
    record = json.loads((tmp_path / "results.json").read_text())
    assert record["protocol"] == "things/photograph-disjoint-validation/exact-cosine/v1"
    assert list(record["results"]) == ["as it is", "linear head", "LoRA", "all"]
    trained = [row["trained"] for row in record["results"].values()]
    assert trained[:2] == [0, 0]
    assert 0 < trained[2] < trained[3] == 1
    assert (tmp_path / "things.png").read_bytes().startswith(b"\x89PNG")
    assert f"{100 * record['results']['LoRA']['map@r']:.1f}" in capsys.readouterr().out
