"""Crops, labels, batches of clips, matchers, and the tracker."""

import numpy as np
import pytest

from recipes.tracking import Clip, ClipSampler, Tracker, crop, score_labels
from tfdml.losses import PairLogisticLoss


def test_a_crop_of_its_own_size_is_a_window_with_the_mean_color_outside():
    image = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    (inside,) = crop(image, (10, 8), [6], 6)
    np.testing.assert_array_equal(inside, image[5:11, 7:13])
    (corner,) = crop(image, (0, 0), [8], 8)
    np.testing.assert_array_equal(corner[4:, 4:], image[:4, :4])
    np.testing.assert_array_equal(corner[:4].reshape(-1, 3), np.tile(np.rint(image.mean(axis=(0, 1))), (32, 1)))


def test_labels_are_positive_within_the_radius_and_balanced():
    labels, weights = score_labels(17, stride=8, radius=16)
    rows, columns = np.nonzero(labels > 0)
    assert {(int(u) - 8, int(v) - 8) for u, v in zip(rows, columns, strict=True)} == {
        (u, v) for u in range(-8, 9) for v in range(-8, 9) if 64 * (u * u + v * v) <= 256
    }
    assert weights[labels > 0].sum() == pytest.approx(weights[labels < 0].sum())
    assert weights.mean() == pytest.approx(1)
    scores = np.random.default_rng(0).normal(size=(17, 17)).astype("float32")
    losses = np.log1p(np.exp(-labels * scores))
    expected = (losses[labels > 0].mean() + losses[labels < 0].mean()) / 2
    value = PairLogisticLoss()(labels[None], scores[None], weights[None])
    assert float(value) == pytest.approx(expected, rel=1e-5)


def moving(name, frames=12, start=30, level=255, **flags):
    """A square of 16 pixels that moves by 2 pixels per frame; its frames say their number in the corner."""
    images = []
    for number in range(frames):
        image = np.random.default_rng(number).integers(60, 80, (80, 100, 3)).astype(np.uint8)
        image[20:36, start + 2 * number : start + 2 * number + 16] = level
        image[28:36, start + 2 * number : start + 2 * number + 8] = 0
        image[0, 0] = number
        images.append(image)
    boxes = [[start + 2 * number, 20, 16, 16] for number in range(frames)]
    return Clip(name=name, frames=images, boxes=boxes, **flags)


CLIPS = [
    moving("a"),
    moving("hidden", frames=6, cover=np.zeros(6)),
    moving("b", frames=9, cover=np.array([8, 8, 0, 8, 8, 8, 8, 8, 8])),
    moving("alone", frames=3, absent=np.array([False, True, True])),
]


def rows_of(sampler, steps, start=0):
    return np.stack(sampler.index_batches(CLIPS, start=start)[:steps], axis=1)


def test_both_frames_of_a_pair_are_usable_near_and_of_one_clip():
    rows = rows_of(ClipSampler(batch_size=50, max_gap=3, seed=1), 20).transpose(1, 0, 2).reshape(2, -1)
    clip, frame = np.array([(number, i) for number, clip in enumerate(CLIPS) for i in range(len(clip))]).T
    assert (clip[rows[0]] == clip[rows[1]]).all()
    apart = abs(frame[rows[0]] - frame[rows[1]])
    assert apart.max() == 3
    assert set(clip[rows[0]][apart == 0]) == {3}  # paired with itself: the only usable frame
    assert set(clip[rows[0]]) == {0, 2, 3}
    assert not (frame[rows][:, clip[rows[0]] == 2] == 2).any()
    # Clips are equally likely: 1000 draws of probability 1/3 have a standard deviation of 15.
    assert np.bincount(clip[rows[0]]).tolist() == pytest.approx([333, 0, 333, 333], abs=60)
    # The middle of clip "a": each frame within 3, but the same, is equally likely.
    others = frame[rows[1]][(clip[rows[0]] == 0) & (frame[rows[0]] == 6)]
    assert set(others) <= {3, 4, 5, 7, 8, 9}


def test_crops_show_the_target_in_their_middle():
    (z, x), labels, weights = next(ClipSampler(batch_size=3).batches(CLIPS[:1], stride=4).as_numpy_iterator())
    assert (z.shape, x.shape, labels.shape, weights.shape) == (
        (3, 63, 63, 3),
        (3, 127, 127, 3),
        (3, 17, 17),
        (3, 17, 17),
    )
    assert z.dtype == x.dtype == np.uint8
    # A box of 16 pixels has a crop of 32: the square takes the middle half of the exemplar.
    for image in (*z, *x[:, 32:95, 32:95]):
        assert image[20, 31:44].min() > 240
        assert image[40, 18:29].max() < 15
        assert image[5].max() < 100
    np.testing.assert_array_equal(labels[0], score_labels(17, stride=4, radius=8)[0])


class Peak:
    """A matcher whose peak is where its test says, in map positions from the middle, at one scale."""

    exemplar_size, search_size, stride = 63, 127, 4

    def __init__(self, x=0, y=0, scale=1):
        self.x, self.y, self.scale = x, y, scale

    def start(self, exemplar):
        assert exemplar.shape == (63, 63, 3)

    def scores(self, state, searches):
        maps = np.full((len(searches), 17, 17), -1.0)
        maps[:, 8 + self.y, 8 + self.x] = 0.5
        maps[self.scale, 8 + self.y, 8 + self.x] = 1.0
        return maps


def test_a_peak_moves_the_box_by_its_distance_in_the_frame():
    frame = np.zeros((200, 300, 3), np.uint8)
    tracker = Tracker(Peak(x=2, y=-1), window_influence=0)
    tracker.init(frame, [100, 80, 20, 20])
    x, y, w, h = tracker.update(frame)
    # A box of 20 has an exemplar of 40 pixels on 63: a position of 4 pixels is 4 * 40 / 63 in the frame; half of an
    # upsampled position may be lost.
    step = 4 * 40 / 63
    assert (x, y) == pytest.approx((100 + 2 * step, 80 - step), abs=step / 16)
    assert (w, h) == (20, 20)


def test_a_scale_is_followed_in_part_and_the_window_prefers_the_middle():
    frame = np.zeros((200, 300, 3), np.uint8)
    tracker = Tracker(Peak(scale=2), scale_step=1.1, scale_damping=0.35)
    tracker.init(frame, [100, 80, 20, 30])
    _, _, w, h = tracker.update(frame)
    assert (w, h) == pytest.approx((20 * 1.035, 30 * 1.035))
    tracker = Tracker(Peak(scale=2), scale_step=1.1, scale_penalty=0.5)
    tracker.init(frame, [100, 80, 20, 30])
    assert tracker.update(frame)[2] == 20
    far = Tracker(Peak(x=7), window_influence=0.99)
    far.init(frame, [100, 80, 20, 20])
    assert abs(far.update(frame)[0] - 100) < 2
