"""Photos that are turned, and the angle between them and tiles."""

import numpy as np
import pytest

from recipes.localization import orientation


def test_images_are_turned_counterclockwise_around_their_middle():
    images = np.random.default_rng(0).integers(0, 256, (4, 64, 64, 3), np.uint8)
    found = orientation.turned(images, np.array([0.0, 90.0, 180.0, 270.0]))
    assert found.dtype == np.uint8
    for quarter, image in enumerate(images):
        inner = np.rot90(image, quarter)[1:-1, 1:-1].astype(int)
        assert abs(found[quarter, 1:-1, 1:-1] - inner).max() <= 1  # sines in float32 are not 0


def test_the_error_is_the_smaller_angle_between_two_directions():
    degrees = np.array([0.0, 350.0, 90.0, 30.0])
    directions = np.array([[0.0, 1.0], [0.5, 0.5 * 3**0.5], [-2.0, 0.0], [0.5, -0.5 * 3**0.5]])  # 0, 30, 270, 150
    np.testing.assert_allclose(orientation.angular_error(directions, degrees), [0, 40, 180, 120], atol=1e-9)
    np.testing.assert_allclose(orientation.angular_error(orientation.sine_cosine(degrees), degrees), 0, atol=1e-9)


@pytest.mark.slow
def test_the_error_of_a_few_steps_is_printed_beside_recall(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["orientation", "--quick"])
    orientation.main()
    lines = capsys.readouterr().out.splitlines()[-4:]
    assert [line[:64].strip() for line in lines] == [
        "recall@1%, upright photos",
        "recall@1%, turned photos",
        "mean angular error against the tile of the place, degrees",
        "mean angular error against the tile found first, degrees",
    ]
    assert all(30 < float(line[64:]) < 120 for line in lines[2:])  # 90 in expectation without training
