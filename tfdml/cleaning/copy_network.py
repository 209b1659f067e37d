"""The network that recognizes copies."""

import keras

from tfdml.networks.efficientnet_lite import efficientnet_lite


def copy_network(size: int = 96) -> keras.Model:
    """EfficientNet-Lite0 up to its eleventh block, averaged in the four quarters of the image, in one vector.

    The quarters keep the layout: a copy differs by it from another picture of the same things.

    Example:

        >>> model = tfdml.cleaning.copy_network(64)
        >>> model.input_shape, model.output_shape
        ((None, 64, 64, 3), (None, 448))

    Args:
        size: height and width of the images in pixels, a multiple of 32.

    Returns:
        Keras model from pixels `(batch, size, size, 3)`, 0 to 255, to `(batch, 448)`.
    """
    network = efficientnet_lite(input_shape=(size, size, 3), weights="imagenet")
    maps = network.get_layer("blocks_10_add").output
    quarters = keras.layers.AveragePooling2D(maps.shape[1] // 2)(maps)
    return keras.Model(network.input, keras.layers.Flatten()(quarters), name="copy_network")
