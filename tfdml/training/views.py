"""Random views of an image: what a network learns from without labels, and what it is measured on."""

import dataclasses
from typing import Any

import numpy as np

from tfdml._core.philox import array_functions, bits_of_seed


@dataclasses.dataclass(frozen=True)
class RandomLight:
    """An image under other light: saturation, gain of each channel, gamma, contrast, brightness, blur and noise.

    A function of an image `(H, W, 3)`, uint8, and a seed `(2,)` that returns an image of the same type.
    """

    def __call__(self, image: Any, seed: Any) -> Any:
        """The image under other light."""
        np_ = array_functions()
        u = np_.asarray(np_.asarray(bits_of_seed(seed, 9), np.float64) * 2.0**-64 + 0.5, np.float32)  # in [0, 1]
        x = np_.asarray(image, np.float32) / 255
        gray = np_.mean(x, axis=2, keepdims=True)
        x = gray + (0.3 + u[0]) * (x - gray)
        x = np_.maximum(x, np.float32(0)) * 2 ** (0.8 * u[1:4] - 0.4)
        x = x ** (2 ** (1.4 * u[4] - 0.7))
        x = 0.5 + (0.5 + 0.6 * u[5]) * (x - 0.5) + (0.2 * u[6] - 0.1)
        neighbors = sum(np_.roll(x, shift, axis) for axis in (0, 1) for shift in (-1, 1)) / 4
        x = x + 0.8 * u[7] * (neighbors - x)
        noise = np_.asarray(bits_of_seed(seed, 9 + image.shape[0] * image.shape[1] * 3)[9:], np.float32) * 2.0**-63
        x = x + 0.08 * u[8] * np_.reshape(noise, image.shape)
        return np_.asarray(np_.floor(255 * np_.clip(x, np.float32(0), np.float32(1)) + 0.5), np.uint8)


@dataclasses.dataclass(frozen=True)
class RandomWindow:
    """An image with a fourth channel: 255 in a random window, or for half of the images everywhere, and else 0.

    A function as `RandomLight`. The window has a fifth to four fifths of the area. `on_other_images` fills the rest.
    """

    def __call__(self, image: Any, seed: Any) -> Any:
        """The image `(H, W, 4)`."""
        np_ = array_functions()
        u = np_.asarray(bits_of_seed(seed, 5), np.float64) * 2.0**-64 + 0.5  # in [0, 1]
        area, aspect = 0.2 + 0.6 * u[0], 2.0 ** (u[1] - 0.5)

        def inside(count, side, offset):
            x = (np.arange(count) + 0.5) / count - offset * (1 - side)
            return (x >= 0) & (x <= side)

        rows = inside(image.shape[0], np_.minimum((area / aspect) ** 0.5, 1.0), u[2])
        columns = inside(image.shape[1], np_.minimum((area * aspect) ** 0.5, 1.0), u[3])
        window = np_.asarray((rows[:, None] & columns) | (u[4] < 0.5), np.uint8) * np.uint8(255)
        return np_.concatenate([image, window[..., None]], axis=2)


def on_other_images(batch: Any, examples_per_class: int) -> Any:
    """A batch of images of `RandomWindow` and labels, in which other images `(batch, H, W, 3)` surround the windows.

    The examples of a class, which are rows that follow each other, get surroundings of different classes. A network
    that finds them near to each other does not look at what surrounds a thing.
    """
    np_, (images, labels) = array_functions(), batch
    rows = np.arange(images.shape[0])
    others = (rows + examples_per_class * (1 + rows % examples_per_class)) % len(rows)
    pixels = images[..., :3]
    return np_.where(images[..., 3:] > 0, pixels, np_.take(pixels, others, axis=0)), labels
