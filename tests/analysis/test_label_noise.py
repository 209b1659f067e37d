"""Examples that are far from the dominant center of their class."""

import numpy as np
import pytest

from tfdml import losses
from tfdml.analysis import label_noise


def test_examples_are_far_from_the_center_that_most_of_their_class_are_near():
    loss = losses.SubCenterArcFaceLoss(classes=3, per_class=2)
    loss.proxies.build((None,), (None, 2))
    loss.proxies.vectors.assign([[1, 0], [0, 1], [0, 2], [1, 0], [1, 0], [0, 1]])
    angles = np.radians([10, 0, 80, 89, 1, 2])
    x, labels = np.stack([np.cos(angles), np.sin(angles)], axis=1), np.array([0, 0, 0, 1, 1, 1])
    rows, dominant = label_noise(loss, x, labels)  # class 0 has center 0 at 0 degrees, class 1 center 1 at 0 degrees
    np.testing.assert_array_equal(rows, [2, 3])
    np.testing.assert_array_equal(dominant, [0, 1, -1])
    np.testing.assert_array_equal(label_noise(loss, 5 * x, labels, angle_degrees=85).rows, [3])
    assert len(label_noise(loss, np.zeros((0, 2)), np.zeros(0, "int32")).rows) == 0
    with pytest.raises(
        ValueError, match="labels outside the classes of the proxies, expected one of the ids of 3 classes"
    ):
        label_noise(loss, x[:1], [3])
    with pytest.raises(ValueError, match="Received a loss without proxies yet, expected a trained one"):
        label_noise(losses.SubCenterArcFaceLoss(classes=3), x, labels)
