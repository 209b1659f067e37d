"""Small deterministic distortions of glyph drawings: pixels do not depend on the machine, the order or the chunk.

The random numbers of an image depend only on its key. They come from SplitMix64 (Steele, Lea, Flood, Fast Splittable
Pseudorandom Number Generators, 2014), in integer arithmetic below, whatever the release of NumPy.
"""

import numpy as np
import numpy.typing as npt

ROTATION = 8.0  # degrees, in either direction
SHEAR = 0.10
SCALE = 0.06
ASPECT = 0.08
SHIFT = 1.0  # pixels of the result
CONTRAST = 0.5  # minimum
BLUR = 0.6  # maximum standard deviation, pixels of the result
TEXTURE = 0.15  # maximum, share of full scale
NOISE = 0.10  # maximum, share of full scale
WEAKEST = 0.25  # minimum of texture and noise, share of their maximum

SIDE = 32
_GRID = 4  # side of the grid of random heights that the background texture interpolates
_GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def mix(x: np.ndarray) -> np.ndarray:
    """The finalizer of SplitMix64: a bijection of uint64 arrays that scrambles all bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def image_keys(code_points: npt.ArrayLike, face_ids: npt.ArrayLike, view: int) -> np.ndarray:
    """Key of each image, `(n,)` uint64, of code points and ids of faces below 2^32, `(n,)`, and a view."""
    drawing = mix((np.asarray(code_points).astype(np.uint64) << np.uint64(32)) | np.asarray(face_ids).astype(np.uint64))
    return mix(drawing + np.uint64(view))


def words(keys: np.ndarray, start: int, count: int) -> np.ndarray:
    """Words `start` to `start + count` of the stream of each key: `(n,)` -> `(n, count)` uint64."""
    positions = np.arange(start + 1, start + count + 1, dtype=np.uint64)
    return mix(keys[:, None] + positions * _GOLDEN_GAMMA)


def uniform(w: np.ndarray) -> np.ndarray:
    """Maps words to float32 in [0, 1)."""
    return (w >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)


def gaussian(w: np.ndarray) -> np.ndarray:
    """Maps words to nearly normal float32: sum of four 16-bit uniform parts, mean 0, deviation 1, within +-3.47."""
    low_bits = np.uint64(0xFFFF)
    total = (w & low_bits) + (w >> np.uint64(16) & low_bits) + (w >> np.uint64(32) & low_bits) + (w >> np.uint64(48))
    deviation = np.sqrt((65536.0**2 - 1) / 3)  # four times the variance (65536^2 - 1) / 12
    return (total.astype(np.float32) - np.float32(131070)) / np.float32(deviation)


def distort(drawings: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Distort drawings `(n, 64, 64)` float32, ink 1, by the keys of `image_keys`, and reduce them to 32 x 32.

    image = 1/2 + c (blur(warp(drawing)) - 1/2) + texture + noise, clipped to [0, 1], where c is the contrast.
    """
    u = uniform(words(keys, 0, 10))
    contrast = CONTRAST + (1 - CONTRAST) * u[:, 6, None, None]
    strength = WEAKEST + (1 - WEAKEST) * u[:, 7:9, None, None]
    texture = TEXTURE * strength[:, 0] * _texture(2 * uniform(words(keys, 16, _GRID**2)) - 1)
    noise = NOISE * strength[:, 1] * gaussian(words(keys, 64, SIDE**2)).reshape(-1, SIDE, SIDE)
    ink = _blur(_warp(drawings, 2 * u[:, :6] - 1), BLUR * u[:, 9])
    image = np.float32(0.5) + contrast * (ink - np.float32(0.5)) + texture + noise
    return np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8)


def _warp(drawings, p):
    """Rotates, shears, scales and shifts about the center: `(n, 64, 64)`, `(n, 6)` in [-1, 1] -> `(n, 32, 32)`."""
    margin = 8
    padded = np.pad(drawings, ((0, 0), (margin, margin), (margin, margin)))
    windows = (padded[:, 1:, 1:] + padded[:, :-1, 1:] + padded[:, 1:, :-1] + padded[:, :-1, :-1]) * np.float32(0.25)
    side = windows.shape[1]
    x, y = _origins(p.astype(np.float64))
    # Drawing coordinate t is the center of window t + margin - 1/2.
    x = np.clip(x + (margin - 0.5), 0, side - 1.001).astype(np.float32)
    y = np.clip(y + (margin - 0.5), 0, side - 1.001).astype(np.float32)
    column, row = x.astype(np.int32), y.astype(np.int32)
    x, y = x - column, y - row
    flat = windows.reshape(-1)
    index = (np.arange(len(windows), dtype=np.int32) * side**2)[:, None, None] + row * side + column
    # The mean of the 2 x 2 window of the drawing around the origin of each pixel, bilinear between windows.
    above = flat[index] * (1 - x) + flat[index + 1] * x
    below = flat[index + side] * (1 - x) + flat[index + side + 1] * x
    return above * (1 - y) + below * y


def _origins(p):
    """Coordinates in the 64 px drawing of each pixel of the result: `(n, 6)` -> two `(n, 32, 32)`.

    The inverse of the map is diag(1/sx, 1/sy) [[1, -k], [0, 1]] [[cos, sin], [-sin, cos]] (point - shift).
    """
    angle = np.deg2rad(ROTATION) * p[:, 0, None, None]
    cos, sin = np.cos(angle), np.sin(angle)
    k = SHEAR * p[:, 1, None, None]
    scale = 1 + SCALE * p[:, 2, None, None]
    aspect = np.sqrt(1 + ASPECT * p[:, 3, None, None])
    centered = np.arange(SIDE) - (SIDE - 1) / 2
    x = centered[None, None, :] - SHIFT * p[:, 4, None, None]
    y = centered[None, :, None] - SHIFT * p[:, 5, None, None]
    rotated_x, rotated_y = cos * x + sin * y, -sin * x + cos * y
    source_x, source_y = (rotated_x - k * rotated_y) / (scale * aspect), rotated_y / (scale / aspect)
    return 2 * source_x + 31.5, 2 * source_y + 31.5


def _blur(x, sigma):
    """Gaussian blur with three taps each way: `(n, 32, 32)`, `(n,)` pixels -> `(n, 32, 32)`; zero outside the image."""
    tap = np.exp(-0.5 / np.maximum(sigma.astype(np.float64), 1e-3) ** 2)
    side = (tap / (1 + 2 * tap)).astype(np.float32)[:, None, None]
    for axis in (1, 2):
        x = np.moveaxis(x, axis, 1)
        padded = np.pad(x, ((0, 0), (1, 1), (0, 0)))
        x = np.moveaxis((1 - 2 * side) * x + side * (padded[:, :-2] + padded[:, 2:]), 1, axis)
    return x


def _texture(heights):
    """Bilinear interpolation of heights on a 4 x 4 grid, corner to corner: `(n, 16)` -> `(n, 32, 32)`."""
    x = heights.reshape(-1, _GRID, _GRID)
    positions = np.linspace(0, _GRID - 1, SIDE)
    low = np.minimum(positions.astype(np.int64), _GRID - 2)
    fraction = (positions - low).astype(np.float32)
    x = x[:, :, low] * (1 - fraction) + x[:, :, low + 1] * fraction
    fraction = fraction[:, None]
    return x[:, low] * (1 - fraction) + x[:, low + 1] * fraction
