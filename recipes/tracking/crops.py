"""Square crops around a box, with context; outside the frame they have its mean color."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from recipes.tracking.checks import require


def crop_side(box: npt.ArrayLike, *, context: float = 0.5) -> float:
    """Side of the square around a box with its context: sqrt((w + 2 p) (h + 2 p)), p = context (w + h) / 2.

    Example: p = (3 + 1) / 4 = 1: sqrt((3 + 2) (1 + 2)).

        >>> round(tracking.crop_side((0, 0, 3, 1), context=0.5) ** 2, 4)
        15.0

    Args:
        box: `(4,)` x, y, width, height.
        context: share of the mean side that is added on each side, 0 or more.

    Source: Bertinetto et al., Fully-Convolutional Siamese Networks for Object Tracking, 2016, section 2.4: context 1/2.
    """
    _, _, w, h = np.asarray(box, np.float64)
    p = context * (w + h) / 2
    return float(np.sqrt((w + 2 * p) * (h + 2 * p)))


def crop(image: np.ndarray, center: npt.ArrayLike, sides: Sequence[float] | npt.ArrayLike, size: int) -> np.ndarray:
    """Squares around a point of an image, brought to one size: bilinear, with antialiasing.

    Example: the left half of an image of 2 x 4 pixels is black.

        >>> image = np.zeros((4, 8, 3), "uint8")
        >>> image[:, 4:] = 200
        >>> squares = tracking.crop(image, center=(4, 2), sides=[4.0], size=4)
        >>> squares[0, :, :, 0]
        array([[  0,   0, 200, 200],
               [  0,   0, 200, 200],
               [  0,   0, 200, 200],
               [  0,   0, 200, 200]], dtype=uint8)

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
    """A box as float64 `(4,)`.

    Raises:
        ValueError: not four finite numbers, no area, or no pixel inside the frame.
    """
    box = np.asarray(box, np.float64)
    is_box = box.shape == (4,) and bool(np.isfinite(box).all()) and box[2] > 0 and box[3] > 0
    require(is_box, f"{name}={box.tolist()}", "x, y, width > 0 and height > 0 in pixels")
    height, width = frame.shape[:2]
    inside = box[0] < width and box[1] < height and box[0] + box[2] > 0 and box[1] + box[3] > 0
    require(
        inside, f"{name}={box.tolist()} outside its frame of {width} x {height} pixels", "a box that overlaps the frame"
    )
    return box


def as_frame(frame: npt.ArrayLike) -> np.ndarray:
    """A frame as uint8 `(height, width, 3)`.

    Raises:
        ValueError: pixels of another shape or type.
    """
    frame = np.asarray(frame)
    is_frame = frame.ndim == 3 and frame.shape[2] == 3 and frame.dtype == np.uint8 and frame.size > 0
    require(is_frame, f"a frame of shape {frame.shape} and type {frame.dtype}", "uint8 pixels (height, width, 3), RGB")
    return frame
