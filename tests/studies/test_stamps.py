"""The study of stamps: objects and their images."""

import numpy as np
from PIL import Image

from studies import stamps


def test_an_object_loses_its_border_and_its_images_depend_on_nothing_else():
    picture = np.zeros((40, 60, 4), np.uint8)
    picture[10:20, 5:35] = 200, 30, 30, 255
    cut = stamps.cutout(Image.fromarray(picture))
    assert cut.size == (30, 10)
    assert stamps.cutout(Image.fromarray(picture).resize((6000, 4000), Image.Resampling.NEAREST)).size == (256, 85)
    first, again, other = (stamps.part([("a", cut), ("b", cut)], name) for name in ("test", "test", "train"))
    np.testing.assert_array_equal(first.images, again.images)
    assert (first.images != other.images).any()
    assert first.labels.tolist() == [0] * stamps.VIEWS + [1] * stamps.VIEWS
    assert (first.protocol, other.protocol) == (
        "stamps/object-disjoint/exact-cosine/v1",
        "stamps/object-disjoint-train/exact-cosine/v1",
    )
    assert first.images.shape == (2 * stamps.VIEWS, 128, 128, 3)


def test_strangers_are_the_objects_without_an_item():
    labels = np.repeat(np.arange(4), stamps.VIEWS)
    assert stamps.with_strangers(np.eye(4)[labels], labels) == 1.0
    assert stamps.with_strangers(np.eye(4)[labels // 2], labels) == 0.0  # a stranger looks like a known object
