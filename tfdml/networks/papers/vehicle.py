"""The two-branch network of vehicles: one branch for the model of a vehicle, one for the vehicle itself, joined."""

from collections.abc import Callable

from keras import KerasTensor, layers

from tfdml._core.checks import require, require_whole

_DROPOUT = 0.5


def vehicle_network(
    images: KerasTensor,
    *,
    num_models: int,
    dim: int = 1024,
    trunk: Callable[[KerasTensor], KerasTensor] | None = None,
) -> dict[str, KerasTensor]:
    """Two outputs: scores of vehicle models, and an embedding of the vehicle that also sees the features of its model.

    Both branches share the trunk. Two vehicles of different models differ already in the features of the first branch;
    two of the same model are told apart by the second. Vehicles whose model is not known have the model -1.

    See also: `tfdml.losses.CoupledClustersLoss` for the embedding.

    Example:

        >>> images = keras.Input((32, 32, 3))
        >>> trunk = keras.layers.GlobalAveragePooling2D()  # a tiny one
        >>> outputs = tfdml.networks.vehicle_network(images, num_models=5, dim=8, trunk=trunk)
        >>> {name: output.shape for name, output in outputs.items()}
        {'model': (None, 5), 'embedding': (None, 8)}

    Args:
        images: `(batch, height, width, channels)` Keras tensor of pixels in [0, 255].
        num_models: number of vehicle models.
        dim: size of the features of each branch, and of the embedding.
        trunk: function from images to features `(batch, features)`; None for VGG-M, for images of 224 x 224.

    Returns:
        dict of tensors: "model", logits `(batch, num_models)`, and "embedding", unit vectors `(batch, dim)` float32.

    Source: Liu, Tian, Yang, Pang, Huang, Deep Relative Distance Learning: Tell the Difference Between Similar Vehicles,
    CVPR 2016, mixed difference network, as in Serrat, Deep Metric Learning, course slides. Unit vectors are ours.
    """
    require_whole("num_models", num_models, 1)
    require_whole("dim", dim, 1)
    features = (trunk or vgg_m)(images)
    require(
        len(features.shape) == 2, f"a trunk with features of shape {features.shape}", "(batch, features). Pool them"
    )
    model_features = layers.Dense(dim, "relu", name="model_features")(features)
    vehicle_features = layers.Dense(dim, "relu", name="vehicle_features")(features)
    joined = layers.Dense(dim, name="joined")(layers.Concatenate()([model_features, vehicle_features]))
    return {
        "model": layers.Dense(num_models, dtype="float32", name="model")(model_features),
        "embedding": layers.UnitNormalization(dtype="float32", name="embedding")(joined),
    }


def vgg_m(images: KerasTensor) -> KerasTensor:
    """VGG-M up to its first dense layer: five convolutions and 4,096 features, for images of 224 x 224.

    Batch normalization stands in for local response normalization after the first two convolutions.

    Source: Chatfield, Simonyan, Vedaldi, Zisserman, Return of the Devil in the Details, BMVC 2014, CNN-M.
    """
    x = layers.Rescaling(1 / 127.5, offset=-1)(images)
    x = layers.Activation("relu")(layers.BatchNormalization()(layers.Conv2D(96, 7, strides=2)(x)))
    x = layers.ZeroPadding2D(1)(layers.MaxPooling2D(3, 2)(x))
    x = layers.Activation("relu")(layers.BatchNormalization()(layers.Conv2D(256, 5, strides=2)(x)))
    x = layers.MaxPooling2D(3, 2, padding="same")(x)
    for _ in range(3):
        x = layers.Conv2D(512, 3, padding="same", activation="relu")(x)
    x = layers.Flatten()(layers.MaxPooling2D(3, 2)(x))
    return layers.Dropout(_DROPOUT)(layers.Dense(4096, "relu")(x))
