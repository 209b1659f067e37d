"""Photographs of things: where they come from, how they are drawn, and a quick run of all ways to tune."""

import zlib
from itertools import combinations

import numpy as np
import pytest

from recipes import things as recipe
from tests.recipes.quick import results_of

CHECKSUMS = [1206083491, 4180556343, 4135493965]


def test_no_photograph_is_in_two_splits():
    for one, other in combinations(recipe.PHOTOGRAPHS.values(), 2):
        assert one.keys().isdisjoint(other)


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
    record = results_of(monkeypatch, "things", tmp_path)
    assert record["protocol"] == "things/photograph-disjoint-validation/exact-cosine/v1"
    assert list(record["results"]) == ["as it is", "linear head", "LoRA", "all"]
    trained = [row["trained"] for row in record["results"].values()]
    assert trained[:2] == [0, 0]
    assert 0 < trained[2] < trained[3] == 1
    assert (tmp_path / "things.png").read_bytes().startswith(b"\x89PNG")
    assert f"{100 * record['results']['LoRA']['map@r']:.1f}" in capsys.readouterr().out
