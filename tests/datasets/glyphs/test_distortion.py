"""The stream of random numbers, and the distortions computed from it."""

import numpy as np
import pytest

from tfdml.datasets.glyphs import distortion

KNOBS = ("ROTATION", "SHEAR", "SCALE", "ASPECT", "SHIFT", "BLUR", "TEXTURE", "NOISE")


@pytest.fixture
def drawings():
    rng = np.random.default_rng(0)
    return rng.random((6, 64, 64)).astype(np.float32)


@pytest.fixture
def keys():
    return distortion.image_keys(np.arange(65, 71), np.full(6, 7), 0)


@pytest.fixture
def still(monkeypatch):
    """Everything off, full contrast."""
    for knob in KNOBS:
        monkeypatch.setattr(distortion, knob, 0.0)
    monkeypatch.setattr(distortion, "CONTRAST", 1.0)


def test_the_stream_is_splitmix64():
    # The first outputs of the reference implementation from the seeds 0 and 1234567.
    expected = [
        [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F],
        [0x599ED017FB08FC85, 0x2C73F08458540FA5, 0x883EBCE5A3F27C77],
    ]
    found = distortion.words(np.array([0, 1234567], np.uint64), 0, 3)
    np.testing.assert_array_equal(found, np.array(expected, np.uint64))
    np.testing.assert_array_equal(
        distortion.words(np.array([0], np.uint64), 2, 1), np.array([[expected[0][2]]], np.uint64)
    )


def test_code_point_face_and_view_each_change_the_key():
    a, b = np.meshgrid(np.arange(65, 165), [3, 4, 1 << 31])
    all_keys = np.concatenate([distortion.image_keys(a.ravel(), b.ravel(), view) for view in range(4)])
    assert len(np.unique(all_keys)) == 1200


def test_uniform_and_gaussian_numbers_have_their_moments():
    words = distortion.words(np.arange(100, dtype=np.uint64), 0, 2000)
    u, g = distortion.uniform(words), distortion.gaussian(words)
    assert (u.min() >= 0, u.max() < 1) == (True, True)
    assert (u.mean(), u.var()) == (pytest.approx(1 / 2, abs=0.003), pytest.approx(1 / 12, abs=0.001))
    assert (g.mean(), g.std()) == (pytest.approx(0, abs=0.01), pytest.approx(1, abs=0.01))
    assert np.abs(g).max() <= 2 * np.sqrt(3) + 1e-3


@pytest.mark.usefixtures("still")
def test_with_everything_off_the_result_is_the_mean_of_2_x_2_blocks(drawings, keys):
    expected = np.rint(drawings.reshape(6, 32, 2, 32, 2).mean(axis=(2, 4)) * 255)
    np.testing.assert_allclose(distortion.distort(drawings, keys), expected, atol=1)


@pytest.mark.usefixtures("still")
def test_contrast_draws_every_pixel_towards_the_middle(drawings, keys, monkeypatch):
    full = distortion.distort(drawings, keys) / 255 - 0.5
    monkeypatch.setattr(distortion, "CONTRAST", 0.5)
    less = distortion.distort(drawings, keys) / 255 - 0.5
    ratio = np.sum(less * full, axis=(1, 2)) / np.sum(full**2, axis=(1, 2))
    assert (ratio.min() >= 0.5, ratio.max() <= 1.0) == (True, True)
    np.testing.assert_allclose(less, ratio[:, None, None] * full, atol=0.01)


def test_pixels_come_from_where_the_inverse_matrix_says():
    p = np.array([[0.5, -0.3, 0.8, -0.9, 0.4, -1.0]])
    x, y = distortion._origins(p)
    angle, scale, aspect = np.deg2rad(8 * 0.5), 1 + 0.06 * 0.8, np.sqrt(1 - 0.08 * 0.9)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    matrix = turn @ np.array([[1, 0.10 * -0.3], [0, 1]]) @ np.diag([scale * aspect, scale / aspect])
    for row, column in ((0, 0), (31, 3), (12, 30)):
        centered = np.linalg.inv(matrix) @ (np.array([column - 15.5, row - 15.5]) - np.array([0.4, -1.0]))
        np.testing.assert_allclose([x[0, row, column], y[0, row, column]], 31.5 + 2 * centered)


@pytest.mark.usefixtures("still")
def test_a_straight_edge_stays_inside_when_turned_as_far_as_it_may(monkeypatch):
    monkeypatch.setattr(distortion, "ROTATION", 90.0)
    drawings = np.zeros((1, 64, 64), np.float32)
    drawings[0, :, 32:] = 1
    turned = distortion._warp(drawings, np.array([[1.0, 0, 0, 0, 0, 0]], np.float32))[0]
    # A quarter turn takes the right half, with y downwards, to the lower half.
    np.testing.assert_allclose(turned[:15], 0, atol=1e-5)
    np.testing.assert_allclose(turned[17:], 1, atol=1e-5)


def test_blur_spreads_a_point_like_three_gaussian_taps():
    point = np.zeros((1, 32, 32), np.float32)
    point[0, 10, 20] = 1
    blurred = distortion._blur(point, np.array([0.6], np.float32))[0]
    taps = np.exp(-0.5 * (np.array([-1, 0, 1]) / 0.6) ** 2)
    taps /= taps.sum()
    np.testing.assert_allclose(blurred[9:12, 19:22], np.outer(taps, taps), rtol=1e-5)
    assert blurred.sum() == pytest.approx(1, abs=1e-5)


def test_texture_meets_its_grid_in_the_corners_and_is_straight_between():
    heights = np.arange(16, dtype=np.float32).reshape(1, 16)
    texture = distortion._texture(heights)[0]
    assert texture[[0, 0, 31, 31], [0, 31, 0, 31]] == pytest.approx([0, 3, 12, 15])
    rows, columns = np.mgrid[0:32, 0:32] / 31 * 3
    np.testing.assert_allclose(texture, 4 * rows + columns, atol=1e-4)


def test_no_image_depends_on_another(drawings, keys):
    whole = distortion.distort(drawings, keys)
    single = [distortion.distort(drawings[i : i + 1], keys[i : i + 1])[0] for i in (5, 0, 3)]
    np.testing.assert_array_equal(whole[[5, 0, 3]], single)
