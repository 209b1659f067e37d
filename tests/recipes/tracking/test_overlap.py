"""Measures of tracking, done by hand and by loops."""

import numpy as np
import pytest

from recipes.tracking import evaluate

# Overlaps 1, 1/3 and 0 by hand: moved by half a width, and beside the truth.
TRUTH = [[0, 0, 10, 10]] * 3
FOUND = [[0, 0, 10, 10], [5, 0, 10, 10], [30, 0, 10, 10]]


def test_an_example_by_hand():
    result = evaluate([FOUND], [TRUTH])
    # 1 is above 20 of 21 thresholds, 1/3 above 0 to 0.3: seven of them.
    assert result["success_area"] == pytest.approx((20 + 7 + 0) / 21 / 3)
    assert result["ao"] == pytest.approx((1 + 1 / 3) / 3)
    assert result["precision@20"] == pytest.approx(2 / 3)  # 0, 5 and 30 pixels
    assert (result["sr@0.5"], result["sr@0.75"]) == pytest.approx((1 / 3, 1 / 3))
    assert (result["sequences"], result["frames"]) == (1, 3)


def test_the_distance_is_that_of_the_centers_and_20_pixels_are_near():
    assert evaluate([[[0, 0, 10, 10]]], [[[-15, 0, 80, 10]]])["precision@20"] == 1  # centers at 5 and 25
    assert evaluate([[[0, 0, 10, 10]]], [[[-14, 0, 80, 10]]])["precision@20"] == 0


def test_the_first_frame_and_frames_that_are_hidden_or_without_truth_are_left_out():
    result = evaluate([FOUND], [TRUTH], first_frame=False, cover=[[8, 1, 0]])
    assert (result["ao"], result["frames"]) == (pytest.approx(1 / 3), 1)
    truth = [[0, 0, 10, 10], *[[np.nan] * 4] * 2]
    assert evaluate([FOUND], [truth])["frames"] == 1


def test_sequences_or_frames_are_averaged():
    found, truth = [FOUND, FOUND[:1]], [TRUTH, TRUTH[:1]]
    assert evaluate(found, truth)["ao"] == pytest.approx((4 / 9 + 1) / 2)
    assert evaluate(found, truth, average="frame")["ao"] == pytest.approx((1 + 1 / 3 + 0 + 1) / 4)
    result = evaluate(found, truth, first_frame=False)
    assert result["sequences"] == 1  # the second has no other frame
    np.testing.assert_allclose(result["per_sequence"]["ao"], [1 / 6, np.nan])


def test_boxes_are_clipped_to_the_frame():
    # Of 20 x 10 and 10 x 10 pixels, the frame holds 10 x 10 of both.
    assert evaluate([[[0, 0, 20, 10]]], [[[0, 0, 10, 10]]], sizes=[(10, 10)])["ao"] == 1
    assert evaluate([[[0, 0, 20, 10]]], [[[0, 0, 10, 10]]])["ao"] == 0.5
    assert evaluate([[[50, 50, 5, 5]]], [[[0, 0, 10, 10]]], sizes=[(10, 10)])["ao"] == 0


def test_random_boxes_agree_with_loops_over_pixels():
    rng = np.random.default_rng(0)
    a, b = (np.concatenate([rng.integers(0, 15, (40, 2)), rng.integers(1, 20, (40, 2))], axis=1) for _ in range(2))

    def pixels(box):
        return {(x, y) for x in range(box[0], box[0] + box[2]) for y in range(box[1], box[1] + box[3])}

    overlaps = np.array([len(pixels(p) & pixels(q)) / len(pixels(p) | pixels(q)) for p, q in zip(a, b, strict=True)])
    result = evaluate([a], [b])
    assert result["ao"] == pytest.approx(overlaps.mean())
    assert result["success_area"] == pytest.approx(np.mean([(overlaps > t / 20).mean() for t in range(21)]))
