"""Frames of moving pieces of photographs over another photograph: the same pixels on every machine, in any order."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recipes.tracking.data.motion import HEIGHT, WIDTH, Piece
from recipes.tracking.data.random_words import gaussian, mix, words

_NOISE = 4.0  # gray levels


@dataclass(frozen=True, eq=False)
class Drawn(Sequence):
    """The frames of a clip, drawn when they are read.

    Attributes:
        key: `(1,)` uint64, of the noise.
        background: `(height, width, 3)` uint8 photograph.
        corners: `(frames, 2)`, x and y of the upper left pixel of each frame in the background.
        layers: from back to front, the photograph of each piece, the middle of the piece in it, `(2,)`, and the piece.
    """

    key: np.ndarray
    background: np.ndarray
    corners: np.ndarray
    layers: tuple[tuple[np.ndarray, np.ndarray, Piece], ...]

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.corners)

    def __getitem__(self, number):
        """A frame, uint8 `(120, 160, 3)`."""
        if not -len(self) <= number < len(self):
            raise IndexError(f"Received frame {number} of a clip of {len(self)} frames.")
        number = number % len(self)
        image = window(self.background, *self.corners[number])
        for photograph, middle, piece in self.layers:
            _paste(image, photograph, middle, piece, number)
        noise = gaussian(words(mix(self.key + np.uint64(number)), 0, HEIGHT * WIDTH)).reshape(HEIGHT, WIDTH, 1)
        return np.clip(np.rint(image + np.float32(_NOISE) * noise), 0, 255).astype(np.uint8)


def bilinear(photograph: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Pixels between four of a photograph, float32 in 1/256 gray levels; its border repeats.

    Args:
        photograph: `(height, width, 3)` uint8.
        x, y: coordinates in pixels, which are rounded to 1/256 and broadcast.
    """
    x, y = (np.rint(256 * np.asarray(axis)).astype(np.int32) for axis in (x, y))
    height, width = photograph.shape[:2]
    columns, rows = (
        [np.clip((axis >> 8) + i, 0, side - 1) for i in (0, 1)] for axis, side in ((x, width), (y, height))
    )
    x, y = (axis[..., None] & 255 for axis in np.broadcast_arrays(x, y))
    flat = photograph.reshape(-1, 3).astype(np.int32)
    upper, lower = ((256 - x) * flat[r * width + columns[0]] + x * flat[r * width + columns[1]] for r in rows)
    return (((256 - y) * upper + y * lower + 128) >> 8).astype(np.float32) / np.float32(256)


def window(photograph: np.ndarray, x: float, y: float) -> np.ndarray:
    """`bilinear` on a grid of 160 x 120 pixels whose upper left one is at (x, y), inside the photograph."""
    (column, x), (row, y) = (divmod(int(np.rint(256 * start)), 256) for start in (x, y))
    pixels = photograph[row : row + HEIGHT + 1, column : column + WIDTH + 1].astype(np.int32)
    pixels = np.pad(pixels, [(0, HEIGHT + 1 - len(pixels)), (0, WIDTH + 1 - pixels.shape[1]), (0, 0)], mode="edge")
    rows = (256 - x) * pixels[:, :-1] + x * pixels[:, 1:]
    return (((256 - y) * rows[:-1] + y * rows[1:] + 128) >> 8).astype(np.float32) / np.float32(256)


def _paste(image, photograph, middle, piece, number):
    """Draw a piece on an image, in place; its edge is as soft as a pixel."""
    center, shape = piece.centers[number], piece.shapes[number]
    half = np.linalg.norm(shape, axis=1) + 1
    (left, top), (end, bottom) = np.floor(center - half).astype(int), np.ceil(center + half).astype(int) + 1
    left, top, end, bottom = max(left, 0), max(top, 0), min(end, WIDTH), min(bottom, HEIGHT)
    if left >= end or top >= bottom:
        return
    # The middle of pixel i is at i + 1/2.
    away = np.stack(np.meshgrid(np.arange(left, end), np.arange(top, bottom)), axis=-1) + 0.5 - center
    disc = np.rint(4096 * (away @ np.linalg.inv(shape).T)) / 4096
    x, y = np.moveaxis(middle + disc * piece.half_sides, -1, 0)
    edge = (1 - np.sqrt((disc**2).sum(axis=-1))) * np.sqrt(abs(np.linalg.det(shape))) + 0.5
    alpha = (np.rint(256 * np.clip(edge, 0, 1)) / 256).astype(np.float32)[..., None]
    pixels = np.float32(piece.gains[number]) * bilinear(photograph, x, y)
    window = image[top:bottom, left:end]
    window += alpha * (np.minimum(pixels, 255) - window)
