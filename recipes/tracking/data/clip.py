"""A clip: frames, and the box of one object in each of them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from recipes.checks import require


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Clip:
    """Frames of a video, and the box of one object in each of them.

    Boxes are `(x, y, width, height)` in pixels: the upper left pixel of a frame covers 0 to 1.

    Attributes:
        name: its name in the set.
        frames: `n` paths of image files, or uint8 images `(height, width, 3)`; a sequence may draw its images when
            they are read.
        boxes: `(n, 4)` float64, or `(1, 4)` where only the first box is published.
        cover: `(n,)` int64, visible eighths of the object, 0 to 8; None where not stated.
        absent: `(n,)` bool, frames without the object; None where not stated.
        size: `(width, height)` of the frames; None where not stated.
        protocol: id of the set and its measurement.

    Raises:
        ValueError: no frames, no box, another number of boxes than frames, a first box that is not finite or without
            area, or flags of another number.
    """

    name: str
    frames: Sequence[Any]
    boxes: np.ndarray
    cover: np.ndarray | None = None
    absent: np.ndarray | None = None
    size: tuple[int, int] | None = None
    protocol: str | None = None

    def __post_init__(self):
        boxes = np.array(self.boxes, dtype=np.float64)
        count, clip = len(self.frames), f"clip {self.name!r}"
        require(count > 0, f"{clip} without a frame", "at least one")
        require(boxes.size > 0, f"{clip} without a box", "one per frame, or the first one. A tracker starts from it")
        is_table = boxes.ndim == 2 and boxes.shape[1] == 4 and len(boxes) in (1, count)
        require(is_table, f"{clip} of {count} frames with boxes of shape {boxes.shape}", f"({count}, 4) or (1, 4)")
        is_box = bool(np.isfinite(boxes[0]).all() and (boxes[0, 2:] > 0).all())
        require(is_box, f"{clip} with the first box {boxes[0].tolist()}", "x, y, width > 0 and height > 0")
        object.__setattr__(self, "boxes", boxes)
        for name in ("cover", "absent"):
            flags = getattr(self, name)
            require(flags is None or len(flags) == count, f"{clip} with {name} of another length", f"{count} values")

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.frames)

    def __repr__(self) -> str:
        return f"<Clip {self.name!r}: {len(self):,} frames>"

    def image(self, number: int) -> np.ndarray:
        """The pixels of a frame, uint8 `(height, width, 3)`, RGB.

        Raises:
            ValueError: a file that cannot be read or decoded.
        """
        frame = self.frames[number]
        return _read(frame) if isinstance(frame, str | os.PathLike) else np.asarray(frame)

    @property
    def usable(self) -> np.ndarray:
        """`(n,)` bool: frames whose box is finite, has an area, and whose object is not hidden or absent."""
        usable = np.zeros(len(self), bool)
        usable[: len(self.boxes)] = np.isfinite(self.boxes).all(axis=1) & (self.boxes[:, 2:] > 0).all(axis=1)
        usable &= True if self.cover is None else np.asarray(self.cover) > 0
        return usable & (True if self.absent is None else ~np.asarray(self.absent, bool))


def _read(path):
    """The pixels of an image file, upright."""
    try:
        with Image.open(path) as image:
            return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    except OSError as error:
        raise ValueError(f"Received {os.fspath(path)!r}, which cannot be read as an image: {error}") from error
