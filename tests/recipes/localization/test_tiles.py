"""Tiles of a map for the places of photo patches."""

import numpy as np
import pytest

import tfdml
from recipes import localization
from recipes.localization import tiles


@pytest.fixture(scope="module")
def validation():
    return tfdml.datasets.photo_patches(splits=["validation"])[0].select_classes(range(55, 70))


def test_each_place_has_one_tile_in_the_colors_of_a_map(validation):
    drawn = localization.map_tiles(validation)
    assert drawn.images.shape == (15, 48, 48, 3)
    np.testing.assert_array_equal(drawn.labels, np.arange(15))
    assert drawn.class_names == validation.class_names
    assert {tuple(color) for color in drawn.images.reshape(-1, 3)} == {tuple(color) for color in tiles.PALETTE}


def test_a_tile_is_its_definition_in_loops(validation):
    drawn = localization.map_tiles(validation)
    row = 8  # in the second photograph
    name = drawn.photograph_names[drawn.photographs[row]]
    assert name == "coins"
    pixels = tfdml.datasets.photograph(name).astype(int)
    height, width = pixels.shape[:2]
    (x, y) = drawn.places[row]
    small = np.zeros((48, 48), int)
    for v in range(96):
        for u in range(96):
            red, green, blue = pixels[min(max(y - 48 + v, 0), height - 1), min(max(x - 48 + u, 0), width - 1)]
            small[v // 2, u // 2] += 299 * red + 587 * green + 114 * blue
    padded = np.pad(small, 1, "edge")
    smooth = np.array([[padded[v : v + 3, u : u + 3].sum() for u in range(48)] for v in range(48)])
    ordered = sorted(smooth.reshape(-1).tolist())
    limits = [ordered[48 * 48 * fifth // 5] for fifth in range(1, 5)]
    expected = tiles.PALETTE[[[sum(value > limit for limit in limits) for value in line] for line in smooth]]
    np.testing.assert_array_equal(drawn.images[row], expected)
