"""Known copies of images: what happens to pictures on their way through the web, each a small function.

Each takes pixels `(height, width, 3)` uint8 and a `numpy.random.Generator`, and returns pixels of its own size.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

Copy = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def crop(pixels: np.ndarray, rng: np.random.Generator, *, least: float = 0.7, most: float = 0.95) -> np.ndarray:
    """A part of the image at random: between `least` and `most` of its height, and of its width."""
    height, width = (max(1, round(side * rng.uniform(least, most))) for side in pixels.shape[:2])
    top, left = (int(rng.integers(a - b + 1)) for a, b in zip(pixels.shape[:2], (height, width), strict=True))
    return pixels[top : top + height, left : left + width]


def jpeg(pixels: np.ndarray, rng: np.random.Generator, *, least: int = 10, most: int = 50) -> np.ndarray:
    """The image after a JPEG of a quality from `least` to `most`."""
    import tensorflow as tf

    file = tf.io.encode_jpeg(pixels, quality=int(rng.integers(least, most + 1)))
    return tf.io.decode_jpeg(file, channels=3).numpy()


def resize(
    pixels: np.ndarray, rng: np.random.Generator, *, least: float = 0.3, most: float = 0.8, stretch: float = 0.1
) -> np.ndarray:
    """The image at `least` to `most` of its size, and its width stretched by up to `stretch` of it."""
    import tensorflow as tf

    scale, width_scale = rng.uniform(least, most), 1 + rng.uniform(-stretch, stretch)
    sides = [max(1, round(side * by)) for side, by in zip(pixels.shape[:2], (scale, scale * width_scale), strict=True)]
    return _as_bytes(tf.image.resize(pixels, sides, antialias=True).numpy())


def watermark(pixels: np.ndarray, rng: np.random.Generator, *, least: float = 0.35, most: float = 0.7) -> np.ndarray:
    """The image under a line of eight letter-like bars, black or white, as opaque as from `least` to `most`."""
    height, width = pixels.shape[:2]
    opacity, level = rng.uniform(least, most), 255 * rng.integers(2)
    top, letter_height = rng.uniform(0.3, 0.6) * height, rng.uniform(0.1, 0.18) * height
    ends = np.arange(8) + rng.uniform(0.3, 0.7, 8)
    column = (np.arange(width) / width - 0.08) / 0.84 * 8
    is_letter = ((column[:, None] >= np.arange(8)) & (column[:, None] < ends)).any(axis=1)
    row = np.arange(height)
    mask = opacity * np.outer((row >= top) & (row < top + letter_height), is_letter)[..., None]
    return _as_bytes(pixels * (1 - mask) + level * mask)


COPIES: Mapping[str, Copy] = MappingProxyType({"crop": crop, "jpeg": jpeg, "resize": resize, "watermark": watermark})
"""The kinds of copies from which a threshold is calibrated."""


def _as_bytes(values):
    return np.uint8(np.rint(np.clip(values, 0, 255)))
