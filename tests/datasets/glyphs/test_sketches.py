"""Outlines of glyphs, and the sets of queries and of gallery made of them."""

import numpy as np
import pytest
from scipy import ndimage

import tfdml


@pytest.fixture(scope="module")
def part():
    return tfdml.datasets.glyphs(validation=True)[1]


@pytest.mark.slow
def test_outlines_are_morphological_gradients(part):
    images = part.images[:5]
    for image, outline in zip(images[..., 0], tfdml.datasets.outlines(images)[..., 0], strict=True):
        expected = ndimage.morphological_gradient(image.astype(int), size=(3, 3), mode="nearest")
        np.testing.assert_array_equal(outline, expected)


def test_no_query_is_the_outline_of_an_image_of_the_gallery(part):
    few = part.select_classes(range(5))
    queries, gallery = tfdml.datasets.sketches(few)
    of_gallery = {image.tobytes() for image in tfdml.datasets.outlines(gallery.images)}
    assert len(queries) + len(gallery) == len(few)
    assert not of_gallery & {image.tobytes() for image in queries.images}
    assert set(queries.designs) & set(gallery.designs) == set()


def test_sketches_have_the_protocol_of_their_part_and_their_own_words(part):
    queries, gallery = tfdml.datasets.sketches(part)
    assert queries.protocol == gallery.protocol == f"{part.protocol}/outlines-against-other-designs"
    assert tfdml.datasets.sketches(part.select_classes(range(2)))[0].protocol is None
