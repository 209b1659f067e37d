"""The pictures of losses in two dimensions, with few steps."""

import keras
import numpy as np
import pytest

from studies import plane


def test_the_spread_is_the_median_angle_to_the_center_of_the_class():
    angle = np.radians([-10.0, 10.0])
    x = np.tile(np.stack([np.cos(angle), np.sin(angle)], axis=1), (plane.CLASSES, 1))
    assert plane.spread(x, np.repeat(np.arange(plane.CLASSES), 2)) == pytest.approx(10)


@pytest.mark.slow
@pytest.mark.parametrize(("panels", "on_circle"), [(plane.PLANE, False), (plane.CIRCLE, True)])
def test_a_picture_is_drawn(panels, on_circle, tmp_path):
    first_two = dict(list(panels.items())[:2])
    plane.draw(tmp_path / "plane.png", first_two, plane.digits(), on_circle=on_circle, steps=2)
    assert (tmp_path / "plane.png").stat().st_size > 1000


@pytest.mark.slow
def test_the_picture_of_margins_is_drawn_from_images(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 10
    images = rng.random((200, 28, 28, 1)).astype("float32")
    first_two = dict(list(plane.MARGINS.items())[:2])
    plane.draw(
        tmp_path / "plane.png",
        first_two,
        (images, images, labels, labels),
        on_circle=False,
        steps=2,
        names=plane.FASHION,
    )
    assert (tmp_path / "plane.png").stat().st_size > 1000
    features = plane.hidden(keras.Input((28, 28, 1)))
    assert features.shape == (None, 256)
