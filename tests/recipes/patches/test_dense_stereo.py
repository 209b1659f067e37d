"""Dense stereo: matches of features and windows by loops, and the pixels that are measured."""

import numpy as np
import pytest

from recipes.patches import dense_stereo_errors, match_features, match_windows, motorcycle_stereo


def test_a_pixel_has_the_disparity_of_the_most_similar_pixel_of_its_row():
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(2, 3, 12, 4)).astype(np.float32)
    disparities = match_features(left, right, largest=5)
    for y, x in np.ndindex(3, 12):
        scores = [left[y, x] @ right[y, x - d] for d in range(min(x, 5) + 1)]
        assert disparities[y, x] == np.argmax(scores)
    np.testing.assert_array_equal(match_features(np.ones((2, 4, 1)), np.ones((2, 4, 1))), np.zeros((2, 4)))


def test_windows_are_compared_by_the_correlation_coefficient():
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 256, (2, 6, 14))
    disparities = match_windows(left, right, window=3, largest=4)
    padded = [np.pad(image, 1, "edge") for image in (left, right)]
    for y, x in np.ndindex(6, 14):
        window = padded[0][y : y + 3, x : x + 3].ravel()
        others = [padded[1][y : y + 3, x - d : x - d + 3].ravel() for d in range(min(x, 4) + 1)]
        assert disparities[y, x] == np.argmax([np.corrcoef(window, other)[0, 1] for other in others])


def test_the_motorcycle_has_the_documented_pixels_and_cross_correlation_its_error():
    pair = motorcycle_stereo()
    truth = np.where(np.isfinite(pair.disparity), pair.disparity, 0)
    errors = dense_stereo_errors(pair, truth + 3.5)
    assert len(errors.bad) == 308_397
    assert errors.bad.all()
    assert not dense_stereo_errors(pair, truth - 2.9).bad.any()
    assert {*errors.blocks} == {*range(150)} - {135}  # 10 rows of 15 blocks; the lowest one at the left is hidden
    left, right = (image @ np.array([0.299, 0.587, 0.114]) for image in (pair.left, pair.right))
    errors = dense_stereo_errors(pair, match_windows(left, right, window=9))
    assert errors.bad.mean() == pytest.approx(0.0785, abs=5e-5)
