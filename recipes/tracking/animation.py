"""Animations of tracked boxes."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from recipes.tracking.checks import require, require_positive, require_whole

_COLORS = ("#ffffff", "#e69f00", "#56b4e9", "#cc79a7")  # of Okabe and Ito, and white
_LINE = 12  # pixels of a line of the legend


def tracks(
    path: str | os.PathLike[str],
    clip: Any,
    boxes: Mapping[str, npt.ArrayLike],
    *,
    step: int = 1,
    zoom: int = 2,
    seconds: float = 0.1,
) -> Path:
    """Write a GIF of a clip with boxes, and a legend below.

    Example:

        >>> frames = np.zeros((2, 24, 32, 3), "uint8")
        >>> truth = np.array([[4.0, 4.0, 8.0, 8.0], [6.0, 4.0, 8.0, 8.0]])
        >>> clip = tracking.Clip(name="square", frames=frames, boxes=truth)
        >>> path = tracking.tracks("tracks.gif", clip, {"truth": truth, "tracker": truth + 1.0})
        >>> from PIL import Image
        >>> with Image.open(path) as gif:
        ...     print(gif.n_frames)
        2

    Args:
        path: file to write, ending in .gif; it is replaced.
        clip: `tracking.Clip`.
        boxes: name to boxes `(frames, 4)`, one to four of them.
        step: every `step`-th frame is shown.
        zoom: factor of the sides, a whole number.
        seconds: duration of a frame.

    Returns:
        The path.

    Raises:
        ValueError: another number of boxes than frames, none or more than four names, or a setting out of range.
        OSError: `path` cannot be written.
    """
    require(Path(path).suffix == ".gif", f"path={str(path)!r}", "a file name that ends in .gif")
    require(0 < len(boxes) <= len(_COLORS), f"{len(boxes)} names of boxes", f"1 to {len(_COLORS)}")
    require_whole(1, step=step, zoom=zoom)
    require_positive(seconds=seconds)
    for name, rows in boxes.items():
        shape = np.shape(rows)
        require(shape == (len(clip), 4), f"boxes {name!r} of shape {shape}", f"({len(clip)}, 4), one box per frame")
    pictures = [_picture(clip.image(number), boxes, number, zoom) for number in range(0, len(clip), step)]
    pictures[0].save(
        path, save_all=True, append_images=pictures[1:], duration=round(1000 * seconds), loop=0, optimize=True
    )
    return Path(path)


def _picture(pixels, boxes, number, zoom):
    """A frame with its boxes, in 64 colors."""
    height, width = (zoom * side for side in pixels.shape[:2])
    image = Image.new("RGB", (width, height + _LINE * len(boxes)))
    image.paste(Image.fromarray(pixels).resize((width, height), Image.Resampling.NEAREST))
    draw = ImageDraw.Draw(image)
    for row, (name, rows) in enumerate(boxes.items()):
        x, y, w, h = zoom * np.asarray(rows, np.float64)[number]
        draw.rectangle([x, y, x + w, y + h], outline=_COLORS[row], width=zoom)
        draw.text((4, height + _LINE * row), name, fill=_COLORS[row])
    return image.quantize(64, dither=Image.Dither.NONE)
