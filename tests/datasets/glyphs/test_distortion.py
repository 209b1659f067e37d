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
