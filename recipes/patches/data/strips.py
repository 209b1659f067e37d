"""Simulated stereo: strips of two rectified views of pieces of photographs at different depths."""

import functools
from typing import Literal, NamedTuple

import numpy as np

import tfdml
from recipes.checks import require, require_whole

_MARGIN = 8  # pixels around a strip, so that its border is not that of its pieces
_REACH = 40  # pixels of texture beyond each end of a strip
_MOST_PIECES = 4
_NEAR = 1.0  # pixels of disparity that two views of one point may differ by

# The photographs of the splits of the photo patches.
PHOTOGRAPHS = {
    "train": (
        "astronaut",
        "grace_hopper",
        "flower",
        "rocket",
        "ihc",
        "grass",
        "hubble_deep_field",
        "page",
        "moon",
        "retina",
    ),
    "validation": ("chelsea", "coins", "text"),
    "test": ("china", "coffee", "camera", "gravel"),
}

# Ranges of the uniform parameters of a piece and of the light of a view.
_ZOOM = (-0.5, 0.5)  # the texture is that of the photograph, 2^zoom times smaller
_FARTHEST = (-2.0, 2.0)  # pixels of disparity of the background
_STEP = (2.0, 10.0)  # pixels of disparity from a piece to the next nearer one
_SLOPE = (-0.15, 0.15)  # pixels of disparity per pixel
_OFF_ROW = (-0.3, 0.3)  # pixels by which the right view is not rectified
_RADIUS = (4.0, 40.0)  # pixels
_GAMMA = (-0.4, 0.4)  # the exponent is 2^gamma
_GAIN = (-0.3, 0.3)  # the gain is 2^gain
_OFFSET = (-0.1, 0.1)  # of full scale
_BLUR = (0.0, 0.7)  # share of the mean of neighbors
_NOISE = (0.0, 0.02)  # of full scale


class StereoStrips(NamedTuple):
    """Strips of two views; left (x, y) is right (matches[y, x], y).

    Attributes:
        left, right: `(n, height, width)` float32, gray levels in [0, 255], but for noise.
        matches: `(n, height, width)` float32, the column of the right view that shows the same point; NaN where it is
            hidden or outside.
    """

    left: np.ndarray
    right: np.ndarray
    matches: np.ndarray


def stereo_strips(
    n: int,
    *,
    split: Literal["train", "validation", "test"] = "train",
    height: int = 24,
    width: int = 128,
    seed: int = 0,
) -> StereoStrips:
    """Simulated stereo pairs with known correspondences, from the photographs of a split of the photo patches.

    Up to four slanted pieces of photographs, in the shape of ellipses, rectangles and bars, are in front of each other.
    A nearer one has a larger disparity and hides what is behind it. The views have different light, blur and noise,
    and are up to 0.3 pixels off their row.

    Example:

        >>> strips = patches.stereo_strips(2, split="test", seed=0)
        >>> strips.left.shape, strips.matches.shape
        ((2, 24, 128), (2, 24, 128))
        >>> shown = ~np.isnan(strips.matches)  # points of the left view that the right view shows
        >>> disparities = (np.arange(128) - strips.matches)[shown]
        >>> round(float(shown.mean()), 1), float(disparities.max()) < 64
        (0.8, True)

    Args:
        n: number of strips. Strip i depends on the seed and i only.
        split: whose photographs are used; see `photo_patches`. The motorcycle pair is in none.
        height, width: pixels of a strip.
        seed: whole number.

    Returns:
        `StereoStrips`.

    Raises:
        ImportError: Pillow or a package with photographs is not installed: `pip install tfdml[samples]`.
        ValueError: an unknown split, or a size below 1.
    """
    require(split in PHOTOGRAPHS, f"split={split!r}", f"one of {', '.join(map(repr, PHOTOGRAPHS))}")
    require_whole(1, n=n, height=height, width=width)
    strips = [_strip(np.random.default_rng((seed, i)), split, height, width) for i in range(n)]
    return StereoStrips(*(np.stack(column).astype(np.float32) for column in zip(*strips, strict=True)))


def _strip(random, split, height, width):
    """The left and the right view, and the matches of the left pixels."""
    shape = height + 2 * _MARGIN, width + 2 * _MARGIN
    views, depths = _views(random, split, shape)
    inner = slice(_MARGIN, -_MARGIN)
    left_view, right_view = (_light(random, view)[inner, inner] for view in views)
    return left_view, right_view, _matches(*depths)[inner, inner] - _MARGIN


