"""Dense stereo: matches of features and windows by loops, and the pixels that are measured."""

import numpy as np
import pytest

from recipes.patches import StereoPair, dense_stereo_errors, match_features, match_windows, motorcycle_stereo


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


def test_a_shifted_image_is_matched_everywhere_and_flat_windows_with_nothing():
    scene = np.random.default_rng(0).integers(0, 256, (10, 40))
    left, right = scene[:, :-7], 0.5 * scene[:, 7:] + 20
    assert (match_windows(left, right, window=5)[:, 10:] == 7).all()
    assert (match_windows(np.full((5, 9), 7), np.full((5, 9), 3), window=3) == 0).all()


def pair_of(disparity):
    image = np.zeros((*disparity.shape, 3), np.uint8)
    points = np.zeros((0, 2), np.int64)
    visible = np.zeros(0, bool)
    return StereoPair(left=image, right=image, disparity=disparity, points=points, visible=visible, protocol="test")


def test_pixels_without_a_disparity_outside_and_hidden_ones_are_not_measured():
    disparity = np.full((2, 12), 1.0, np.float32)
    disparity[0, 2] = np.inf  # unknown
    disparity[1, 8:] = 5.0  # at the right columns 3 to 6, and one column of tolerance each way
    errors = dense_stereo_errors(pair_of(disparity), np.full((2, 12), 4.5), block=10)
    # The first row lacks column 0, which would be right column -1, and column 2. Of the second one, columns 1 and 2 are
    # at the right columns 0 and 1; columns 3 to 7 are hidden.
    assert errors.bad.tolist() == [True] * 10 + [True] * 2 + [False] * 4
    assert errors.blocks.tolist() == [0] * 8 + [1] * 2 + [0] * 4 + [1] * 2


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
