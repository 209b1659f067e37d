"""The networks of Zagoruyko and Komodakis by their shapes and counts, and as models of pairs."""

import keras
import numpy as np
import pytest

import tfdml
from recipes.patches import patch_networks


def convolution(channels_in, channels, kernel):
    return kernel * kernel * channels_in * channels + channels


def dense(inputs, outputs):
    return inputs * outputs + outputs


# Channels and side of each convolution, (size - kernel) / stride + 1, and the counts of the layers, by hand.
PLAIN = [(96, 20), (192, 6), (256, 1)]
DEEP = [(96, 21), (96, 19), (96, 17), (96, 15), (192, 6), (192, 4), (192, 2)]
PAIR_STREAM = [(96, 28), (96, 12), (192, 4), (192, 2)]
PATCH_STREAM = [(96, 15), (192, 5), (256, 3), (256, 1)]
SIAM = convolution(1, 96, 7) + convolution(96, 192, 5) + convolution(192, 256, 3)
TWO_CHANNEL = convolution(2, 96, 7) + convolution(96, 192, 5) + convolution(192, 256, 3)
TWO_CHANNEL_DEEP = (
    convolution(2, 96, 4) + 3 * convolution(96, 96, 3) + convolution(96, 192, 3) + 2 * convolution(192, 192, 3)
)
TWO_CHANNEL_STREAM = convolution(2, 96, 5) + convolution(96, 96, 3) + convolution(96, 192, 3) + convolution(192, 192, 3)
SIAM_STREAM = convolution(1, 96, 4) + convolution(96, 192, 3) + convolution(192, 256, 3) + convolution(256, 256, 3)
HEAD = dense(512, 512) + dense(512, 1)
COUNTS = {
    "2ch": TWO_CHANNEL + dense(256, 256) + dense(256, 1),
    "2ch-deep": TWO_CHANNEL_DEEP + dense(768, 1),
    "2ch-2stream": 2 * TWO_CHANNEL_STREAM + dense(1536, 768) + dense(768, 1),
    "siam": SIAM + HEAD,
    "pseudo-siam": 2 * SIAM + HEAD,
    "siam-2stream": 2 * SIAM_STREAM + dense(1024, 512) + dense(512, 1),
}
SHAPES = {
    "2ch": PLAIN,
    "2ch-deep": DEEP,
    "2ch-2stream": [shape for shape in PAIR_STREAM for _ in range(2)],
    "siam": PLAIN,
    "pseudo-siam": PLAIN,
    "siam-2stream": [shape for shape in PATCH_STREAM for _ in range(2)],
}


def convolutions(network):
    shapes = [layer.output.shape[1:] for layer in network.layers if isinstance(layer, keras.layers.Conv2D)]
    return sorted((channels, side) for side, _, channels in shapes)


@pytest.mark.parametrize("name", COUNTS)
def test_a_network_has_the_shapes_and_the_counts_of_the_paper(name):
    decision, branches = patch_networks(name)
    network = decision if branches is None else branches[0] if name == "pseudo-siam" else branches
    assert convolutions(network) == sorted(SHAPES[name])
    model = tfdml.models.PairModel(decision, branches)
    assert model.count_params() == COUNTS[name]
    scores = model.predict((np.zeros((2, 64, 64, 1), np.uint8),) * 2, verbose=0)
    assert scores.shape == (2,)
