"""Glyphs painted on photographs, and the plain glyphs of other designs."""

import numpy as np

import tfdml
from recipes import product_search
from tfdml.datasets.photo_patches.patches import PhotoPatches


def test_scenes_and_products_share_classes_and_no_design():
    part, rows = tfdml.datasets.glyphs(validation=True)[1].select_classes(range(6)), np.arange(5)
    backgrounds = PhotoPatches(
        images=np.random.default_rng(0).integers(0, 256, (5, 64, 64, 3), np.uint8),
        places=np.zeros((5, 2), np.int64),
        **dict.fromkeys(("labels", "photographs", "views"), rows),
        **dict.fromkeys(("class_names", "photograph_names"), tuple("abcde")),
    )
    scenes, products = product_search.scenes(part, backgrounds)
    assert len(scenes) + len(products) == len(part)
    assert set(scenes.designs) & set(products.designs) == set()
    assert set(scenes.labels) == set(products.labels) == set(range(6))
    assert scenes.images.shape[1:] == products.images.shape[1:] == (32, 32, 3)
    plain = part.images[part.designs % 2 == 1]
    for channel in range(3):
        np.testing.assert_array_equal(products.images[..., channel], plain[..., 0])
