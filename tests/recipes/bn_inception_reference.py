"""What the network and its reference share: the drawing of weights and images, and the summary of a layer."""

from pathlib import Path

import numpy as np

FILE = Path(__file__).with_name("bn_inception_reference.npz")
IMAGE_SHAPE = (1, 67, 96, 3)  # an odd size, which pooling rounds otherwise, and another width
PLACES = 8


def image():
    """Pixels of noise, red first."""
    return np.random.default_rng(1).integers(0, 256, IMAGE_SHAPE, dtype="uint8")


def drawn(names, shapes):
    """A state dict at random: {name: array}."""
    rng = np.random.default_rng(2)
    return {name: _entry(name.rpartition(".")[2], shape, rng) for name, shape in zip(names, shapes, strict=True)}


def _entry(entry, shape, rng):
    if len(shape) == 4:
        return (rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype("float32")
    if entry in ("weight", "running_var"):
        return rng.uniform(0.5, 1.5, shape).astype("float32")
    return (0.1 * rng.standard_normal(shape)).astype("float32")


def summary(features):
    """Mean, standard deviation and some values of `(batch, height, width, channels)`."""
    x = np.asarray(features, "float64")
    places = np.linspace(0, x.size - 1, PLACES).astype(int)
    return np.concatenate([[x.mean(), x.std()], x.ravel()[places]])
