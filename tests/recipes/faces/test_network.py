"""The narrow ResNet of faces: its parameters and its shapes."""

import keras
import numpy as np
import pytest

from recipes.faces import face_resnet


@pytest.mark.slow
def test_it_has_the_depth_and_the_size_of_the_paper():
    images = keras.Input((224, 224, 3), dtype="uint8")
    model = keras.Model(images, face_resnet(images))
    convolutions = [layer for layer in model.layers if isinstance(layer, keras.layers.Conv2D)]
    assert len(convolutions) == 1 + 3 * (3 + 4 + 6 + 3) + 4  # with the shortcuts; 50 layers with the linear map
    assert sum(int(np.prod(weight.shape)) for weight in model.trainable_weights) == 3_426_912
    assert model.layers[-3].input.shape[1:] == (7, 7, 768)
    assert model.output_shape == (None, 128)
