"""Simulated stereo strips: what corresponds, what is hidden, and where it comes from."""

import numpy as np
import pytest

from recipes.patches import stereo_strips
from recipes.patches.data import strips as module


@pytest.fixture(scope="module")
def strips():
    return stereo_strips(12, split="validation", height=20, width=96, seed=3)


def test_matches_are_inside_the_right_view_and_most_pixels_have_one(strips):
    seen = np.isfinite(strips.matches)
    assert 0.6 < seen.mean() < 0.98
    assert strips.matches[seen].min() > -1
    assert strips.matches[seen].max() < 96


def test_the_left_pixel_looks_like_its_match(strips):
    """Without light and noise, the gray levels of corresponding pixels are equal, but for slopes and interpolation."""
    y, _ = np.indices((20, 96))
    similar = []
    for left, right, matches in zip(strips.left, strips.right, strips.matches, strict=True):
        seen = np.isfinite(matches)
        columns = np.clip(np.rint(np.where(seen, matches, 0)).astype(int), 0, 95)
        similar.append(np.corrcoef(left[seen], right[y, columns][seen])[0, 1])
        assert np.corrcoef(left[seen], np.roll(right, 11, axis=1)[y, columns][seen])[0, 1] < similar[-1]
    assert np.median(similar) > 0.9


def test_a_nearer_piece_hides_what_is_behind_it():
    left = np.zeros((1, 60))
    left[0, 30:40] = 6.0
    right = np.zeros((1, 60))
    right[0, 24:34] = 6.0
    matches = module._matches(left, right)
    assert matches[0, 30] == 24
    assert matches[0, 20] == 20
    assert np.isnan(matches[0, 24:30]).all()  # behind the piece in the right view
    assert np.isnan(matches[0, :8]).all()  # the margin