def _views(random, split, shape):
    """Pixels and disparities of both views: two lists of two `shape` arrays."""
    views, depths, disparity = [None, None], [None, None], 0.0
    for piece in range(random.integers(1, _MOST_PIECES + 1)):
        disparity += random.uniform(*(_STEP if piece else _FARTHEST))
        outline = _outline(random, shape) if piece else None
        for side, (pixels, depth, columns) in enumerate(_piece(random, split, shape, disparity)):
            if outline is None:
                views[side], depths[side] = pixels, depth
                continue
            is_in_front = outline(columns) & (depth > depths[side])
            views[side] = np.where(is_in_front, pixels, views[side])
            depths[side] = np.where(is_in_front, depth, depths[side])
    return views, depths


def _piece(random, split, shape, disparity):
    """Pixels, disparities and columns of the texture of a slanted piece, for the left and for the right view.

    The texture column u of row y is left column u and right column u - d, with
    d = disparity + a (u - width / 2) + b (y - height / 2).
    """
    rows, columns = np.indices(shape).astype(np.float64)
    texture = _texture(random, split, (shape[0], shape[1] + 2 * _REACH))
    a, b = random.uniform(*_SLOPE, size=2)
    base = disparity - a * shape[1] / 2 + b * (rows - shape[0] / 2)
    for right, off_row in ((False, 0.0), (True, random.uniform(*_OFF_ROW))):
        u = (columns + base) / (1 - a) if right else columns
        yield _bilinear(texture, rows + off_row, u + _REACH), base + a * u, u


def _outline(random, shape):
    """A function of the columns of a texture: whether a pixel is inside of an ellipse, a rectangle or a bar."""
    rows, _ = np.indices(shape)
    kind, angle = random.integers(3), random.uniform(0, np.pi)
    y, x = (random.uniform(0, size) for size in shape)
    radii = random.uniform(*_RADIUS, size=2)

    def inside(columns):
        along = ((columns - x) * np.cos(angle) + (rows - y) * np.sin(angle)) / radii[0]
        across = ((rows - y) * np.cos(angle) - (columns - x) * np.sin(angle)) / radii[1]
        if kind == 0:
            return along**2 + across**2 < 1
        return (np.abs(along) < 1) & (np.abs(across) < 1) if kind == 1 else np.abs(along) < 0.25

    return inside


def _texture(random, split, shape):
    """A random part of a photograph, zoomed and flipped at random."""
    photograph = _luma(split)[random.integers(len(PHOTOGRAPHS[split]))]
    zoom = 2.0 ** random.uniform(*_ZOOM)
    zoom = min(zoom, *((size - 1) / side for size, side in zip(photograph.shape, shape, strict=True)))
    starts = [random.uniform(0, size - zoom * side) for size, side in zip(photograph.shape, shape, strict=True)]
    rows, columns = (start + zoom * index for start, index in zip(starts, np.indices(shape), strict=True))
    flips = (slice(None, None, step) for step in random.choice((1, -1), 2))
    return _bilinear(photograph, rows, columns)[tuple(flips)]


def _light(random, view):
    """A view under other light, in [0, 255], with blur and noise."""
    gamma, gain = 2.0 ** random.uniform(*_GAMMA), 2.0 ** random.uniform(*_GAIN)
    x = gain * (view / 255) ** gamma + random.uniform(*_OFFSET)
    padded = np.pad(x, 1, "edge")
    around = (padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]) / 4
    x += random.uniform(*_BLUR) * (around - x)
    return 255 * (x + random.normal(0, random.uniform(*_NOISE), x.shape))


def _matches(left_depth, right_depth):
    """The right column of each left pixel; NaN where the right view shows something else, or its margin."""
    rows, columns = np.indices(left_depth.shape)
    matches = columns - left_depth
    nearest = np.rint(matches).astype(int)
    inside = (nearest >= _MARGIN) & (nearest < left_depth.shape[1] - _MARGIN)
    shown = right_depth[rows, np.clip(nearest, 0, left_depth.shape[1] - 1)]
    return np.where(inside & (np.abs(shown - left_depth) < _NEAR), matches, np.nan)


def _bilinear(image, rows, columns):
    """Gray levels between four pixels; the border repeats."""
    y, x = (np.clip(index, 0, size - 1) for index, size in zip((rows, columns), image.shape, strict=True))
    top, left = (np.minimum(index.astype(int), size - 2) for index, size in zip((y, x), image.shape, strict=True))
    y, x = y - top, x - left
    upper, lower = ((1 - x) * image[row, left] + x * image[row, left + 1] for row in (top, top + 1))
    return (1 - y) * upper + y * lower


@functools.lru_cache(maxsize=len(PHOTOGRAPHS))
def _luma(split):
    """The luma of the photographs of a split."""
    pixels = (tfdml.datasets.photograph(name) for name in PHOTOGRAPHS[split])
    return [image @ np.array([0.299, 0.587, 0.114]) for image in pixels]
