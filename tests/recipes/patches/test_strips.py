"""Simulated stereo strips: what corresponds, what is hidden, and where it comes from."""

import numpy as np
import pytest

from recipes.patches import match_windows, stereo_strips
from recipes.patches.data import strips as module
from tfdml.datasets.photo_patches.patches import PARTS


@pytest.fixture(scope="module")
def strips():
    return stereo_strips(12, split="validation", height=20, width=96, seed=3)


def test_strip_i_depends_on_the_seed_and_its_number_only(strips):
    again = stereo_strips(2, split="validation", height=20, width=96, seed=3)
    other = stereo_strips(2, split="validation", height=20, width=96, seed=4)
    for name in ("left", "right", "matches"):
        np.testing.assert_array_equal(getattr(again, name), getattr(strips, name)[:2])
        assert not np.array_equal(getattr(other, name), getattr(again, name), equal_nan=True)
    assert strips.left.shape == strips.right.shape == strips.matches.shape == (12, 20, 96)
    assert strips.left.dtype == strips.matches.dtype == np.float32


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


def test_cross_correlation_finds_most_matches(strips):
    shift = 20  # disparities can be negative: move the right view
    right = np.pad(strips.right, ((0, 0), (0, 0), (0, shift)), "edge")
    left = np.pad(strips.left, ((0, 0), (0, 0), (shift, 0)), "edge")
    errors = []
    for one, other, matches in zip(left, right, strips.matches, strict=True):
        columns = np.arange(96) - (match_windows(one, other, window=9)[:, shift:] - shift)
        seen = np.isfinite(matches)
        errors.append((np.abs(columns - matches)[seen] > 3).mean())
    assert np.mean(errors) < 0.4


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


def test_other_splits_and_sizes_are_refused():
    with pytest.raises(ValueError, match="split='motorcycle', expected one of 'train', 'validation', 'test'"):
        stereo_strips(1, split="motorcycle")
    with pytest.raises(ValueError, match="width=0, expected a whole number of at least 1"):
        stereo_strips(1, width=0)


def test_the_photographs_of_the_splits_are_those_of_the_photo_patches():
    assert module.PHOTOGRAPHS == PARTS
