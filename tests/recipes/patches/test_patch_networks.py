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


def model_of(name, **options):
    return tfdml.models.PairModel(*patch_networks(name, **options))


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


def test_scores_do_not_change_with_gain_and_offset_of_a_patch():
    keras.utils.set_random_seed(0)
    a, b = np.random.default_rng(0).integers(60, 120, (2, 3, 64, 64, 1)).astype(np.float32)
    for name in ("2ch-2stream", "siam"):
        model = model_of(name)
        scores = model.predict((a, b), verbose=0)
        np.testing.assert_allclose(model.predict((2 * a - 40, b / 2 + 100), verbose=0), scores, rtol=1e-2, atol=1e-4)
        assert np.isfinite(model.predict((np.zeros_like(a), b), verbose=0)).all()
        assert np.ptp(scores) > 0


def test_streams_see_the_center_and_the_whole_patch_at_half_its_size():
    _, branch = patch_networks("siam-2stream")
    crop, pooled = (next(x for x in branch.layers if isinstance(x, kind)) for kind in SCALES)
    patch = np.random.default_rng(0).normal(size=(1, 64, 64, 1)).astype(np.float32)
    np.testing.assert_array_equal(crop(patch), patch[:, 16:48, 16:48])
    by_hand = patch.reshape(1, 32, 2, 32, 2, 1).mean(axis=(2, 4))
    np.testing.assert_allclose(pooled(patch), by_hand, atol=1e-6)


SCALES = keras.layers.Cropping2D, keras.layers.AveragePooling2D


def test_the_penalty_is_half_of_lambda_times_the_squares_of_all_kernels():
    model = model_of("pseudo-siam", weight_decay=5e-4)
    kernels = [keras.ops.convert_to_numpy(w) for w in model.trainable_weights if w.path.endswith("kernel")]
    assert len(kernels) == 8
    expected = 5e-4 / 2 * sum(np.sum(kernel.astype(float) ** 2) for kernel in kernels)
    assert float(sum(model.losses)) == pytest.approx(expected, rel=1e-4)
    assert not model_of("siam").losses
