"""The fully convolutional siamese network: shapes and counts of the paper, and the law of translation."""

import keras
import numpy as np
import pytest

from recipes.tracking import CrossCorrelation, siam_fc
from tests.backend import compiled, numbers

pytestmark = pytest.mark.backends


def correlation_by_loops(exemplar, search, scale):
    (h, w, _), (height, width, _) = exemplar.shape, search.shape
    scores = np.zeros((height - h + 1, width - w + 1))
    for u in range(scores.shape[0]):
        for v in range(scores.shape[1]):
            scores[u, v] = scale * (exemplar * search[u : u + h, v : v + w]).sum()
    return scores


@pytest.mark.parametrize("exemplars", [1, 3])
def test_scores_are_the_correlations_of_each_row(exemplars):
    rng = np.random.default_rng(0)
    z, x = rng.normal(size=(exemplars, 2, 3, 4)), rng.normal(size=(3, 5, 7, 4))
    layer = CrossCorrelation(scale=0.5)
    inputs = [keras.ops.convert_to_tensor(each.astype("float32")) for each in (z, x)]
    expected = [correlation_by_loops(z[row % exemplars], x[row], 0.5) for row in range(3)]
    np.testing.assert_allclose(numbers(layer(inputs)), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(numbers(compiled(lambda z, x: layer([z, x]))(*inputs)), expected, rtol=1e-5, atol=1e-5)
    again = CrossCorrelation.from_config(layer.get_config())
    assert again.scale == 0.5
    assert again([keras.Input((2, 3, 4)), keras.Input((5, 7, 4))]).shape == (None, 4, 5)


def test_the_network_has_the_shapes_and_the_size_of_the_paper():
    network = siam_fc()
    branch = network.get_layer("branch")
    assert branch.compute_output_shape((None, 127, 127, 3)) == (None, 6, 6, 256)
    assert branch.compute_output_shape((None, 255, 255, 3)) == (None, 22, 22, 256)
    assert network.output_shape == (None, 17, 17)
    # Kernels of 363, 1200, 2304, 1728 and 1728 weights, a bias each, two numbers of batch normalization; and b.
    convolutions = 96 * 364 + 256 * 1201 + 384 * 2305 + 384 * 1729 + 256 * 1729
    assert sum(np.prod(weight.shape) for weight in network.trainable_weights) == convolutions + 2 * 1120 + 1


@pytest.mark.parametrize("stride", [4, pytest.param(8, marks=pytest.mark.slow)])
def test_moving_the_target_by_the_stride_moves_the_peak_by_one(stride):
    keras.utils.set_random_seed(0)
    network = siam_fc(stride=stride, width=0.05)
    network.get_layer("cross_correlation").scale = 1.0
    rng = np.random.default_rng(0)
    exemplar, search = 16 * stride - 1, 32 * stride - 1
    target = rng.integers(0, 256, (exemplar, exemplar, 3))
    maps = []
    for rows, columns in ((0, 0), (1, 0), (-2, 3)):
        image = np.full((1, search, search, 3), 128.0, "float32")
        top, left = 8 * stride + rows * stride, 8 * stride + columns * stride
        image[0, top : top + exemplar, left : left + exemplar] = target
        maps.append(numbers(network([target[None].astype("float32"), image]))[0])
    peaks = [np.unravel_index(np.argmax(each), each.shape) for each in maps]
    assert peaks == [(8, 8), (9, 8), (6, 11)]
    np.testing.assert_allclose(maps[1][3:-3, 3:-3], maps[0][2:-4, 3:-3], rtol=1e-4, atol=1e-5)
