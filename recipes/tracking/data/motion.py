"""Paths, shapes and light of moving pieces, as functions of the frame: all numbers follow from one key."""

from typing import NamedTuple

import numpy as np

from recipes.tracking.data.random_words import uniform, words

WIDTH, HEIGHT = 160, 120
_PERIOD = 40  # frames that the cycles of a wave refer to
_GRID = 20  # points along the diameter of the unit disc on which the cover is measured

# Ranges of the uniform parameters of a piece; waves are amplitude * sin(2 pi (cycles t / 40 + phase)).
_PIECE = {
    "x": (-35.0, 35.0, 0.4, 1.3),  # low and high of the amplitude in pixels, low and high of the cycles
    "x_again": (-10.0, 10.0, 1.5, 3.0),
    "y": (-22.0, 22.0, 0.4, 1.3),
    "y_again": (-7.0, 7.0, 1.5, 3.0),
    "scale": (-0.5, 0.5, 0.3, 1.0),  # exponents of 2
    "stretch": (-0.2, 0.2, 0.3, 1.0),  # the width grows by 2 to this exponent, the height shrinks
    "turn": (-25.0, 25.0, 0.3, 1.0),  # degrees
    "light": (-0.4, 0.4, 0.3, 1.5),  # exponents of 2
}
_HALF_SIDES = (8.0, 16.0)  # pixels
_NUMBERS = 3 * len(_PIECE) + 2  # words that a piece takes
WORDS = 32  # words set aside for each piece of a clip


class Piece(NamedTuple):
    """An elliptic piece of a photograph in every frame.

    Attributes:
        centers: `(frames, 2)`, x and y in pixels.
        shapes: `(frames, 2, 2)`, the matrices that map the unit disc to the ellipse around its center.
        half_sides: `(2,)`, half width and height of the ellipse before it moves, in pixels.
        gains: `(frames,)`, factors of the pixels.
    """

    centers: np.ndarray
    shapes: np.ndarray
    half_sides: np.ndarray
    gains: np.ndarray


def piece(key: np.ndarray, number: int, frames: int) -> Piece:
    """Piece `number` of the clip of a key, `(1,)` uint64."""
    u = uniform(words(key, number * WORDS, _NUMBERS))[0].astype(np.float64)
    waves = {name: _wave(u[3 * i : 3 * i + 3], bounds, frames) for i, (name, bounds) in enumerate(_PIECE.items())}
    half_sides = _HALF_SIDES[0] + (_HALF_SIDES[1] - _HALF_SIDES[0]) * u[-2:]
    centers = np.stack([WIDTH / 2 + waves["x"] + waves["x_again"], HEIGHT / 2 + waves["y"] + waves["y_again"]], axis=1)
    sides = half_sides * 2.0 ** (waves["scale"][:, None] + waves["stretch"][:, None] * [1, -1])
    angle = np.deg2rad(waves["turn"])
    turns = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], axis=1).reshape(-1, 2, 2)
    return Piece(_rounded(centers), turns * sides[:, None, :], half_sides, _rounded(2.0 ** waves["light"]))


def occluder(target: Piece, u: np.ndarray) -> Piece:
    """A disc that crosses the target once.

    Args:
        target: the piece that it hides.
        u: `(4,)` in [0, 1): time of the middle, direction, speed, size.
    """
    frames = len(target.centers)
    middle = frames * (0.25 + 0.5 * u[0])
    direction = 2 * np.pi * u[1]
    away = (2 + 3 * u[2]) * (np.arange(frames) - middle)[:, None] * [np.cos(direction), np.sin(direction)]
    radius = (0.6 + 0.5 * u[3]) * target.half_sides.max()
    shapes = np.tile(radius * np.eye(2), (frames, 1, 1))
    return Piece(_rounded(target.centers + away), shapes, np.array([radius, radius]), np.ones(frames))


def boxes(target: Piece) -> np.ndarray:
    """Box of the ellipse in every frame, `(frames, 4)`: x, y, width, height."""
    half = np.linalg.norm(target.shapes, axis=2)
    return np.concatenate([target.centers - half, 2 * half], axis=1)


def cover(target: Piece, cover_piece: Piece | None) -> np.ndarray:
    """Visible eighths of the target, `(frames,)` int64, rounded up: 0 where nothing is visible."""
    line = (np.arange(_GRID) + 0.5) / _GRID * 2 - 1
    disc = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    disc = disc[(disc**2).sum(axis=1) < 1]
    points = target.centers[:, None] + disc @ target.shapes.transpose(0, 2, 1)
    visible = ((points >= 0) & (points < [WIDTH, HEIGHT])).all(axis=2)
    if cover_piece is not None:
        away = points - cover_piece.centers[:, None]
        visible &= (away**2).sum(axis=2) >= cover_piece.half_sides[0] ** 2
    return np.ceil(8 * visible.mean(axis=1)).astype(np.int64)


def wave(u: np.ndarray, amplitude: float, frames: int) -> np.ndarray:
    """A slow wave of at most this amplitude, `(frames,)`, from `u` `(3,)` in [0, 1)."""
    return _wave(u, (-amplitude, amplitude, 0.2, 0.8), frames)


def _wave(u, bounds, frames):
    low, high, slow, fast = bounds
    cycles = slow + (fast - slow) * u[1]
    return (low + (high - low) * u[0]) * np.sin(2 * np.pi * (cycles * np.arange(frames) / _PERIOD + u[2]))


def _rounded(x):
    """Multiples of 1/256, which all machines share although their sines may differ in the last bit."""
    return np.rint(256 * x) / 256
