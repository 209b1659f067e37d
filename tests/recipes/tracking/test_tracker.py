"""Crops, labels, batches of clips, matchers, and the tracker."""

import keras
import numpy as np
import pytest

from recipes.tracking import (
    Clip,
    ClipSampler,
    SiameseMatcher,
    TemplateMatcher,
    Tracker,
    crop,
    crop_side,
    score_labels,
    siam_fc,
)
from tfdml.losses import PairLogisticLoss


def test_the_side_of_a_crop_holds_the_context():
    # p = (20 + 40) / 4 = 15, and (20 + 30) (40 + 30) = 3500.
    assert crop_side([0, 0, 20, 40]) == pytest.approx(3500**0.5)


def test_a_crop_of_its_own_size_is_a_window_with_the_mean_color_outside():
    image = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    (inside,) = crop(image, (10, 8), [6], 6)
    np.testing.assert_array_equal(inside, image[5:11, 7:13])
    (corner,) = crop(image, (0, 0), [8], 8)
    np.testing.assert_array_equal(corner[4:, 4:], image[:4, :4])
    np.testing.assert_array_equal(corner[:4].reshape(-1, 3), np.tile(np.rint(image.mean(axis=(0, 1))), (32, 1)))


def test_crops_of_a_ramp_are_sampled_at_the_middles_of_their_pixels():
    ramp = np.repeat(np.arange(64, dtype=np.uint8)[None, :, None] * 4, 64, axis=0).repeat(3, axis=2)
    halves = crop(ramp, (32, 32), [16.0, 8.0], 16)
    np.testing.assert_allclose(halves[0, 5, :, 0], 4 * np.arange(24, 40))
    # 8 pixels from 28 on 16 positions: position i is at 28 + (i + 1/2) / 2, and pixel j has its middle at j + 1/2.
    np.testing.assert_allclose(halves[1, 5, :, 0], 4 * (27.5 + (np.arange(16) + 0.5) / 2), atol=0.51)


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


def test_the_rows_of_a_batch_have_exemplars_of_all_scales_in_turn():
    sampler = ClipSampler(batch_size=5, scales=(0.5, 1.0, 2.0))
    (scaled, x), *_ = next(sampler.batches(CLIPS[:1], stride=4, start=3).as_numpy_iterator())
    (z, same), *_ = next(ClipSampler(batch_size=5).batches(CLIPS[:1], stride=4, start=3).as_numpy_iterator())
    np.testing.assert_array_equal(x, same)
    np.testing.assert_array_equal(scaled[[1, 4]], z[[1, 4]])
    # A crop of side 32 f on 63 pixels: three quarters of the square of 16 are white, 0.75 (63 / (2 f))^2 pixels.
    white = (scaled.min(axis=3) > 200).sum(axis=(1, 2))
    np.testing.assert_allclose(white, [2977, 744, 186, 2977, 744], rtol=0.15)


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


def test_a_box_does_not_leave_the_frame():
    frame = np.zeros((100, 100, 3), np.uint8)
    tracker = Tracker(Peak(x=8, y=8), window_influence=0)
    tracker.init(frame, [70, 70, 20, 20])
    for _ in range(5):
        x, y, w, h = tracker.update(frame)
    assert (x + w / 2, y + h / 2) == (100, 100)


def test_template_matching_follows_a_target():
    tracker = Tracker(TemplateMatcher(share=0.6), upsampling=2)
    boxes, seconds = tracker.track(CLIPS[0])
    assert boxes.shape == (12, 4)
    assert seconds.shape == (12,)
    assert abs(boxes[:, :2] - CLIPS[0].boxes[:, :2]).max() < 1.5


@pytest.mark.backends
def test_a_siamese_matcher_gives_the_scores_of_its_network():
    keras.utils.set_random_seed(0)
    network = siam_fc(stride=4, width=0.05)
    matcher = SiameseMatcher(network)
    assert (matcher.exemplar_size, matcher.search_size, matcher.stride) == (63, 127, 4)
    rng = np.random.default_rng(0)
    z = rng.integers(0, 256, (63, 63, 3), dtype=np.uint8)
    x = rng.integers(0, 256, (3, 127, 127, 3), dtype=np.uint8)
    expected = keras.ops.convert_to_numpy(network([np.stack([z] * 3).astype("float32"), x.astype("float32")]))
    np.testing.assert_allclose(matcher.scores(matcher.start(z), x), expected, rtol=1e-4, atol=1e-5)
