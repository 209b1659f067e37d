"""The motorcycle stereo pair: its grid, its direction, and the error of windows compared pixel by pixel."""

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


def test_normalized_cross_correlation_errs_as_often_as_documented(pair):
    assert stereo_error(pair, grey, window=32) == pytest.approx(0.128, abs=5e-4)
    assert stereo_error(pair, grey, window=16, batch_size=777) == pytest.approx(0.056, abs=5e-4)
