"""Small pictures of a few examples of a set, as data URIs."""

import base64
import io

import numpy as np

from tfdml._core.optional import optional_import
from tfdml.visualize.pictures import examples

_SIDE = 96  # pixels


def thumbnails(data, rows):
    """Pictures of some examples, loaded one at a time.

    Args:
        data: a labeled set, or None.
        rows: row numbers.

    Returns:
        dict of row to data URI; empty without a set, and without the examples that are not images.

    Raises:
        ImportError: Pillow is not installed.
        tf.errors.InvalidArgumentError: an example that cannot be loaded, which it names.
    """
    rows = sorted(set(rows))
    if data is None or not rows:
        return {}
    images = {row: _pixels(example) for row, example in zip(rows, examples(data, rows), strict=True)}
    return {row: _data_uri(pixels) for row, pixels in images.items() if pixels is not None}


def _pixels(example):
    """An image as uint8 `(height, width)` or `(height, width, 3 or 4)`; None for anything else."""
    if example.ndim == 3 and example.shape[-1] == 1:
        example = example[..., 0]
    if example.dtype.kind not in "buif" or example.ndim not in (2, 3) or 0 in example.shape:
        return None
    if example.ndim == 3 and example.shape[-1] not in (3, 4):
        return None
    return example if example.dtype == np.uint8 else _stretched(example.astype(np.float64))


def _stretched(values):
    """Numbers as uint8: the smallest is black, the largest white."""
    low, high = values.min(), values.max()
    return np.uint8(np.rint(255 * (values - low) / max(high - low, np.finfo(float).tiny)))


def _data_uri(pixels):
    """PNG of a small image, JPEG of a larger one that is reduced to 96 pixels."""
    pillow = optional_import("PIL.Image", feature="Evaluation.html", extra="plots")
    picture, file = pillow.fromarray(pixels), io.BytesIO()
    kind = "png" if max(picture.size) <= _SIDE else "jpeg"
    if kind == "jpeg":
        picture = picture.convert("RGB")
        picture.thumbnail((_SIDE, _SIDE))
    picture.save(file, kind)
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"
