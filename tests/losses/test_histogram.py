"""Soft histograms."""

import numpy as np
import pytest
from keras import ops

from tests.backend import numbers
from tfdml.losses.ranking.histogram import soft_histogram

pytestmark = pytest.mark.backends


def test_the_soft_histogram_counts_each_value_once_with_its_weight():
    values = np.array([[-1.0, -0.75, 0.1, 1.0, 0.999]], dtype="float32")
    weights = np.array([[1.0, 2.0, 0.0, 1.0, 1.0]], dtype="float32")
    counted = numbers(soft_histogram(ops.convert_to_tensor(values), ops.convert_to_tensor(weights), 4, -1.0, 1.0))
    np.testing.assert_allclose(counted, [[1 + 1, 1, 0, 0.002, 1.998]], atol=1e-6)
