"""The network of few-shot papers: four equal blocks of a convolution and a pooling."""

from keras import KerasTensor, layers

from tfdml._core.checks import require, require_whole


def conv4(images: KerasTensor, *, width: int = 64) -> KerasTensor:
    """Four blocks of a 3 x 3 convolution, batch normalization, ReLU and 2 x 2 max pooling; the last map, flattened.

    Embeddings are compared by their Euclidean distance, so they are not normalized: 64 numbers of a 28 x 28 image,
    1,600 of an 84 x 84 image. With 64 channels and gray images the network has 111,936 trained weights.

    Example:

        >>> images = keras.Input((28, 28, 1))
        >>> tfdml.networks.conv4(images).shape
        (None, 64)

    Args:
        images: `(batch, height, width, channels)` Keras tensor of pixels, at least 16 x 16. Whole numbers, such as
            uint8 pixels, are divided by 255; floats are not scaled.
        width: channels of each block.

    Returns:
        `(batch, positions * width)` Keras tensor of floats, 0 or more, with the positions of the last map.

    Source: Vinyals et al., Matching Networks for One Shot Learning, NIPS 2016, section 4.1; Snell, Swersky, Zemel,
    Prototypical Networks for Few-shot Learning, NIPS 2017, section 3. Batch normalization averages over about ten
    batches, as in the program of its authors.
    """
    require_whole("width", width, 1)
    shape = tuple(images.shape)
    is_image = len(shape) == 4 and None not in shape[1:] and min(shape[1:3]) >= 16
    require(is_image, f"images of shape {shape}", "(batch, height, width, channels) of at least 16 x 16 pixels")
    x = layers.Rescaling(1 / 255)(images) if "int" in str(images.dtype) else images
    for _ in range(4):
        x = _block(x, width)
    return layers.Flatten()(x)


def _block(x, width):
    x = layers.Conv2D(width, 3, padding="same")(x)
    x = layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)
    return layers.MaxPooling2D()(layers.Activation("relu")(x))
