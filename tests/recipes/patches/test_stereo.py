"""The motorcycle stereo pair: its grid, its direction, and the error of windows compared pixel by pixel."""

import dataclasses

import numpy as np
import pytest

from recipes.patches import motorcycle_stereo, stereo_error


@pytest.fixture(scope="module")
def pair():
    return motorcycle_stereo()


def grey(windows):
    """Grey windows minus their mean: their cosine is the normalized cross-correlation."""
    flat = (windows.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)).reshape(len(windows), -1)
    return flat - flat.mean(axis=1, keepdims=True)


def test_the_grid_has_the_documented_points(pair):
    assert pair.left.shape == pair.right.shape == (500, 741, 3)
    assert len(pair.points) == 421
    assert pair.visible.sum() == 374
    assert np.isfinite(pair.disparity).mean() == pytest.approx(0.927, abs=5e-4)
    assert pair.protocol == "motorcycle-stereo/left-grid/bad3/v1"


def test_the_left_pixel_is_the_right_pixel_minus_the_disparity(pair):
    y, x = np.nonzero(np.isfinite(pair.disparity))
    d = np.rint(pair.disparity[y, x]).astype(int)
    inside = (x - d >= 0) & (x + d < 741)
    y, x, d = y[inside], x[inside], d[inside]

    def difference(columns):
        return np.abs(pair.left[y, x].astype(int) - pair.right[y, columns]).mean()

    assert difference(x - d) < 0.6 * difference(x + d)


def test_a_hidden_point_is_behind_another_one_in_the_right_image(pair):
    x, y = pair.points[~pair.visible][5]
    row = pair.disparity[y].astype(float)
    others = np.abs((np.arange(741) - row) - (x - row[x])) <= 2
    assert (row[others & np.isfinite(row)] > row[x] + 1).any()


def test_normalized_cross_correlation_errs_as_often_as_documented(pair):
    assert stereo_error(pair, grey, window=32) == pytest.approx(0.128, abs=5e-4)
    assert stereo_error(pair, grey, window=16, batch_size=777) == pytest.approx(0.056, abs=5e-4)


def test_windows_are_those_around_the_points(pair):
    """A right image whose pixels say their column, and the same as the left image, 30 pixels further right."""
    right = np.broadcast_to((np.arange(741) % 256).astype(np.uint8)[None, :, None], (500, 741, 3))

    def angle(windows):
        middle = windows[:, 2, 2, 0] * (2 * np.pi / 256)
        return np.stack([np.cos(middle), np.sin(middle)], axis=1)

    moved = dataclasses.replace(
        pair, left=np.roll(right, 30, axis=1), right=right, disparity=np.full((500, 741), 30.0, np.float32)
    )
    assert stereo_error(moved, angle, window=4) == 0.0
    assert stereo_error(dataclasses.replace(moved, left=np.roll(right, 34, axis=1)), angle, window=4) == 1.0
