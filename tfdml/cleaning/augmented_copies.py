"""Known copies of images: what happens to pictures on their way through the web, each a small function.

Each takes pixels `(height, width, 3)` uint8 and a `numpy.random.Generator`, and returns pixels of its own size.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from tfdml._core.optional import tf

Copy = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def crop(pixels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A part of the image at random: between 0.7 and 0.95 of its height, and of its width."""
    height, width = (max(1, round(side * rng.uniform(0.7, 0.95))) for side in pixels.shape[:2])
    top, left = (int(rng.integers(a - b + 1)) for a, b in zip(pixels.shape[:2], (height, width), strict=True))
    return pixels[top : top + height, left : left + width]


def jpeg(pixels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The image after a JPEG of a quality from 10 to 50."""
    file = tf.io.encode_jpeg(pixels, quality=int(rng.integers(10, 51)))
    return tf.io.decode_jpeg(file, channels=3).numpy()


def resize(pixels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The image at 0.3 to 0.8 of its size, and its width stretched by up to 0.1 of it."""
    scale, width_scale = rng.uniform(0.3, 0.8), 1 + rng.uniform(-0.1, 0.1)
    sides = [max(1, round(side * by)) for side, by in zip(pixels.shape[:2], (scale, scale * width_scale), strict=True)]
    return _as_bytes(tf.image.resize(pixels, sides, antialias=True).numpy())


def watermark(pixels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The image under a line of eight letter-like bars, black or white, as opaque as from 0.35 to 0.7."""
    height, width = pixels.shape[:2]
    opacity, level = rng.uniform(0.35, 0.7), 255 * rng.integers(2)
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
