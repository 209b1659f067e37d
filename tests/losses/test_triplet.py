"""Triplets: negatives that are chosen, and positives and anchors that swap."""

import numpy as np
import pytest

from tests.backend import numbers
from tests.losses import loops
from tests.losses.rows import UNEVEN, batch
from tfdml import losses

pytestmark = pytest.mark.backends


def test_a_selector_that_returns_another_shape_is_refused():
    labels, x = batch(UNEVEN["three classes"])
    loss = losses.TripletLoss(negatives=lambda pairs, d: lambda p: p[:3])
    with pytest.raises(ValueError, match=r"columns of shape \(3,\) from negatives, expected \(8,\)"):
        loss(labels, x)


def test_a_negative_as_near_to_the_positive_as_to_the_anchor_is_not_swapped():
    x = np.array([[-1, 0], [1, 0], [0, 2], [3, 0], [-3, -2]], dtype="float32")  # row 2 is as near to row 0 as to row 1
    labels = np.array([0, 0, 1, 2, 3])
    for normalize in ("all", "active"):
        swapped = losses.TripletLoss(swap=True, normalize=normalize, margin=2.0)
        expected = loops.triplet(labels, x.astype("float64"), swap=True, normalize=normalize, margin=2.0)
        np.testing.assert_allclose(numbers(swapped.call(labels, x)), expected, rtol=1e-5)
