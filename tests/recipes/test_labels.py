"""The recipe of a set without labels, small."""

import numpy as np
import pytest

from recipes import labels as recipe


@pytest.mark.nightly
def test_each_step_is_measured_on_images_without_a_label(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["labels", "--quick"])
    recipe.main()
    printed = capsys.readouterr().out
    assert "8 of 64 images get a label" in printed
    assert "56 queries of 4 classes in 56 items" in printed
    assert "Recall@10 of 10 queries" in printed


def test_clicks_turn_a_query_to_the_axis_of_its_class():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 30)
    x = np.concatenate([rng.normal(size=(60, 15)), np.where(truth[:, None] == 1, 2.0, -2.0)], axis=1)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    before, after = recipe.gain_of_clicks(x, truth, range(0, 60, 7))
    assert after.mean() > before.mean() + 0.1
    assert after.mean() > 0.95
