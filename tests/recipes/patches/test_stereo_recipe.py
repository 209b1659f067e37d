"""Dense stereo: the loss of a row, and the network beside cross-correlation."""

import keras
import numpy as np
import pytest

from recipes.patches import dense_stereo as recipe
from tests.recipes.quick import results_of


def test_the_loss_of_a_row_is_a_cross_entropy_of_the_pixels_that_are_seen():
    similarities = np.random.default_rng(0).uniform(-1, 1, (1, 1, 3, 5)).astype(np.float32)
    matches = np.array([[[3.25, np.nan, 1.0]]], np.float32)
    s = similarities[0, 0] / 0.1
    # 3.25 is between the pixels 3 and 4; 2 is 1.25 away and does not count. 1 has no other pixel between 1 and 2 away
    # but 0 and 2, which are exactly 1 away.
    first = np.log(np.exp(s[0, [0, 1, 3, 4]]).sum()) - 0.75 * s[0, 3] - 0.25 * s[0, 4]
    last = np.log(np.exp(s[2, [1, 3, 4]]).sum()) - s[2, 1]
    value = recipe.row_loss(keras.ops.convert_to_tensor(matches), keras.ops.convert_to_tensor(similarities))
    assert float(value) == pytest.approx((first + last) / 2, rel=1e-5)
    hidden = recipe.row_loss(keras.ops.convert_to_tensor(matches * np.nan), keras.ops.convert_to_tensor(similarities))
    assert float(hidden) == 0


@pytest.mark.slow
def test_the_network_and_cross_correlation_are_measured_and_drawn(tmp_path, monkeypatch, capsys):
    written = results_of(monkeypatch, recipe, tmp_path)
    assert written["protocol"] == "motorcycle-stereo/left-dense/bad3/v1"
    assert written["pixels"] == 308_397
    assert written["bad"]["window 9"] == pytest.approx(0.0785, abs=5e-5)
    assert written["interval"]["window 9"][0] < 0.0785 < written["interval"]["window 9"][1]
    assert written["difference"][1] <= written["difference"][0] <= written["difference"][2]
    assert (tmp_path / "stereo.png").stat().st_size > 50_000
    assert "window 9     bad pixels 7.9%" in capsys.readouterr().out
