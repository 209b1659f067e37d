"""Square crops around a box, with context; outside the frame they have its mean color."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from recipes.checks import require


def crop_side(box: npt.ArrayLike) -> float:
    """Side of the square around a box x, y, w, h with its context: sqrt((w + 2 p) (h + 2 p)), p = (w + h) / 4.

    Source: Bertinetto et al., Fully-Convolutional Siamese Networks for Object Tracking, 2016, section 2.4.
    """
    _, _, w, h = np.asarray(box, np.float64)
    p = (w + h) / 4
    return float(np.sqrt((w + 2 * p) * (h + 2 * p)))


def crop(image: np.ndarray, center: npt.ArrayLike, sides: Sequence[float] | npt.ArrayLike, size: int) -> np.ndarray:
    """Squares around a point of an image, brought to one size: bilinear, with antialiasing.

    Args:
        image: `(height, width, 3)` uint8.
        center: `(2,)` x and y in pixels; the upper left pixel covers 0 to 1.
        sides: `(n,)` sides of the squares in pixels of the image, above 0.
        size: side of the crops in pixels.

    Returns:
        `(n, size, size, 3)` uint8; the mean color of the image outside of it.
    """
    mean = image.mean(axis=(0, 1), dtype=np.float64).astype(np.float32)
    centered = tf.constant(image.astype(np.float32) - mean)[None]
    y_x = np.asarray(center, np.float64)[::-1]
    crops = [_resampled(centered, y_x - side / 2, size / side, size) for side in np.asarray(sides, np.float64)]
    return np.clip(np.rint(np.concatenate(crops) + mean), 0, 255).astype(np.uint8)


def _resampled(image, start, scale, size):
    """Pixels from `start`, y and x, on a grid that is finer by `scale`; 0 outside the image."""
    return tf.raw_ops.ScaleAndTranslate(
        images=image,
        size=(size, size),
        scale=np.full(2, scale, np.float32),
        translation=(-start * scale).astype(np.float32),
        kernel_type="triangle",
        antialias=True,
    ).numpy()


def as_box(box: npt.ArrayLike, frame: np.ndarray, name: str = "box") -> np.ndarray:
    """A box as float64 `(4,)`; a ValueError if it has no area or no pixel inside the frame."""
    box, (height, width) = np.asarray(box, np.float64), frame.shape[:2]
    is_box = box.shape == (4,) and bool(np.isfinite(box).all()) and box[2] > 0 and box[3] > 0
    require(is_box, f"{name}={box.tolist()}", "x, y, width > 0 and height > 0 in pixels")
    is_inside = box[0] < width and box[1] < height and box[0] + box[2] > 0 and box[1] + box[3] > 0
    received = f"{name}={box.tolist()} outside its frame of {width} x {height} pixels"
    require(is_inside, received, "a box that overlaps the frame")
    return box


def as_frame(frame: npt.ArrayLike) -> np.ndarray:
    """A frame as uint8 `(height, width, 3)`; a ValueError for another shape or type."""
    frame = np.asarray(frame)
    is_frame = frame.ndim == 3 and frame.shape[2] == 3 and frame.dtype == np.uint8 and frame.size > 0
    require(is_frame, f"a frame of shape {frame.shape} and type {frame.dtype}", "uint8 pixels (height, width, 3), RGB")
    return frame
