"""Glyphs painted on photographs, and the plain glyphs of other designs."""

import numpy as np
import pytest

import tfdml
from recipes import product_search
from recipes.product_search.painting import _painted
from tfdml.datasets.photo_patches.patches import PhotoPatches


@pytest.fixture(scope="module")
def part():
    return tfdml.datasets.glyphs(validation=True)[1].select_classes(range(6))


@pytest.fixture(scope="module")
def backgrounds():
    images = np.random.default_rng(0).integers(0, 256, (5, 64, 64, 3), np.uint8)
    rows = np.arange(5)
    return PhotoPatches(
        images=images,
        labels=rows,
        class_names=tuple("abcde"),
        photographs=rows,
        places=np.zeros((5, 2), np.int64),
        views=rows,
        photograph_names=tuple("abcde"),
    )


def test_scenes_and_products_share_classes_and_no_design(part, backgrounds):
    scenes, products = product_search.scenes(part, backgrounds)
    assert len(scenes) + len(products) == len(part)
    assert set(scenes.designs) & set(products.designs) == set()
    assert set(scenes.labels) == set(products.labels) == set(range(6))
    assert scenes.images.shape[1:] == products.images.shape[1:] == (32, 32, 3)
    plain = part.images[part.designs % 2 == 1]
    for channel in range(3):
        np.testing.assert_array_equal(products.images[..., channel], plain[..., 0])


def test_full_ink_has_one_light_color_and_no_ink_shows_the_dimmed_patch():
    patches = np.full((1, 40, 40, 3), [10, 100, 250], np.uint8)
    ink = np.zeros((3, 32, 32), np.uint8)
    ink[:, 8:24, 8:24] = 255
    for image in _painted(ink, patches, np.random.default_rng(0)):
        painted, background = sorted(np.unique(image.reshape(-1, 3), axis=0).tolist(), key=lambda color: -color[0])
        assert background == [6, 60, 150]  # 0.6 of the patch
        assert min(painted) >= 170
        assert (image == painted).all(axis=2).sum() == 16 * 16
        rows = np.flatnonzero((image == painted).all(axis=2).any(axis=1))
        assert 5 <= rows[0] <= 11  # moved by up to three pixels
