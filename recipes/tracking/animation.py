"""Animations of tracked boxes."""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from recipes.checks import require
from recipes.tracking.data.clip import Clip

_COLORS = ("#ffffff", "#e69f00", "#56b4e9", "#cc79a7")  # of Okabe and Ito, and white
_LINE = 12  # pixels of a line of the legend
_MILLISECONDS = 100  # of a frame
_ZOOM = 2


def tracks(path: str | os.PathLike[str], clip: Clip, boxes: Mapping[str, npt.ArrayLike], *, step: int = 1) -> Path:
    """Write a GIF of a clip with boxes, and a legend below.

    Args:
        path: file to write, ending in .gif; it is replaced.
        clip: the frames.
        boxes: name to boxes `(frames, 4)`, one to four of them.
        step: every `step`-th frame is shown.

    Returns:
        The path.
    """
    require(0 < len(boxes) <= len(_COLORS), f"{len(boxes)} names of boxes", f"1 to {len(_COLORS)}")
    for name, rows in boxes.items():
        shape = np.shape(rows)
        require(shape == (len(clip), 4), f"boxes {name!r} of shape {shape}", f"({len(clip)}, 4), one box per frame")
    first, *others = (_picture(clip.image(number), boxes, number) for number in range(0, len(clip), step))
    first.save(path, save_all=True, append_images=others, duration=_MILLISECONDS, loop=0, optimize=True)
    return Path(path)


def _picture(pixels, boxes, number):
    """A frame with its boxes, in 64 colors."""
    height, width = (_ZOOM * side for side in pixels.shape[:2])
    image = Image.new("RGB", (width, height + _LINE * len(boxes)))
    image.paste(Image.fromarray(pixels).resize((width, height), Image.Resampling.NEAREST))
    draw = ImageDraw.Draw(image)
    for row, ((name, rows), color) in enumerate(zip(boxes.items(), _COLORS, strict=False)):
        x, y, w, h = _ZOOM * np.asarray(rows, np.float64)[number]
        draw.rectangle([x, y, x + w, y + h], outline=color, width=_ZOOM)
        draw.text((4, height + _LINE * row), name, fill=color)
    return image.quantize(64, dither=Image.Dither.NONE)
