"""The pictures of losses in two dimensions, with few steps."""

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
