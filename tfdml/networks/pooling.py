"""Pooling of feature maps to one vector per image."""

from typing import Any

import keras
from keras import KerasTensor, layers, ops

from tfdml._core.checks import require_one_of
from tfdml._core.serialization import serializable


@serializable
class GeM(keras.layers.Layer):
    """Generalized mean pooling: (mean over positions of max(x, epsilon)^p)^(1 / p), with a learned p per network.

    p = 1 is average pooling of positive features, and p to infinity is max pooling.

    Example:

        >>> features = np.array([[[[0.0], [0.0]], [[0.0], [2.0]]]])  # one channel at four positions
        >>> [round(float(tfdml.models.GeM(p)(features)[0, 0]), 4) for p in (1.0, 3.0)]  # 2 / 4, and (8 / 4)^(1 / 3)
        [0.5, 1.2599]

    Args:
        p: the exponent at the start, above 0.
        epsilon: features below it count as it, above 0.

    Source: Radenovic, Tolias, Chum, Fine-tuning CNN Image Retrieval with No Human Annotation, TPAMI 2019, eq. 3.
    """

    def __init__(self, p: float = 3.0, epsilon: float = 1e-6, **options: Any) -> None:
        super().__init__(**options)
        if p <= 0 or epsilon <= 0:
            raise ValueError(f"Received p={p} and epsilon={epsilon}, expected numbers above 0.")
        self.start, self.epsilon = p, epsilon

    def build(self, input_shape: Any) -> None:
        """Creates p."""
        self.p = self.add_weight(shape=(), initializer=keras.initializers.Constant(self.start), name="p")

    def call(self, features: Any) -> Any:
        """`(batch, height, width, channels)` to `(batch, channels)`, computed in float32."""
        x = ops.maximum(ops.cast(features, "float32"), self.epsilon)
        p = ops.cast(self.p, "float32")
        top = ops.stop_gradient(ops.max(x, axis=(1, 2), keepdims=True))  # the powers of x / top do not overflow
        mean = ops.mean(ops.power(x / top, p), axis=(1, 2))
        return ops.cast(top[:, 0, 0] * ops.power(mean, 1.0 / p), self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """The settings, for Keras."""
        return {**super().get_config(), "p": self.start, "epsilon": self.epsilon}


POOLINGS = {
    "avg": lambda features: layers.GlobalAveragePooling2D(name="pooling")(features),
    "max": lambda features: layers.GlobalMaxPooling2D(name="pooling")(features),
    "avg+max": lambda features: layers.Add(name="pooling")(
        [layers.GlobalAveragePooling2D()(features), layers.GlobalMaxPooling2D()(features)]
    ),
    "gem": lambda features: GeM(name="pooling")(features),
}
_TOKEN_POOLINGS = ("token", "token+avg")


def pooled(features: KerasTensor, pooling: str, *, num_registers: int = 0) -> KerasTensor:
    """One vector per image of feature maps, of tokens (a first one, registers, patches), or of vectors, unchanged."""
    require_one_of((*POOLINGS, *_TOKEN_POOLINGS), pooling=pooling)
    if len(features.shape) == 2:
        return features
    if len(features.shape) not in ((3,) if pooling in _TOKEN_POOLINGS else (3, 4)):
        raise ValueError(
            f"Received a backbone with features of shape {tuple(features.shape)} and pooling={pooling!r}, expected "
            "feature maps (batch, height, width, channels), except for 'token' and 'token+avg', tokens "
            "(batch, tokens, channels), or vectors (batch, channels)."
        )
    if pooling == "token":
        return layers.Flatten(name="pooling")(features[:, :1])
    if pooling == "token+avg":
        patches = layers.GlobalAveragePooling1D()(features[:, 1 + num_registers :])
        return layers.Concatenate(name="pooling")([layers.Flatten()(features[:, :1]), patches])
    if len(features.shape) == 3:  # a map of one column
        features = layers.Reshape((-1, 1, features.shape[-1]), name="tokens")(features)
    return POOLINGS[pooling](features)
