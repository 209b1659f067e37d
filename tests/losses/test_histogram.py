"""Soft histograms."""

import numpy as np
import pytest
from keras import ops

from tests.backend import gradient, numbers
from tfdml.losses.ranking import soft_histograms
from tfdml.losses.ranking.soft_histograms import soft_histogram

pytestmark = pytest.mark.backends


def test_the_soft_histogram_counts_each_value_once_with_its_weight():
    values = np.array([[-1.0, -0.75, 0.1, 1.0, 0.999]], dtype="float32")
    weights = np.array([[1.0, 2.0, 0.0, 1.0, 1.0]], dtype="float32")
    counted = numbers(soft_histogram(ops.convert_to_tensor(values), ops.convert_to_tensor(weights), 4, -1.0, 1.0))
    np.testing.assert_allclose(counted, [[1 + 1, 1, 0, 0.002, 1.998]], atol=1e-6)


def test_a_histogram_is_the_same_by_every_method():
    rng = np.random.default_rng(0)
    position = np.concatenate([rng.uniform(0, 7, (600, 300)), rng.integers(0, 8, (600, 10))], axis=1)
    weights = rng.random((2, *position.shape)).astype("float32")
    shares = np.maximum(0.0, 1.0 - np.abs(position.astype("float32")[..., None] - np.arange(8)))
    expected = np.stack([np.einsum("ar,arn->an", x, shares) for x in weights], axis=1)
    for method in ("shares", "products", "segments"):
        counted = getattr(soft_histograms, f"sums_of_{method}")(
            ops.convert_to_tensor(position, "float32"), list(ops.convert_to_tensor(weights)), 7
        )
        np.testing.assert_allclose(numbers(counted), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bins", [5, 50])
def test_the_gradient_of_a_histogram_is_the_step_of_the_interval(bins):
    rng = np.random.default_rng(0)
    values, weights = (rng.uniform(low, 1.2, (4, 30)).astype("float32") for low in (-1.2, 0.0))
    upstream = rng.standard_normal((4, bins + 1)).astype("float32")

    def total(values):
        counts = soft_histogram(values, ops.convert_to_tensor(weights), bins, -1.0, 1.0)
        return ops.sum(ops.convert_to_tensor(upstream) * counts)

    interval = np.clip((values + 1) * bins // 2, 0, bins - 1).astype(int)
    steps = np.take_along_axis(np.diff(upstream, axis=1) * bins / 2, interval, axis=1)
    expected = np.where(np.abs(values) < 1, weights * steps, 0.0)
    np.testing.assert_allclose(gradient(total, values), expected, rtol=1e-4, atol=1e-4)
