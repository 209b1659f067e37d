"""The narrow ResNet of faces: its parameters counted by hand, its shapes, and its output."""

import keras
import numpy as np
import pytest

from recipes.faces import face_resnet


def parameters_by_hand(widths, blocks, dim, channels=3):
    """Trained parameters: kernels without a bias, two numbers per normalized channel, and the linear map."""
    first, *stages = widths
    total, before = 49 * channels * first + 2 * first, first
    for width, number in zip(stages, blocks, strict=True):
        narrow = width // 4
        for block in range(number):
            total += 2 * before + before * narrow + 2 * narrow + 9 * narrow * narrow + 2 * narrow + narrow * width
            total += before * width if block == 0 else 0
            before = width
    return total + 2 * before + before * dim + dim


def trained(model):
    return sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)


@pytest.mark.slow
def test_it_has_the_depth_and_the_size_of_the_paper():
    images = keras.Input((224, 224, 3), dtype="uint8")
    model = keras.Model(images, face_resnet(images))
    convolutions = [layer for layer in model.layers if isinstance(layer, keras.layers.Conv2D)]
    assert len(convolutions) == 1 + 3 * (3 + 4 + 6 + 3) + 4  # with the shortcuts; 50 layers with the linear map
    assert trained(model) == parameters_by_hand((64, 96, 192, 384, 768), (3, 4, 6, 3), 128) == 3_426_912
    assert model.layers[-3].input.shape[1:] == (7, 7, 768)
    assert model.output_shape == (None, 128)
