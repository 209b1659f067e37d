"""Registration of two images by their pixels: a copy agrees at one scale and place, a neighbor does not."""

import functools
from typing import NamedTuple

import numpy as np

SIDE = 64  # pixels of a thumbnail
_SCALES = np.geomspace(0.5, 1, 8)
_STEPS = (0.03, 0.015)  # of the scales around the best one
_AROUND = np.array([(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if (y, x) != (0, 0)])
_LEAST = 0.25  # scale of an image of another aspect
_EVEN = 1e-4  # variance of details below which nothing agrees
_BLOCKS = 5  # per side of the overlap
_VOTING = 0.1  # variance of the details of a block, in either image, from which it votes
_BLUR = 3.0  # pixels, standard deviation of what is subtracted, and of the contrast by which details are divided
_NOISE = 2.0  # gray levels of contrast that are taken for noise
_PROMISING = 0.4  # correlation from which scales are refined
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


class _Match(NamedTuple):
    value: float
    scale: np.ndarray
    place: tuple[int, int]
    template: np.ndarray


class Thumbnail(NamedTuple):
    """A gray image of `(64, 64)` float32, whatever the shape of the image, and its height and width in pixels."""

    gray: np.ndarray
    height: int
    width: int


class Registration(NamedTuple):
    """Where one image lies in another, see `register`."""

    score: float
    swapped: bool
    top: float
    left: float
    height: float
    width: float


def thumbnail(pixels: np.ndarray) -> Thumbnail:
    """The `Thumbnail` of pixels `(height, width, 3)` or `(height, width, 1)`, by means of the pixels around each."""
    pixels = np.asarray(pixels, np.float32)
    gray = pixels @ _LUMA if pixels.shape[2] >= 3 else pixels[..., 0]
    height, width = gray.shape
    return Thumbnail(_resizer(height, SIDE) @ gray @ _resizer(width, SIDE).T, height, width)


def register(first: np.ndarray, second: np.ndarray) -> Registration:
    """The place of one image in the other at which their details agree best.

    Both become gray thumbnails of 64 x 64 pixels. Each, at 8 scales from 0.5 to 1, is slid over the other one. It keeps
    its aspect, or, at the full size, takes the aspect of the other image. Both are high-passed and divided by their
    local contrast: neither shaded areas nor a few bright dots decide.

    Args:
        first, second: pixels `(height, width, 3)` or `(height, width, 1)`, 0 to 255.

    Returns:
        A record: `score` in [-1, 1], the median of the correlations of the blocks of the overlap that have details, 0
        for images without contrast; `swapped`, whether the first image lies in the second one; and `top`, `left`,
        `height`, `width` of the inner image, as fractions of the sides of the outer one.

    Source: the contrast is from Jarrett, Kavukcuoglu, Ranzato, LeCun, What is the Best Multi-Stage Architecture for
    Object Recognition?, ICCV 2009, section 2, with a constant for the noise.
    """
    return registered(thumbnail(first), thumbnail(second))


def registered(a: Thumbnail, b: Thumbnail) -> Registration:
    """As `register`, of thumbnails."""
    matches = [_whole_match(outer, inner) for outer, inner in ((a, b), (b, a))]
    is_swapped = matches[0].value < matches[1].value
    outer, inner = (b, a) if is_swapped else (a, b)
    best = _refined(outer, inner, matches[is_swapped])
    (y, x), (h, w) = best.place, best.template.shape
    score = agreement(_details(outer.gray)[y : y + h, x : x + w], best.template)
    return Registration(score, is_swapped, y / SIDE, x / SIDE, h / SIDE, w / SIDE)


def agreement(window: np.ndarray, template: np.ndarray) -> float:
    """Median correlation of the 5 x 5 blocks of two images that have details in either one; 0 without details.

    So a block that is covered, or holds the only bright dot, does not decide.
    """
    values = [_block_correlation(*pair) for pair in zip(_cells(window), _cells(template), strict=True)]
    votes = [value for value in values if value is not None]
    return float(np.median(votes)) if votes else 0.0


def _block_correlation(u, v):
    """Correlation of two blocks, 0 where one of them is even; None where neither has details."""
    u, v = u - u.mean(), v - v.mean()
    energy, other = np.square(u).sum(), np.square(v).sum()
    if max(energy, other) <= _VOTING * u.size:
        return None
    return (u * v).sum() / np.sqrt(energy * other) if min(energy, other) > _EVEN * u.size else 0.0


def _cells(image):
    rows = np.array_split(np.asarray(image, np.float64), _BLOCKS)
    return [cell for row in rows for cell in np.array_split(row, _BLOCKS, axis=1)]


class Searched:
    """An image `(height, width)` in which templates are searched, with what all of them share."""

    def __init__(self, image: np.ndarray) -> None:
        self.shape, self.spectrum = image.shape, np.fft.rfft2(image)
        self.sums, self.squares = _integral(image), _integral(image**2)

    def correlation(self, template: np.ndarray) -> np.ndarray:
        """Normalized cross-correlation of a `(h, w)` template with the window I at each place, 0 without contrast.

        sum (I - mean I) (T - mean T) / (|I - mean I| |T - mean T|), `(height - h + 1, width - w + 1)`, in [-1, 1]

        Source: Lewis, Fast Normalized Cross-Correlation, Vision Interface 1995.
        """
        h, w = template.shape
        template = template - template.mean()
        products = np.fft.irfft2(self.spectrum * np.conj(np.fft.rfft2(template, self.shape)), self.shape)
        products = products[: self.shape[0] - h + 1, : self.shape[1] - w + 1]
        energy = _window_sums(self.squares, h, w) - _window_sums(self.sums, h, w) ** 2 / (h * w)
        norms = _norm(energy, h * w) * _norm((template**2).sum(), h * w)
        return np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)


def _norm(energy, size):
    """Square root of a sum of squares; 0 where rounding errors are all there is."""
    return np.where(energy > _EVEN * size, np.sqrt(np.maximum(energy, 0)), 0)


def _whole_match(outer, inner):
    ratio = np.array([inner.height / outer.height, inner.width / outer.width])
    return _best_match(outer, inner, np.concatenate([[(1, 1)], _SCALES[:, None] * ratio / ratio.max()]))


def _refined(outer, inner, match):
    """The best of scales around a match; the match itself where it does not promise anything."""
    for step in _STEPS if match.value >= _PROMISING else ():
        scales = np.clip(match.scale + step * _AROUND, _LEAST, 1)
        match = max(match, _best_match(outer, inner, scales), key=lambda each: each.value)
    return match


def _best_match(outer, inner, scales):
    searched = Searched(_details(outer.gray))
    return max((_match(searched, inner, scale) for scale in scales), key=lambda each: each.value)


def _match(searched, inner, scale):
    h, w = (round(SIDE * share) for share in np.maximum(scale, _LEAST).tolist())
    template = _details(_resizer(SIDE, h) @ inner.gray @ _resizer(SIDE, w).T)
    values = searched.correlation(template)
    y, x = np.unravel_index(values.argmax(), values.shape)
    return _Match(float(values[y, x]), scale, (int(y), int(x)), template)


def _details(gray):
    """The image minus its blurred copy, divided by the contrast around each pixel."""
    rows, columns = _blurrer(gray.shape[0]), _blurrer(gray.shape[1]).T
    details = gray - rows @ gray @ columns
    return details / np.sqrt(rows @ np.square(details) @ columns + _NOISE**2)


def _integral(image):
    return np.pad(image.cumsum(axis=0, dtype=np.float64).cumsum(axis=1), ((1, 0), (1, 0)))


def _window_sums(integral, h, w):
    return integral[h:, w:] - integral[:-h, w:] - integral[h:, :-w] + integral[:-h, :-w]


@functools.lru_cache(maxsize=256)
def _blurrer(side):
    """The matrix of a Gaussian blur that is normalized at the border."""
    distance = np.subtract.outer(np.arange(side), np.arange(side))
    weights = np.exp(-0.5 * (distance / _BLUR) ** 2)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


@functools.lru_cache(maxsize=4096)
def _resizer(old, new):
    """The matrix of linear interpolation, antialiased where it reduces, with pixels at their centers."""
    scale = old / new
    centers = (np.arange(new) + 0.5) * scale - 0.5
    distance = np.abs(centers[:, None] - np.arange(old)) / max(scale, 1)
    weights = np.maximum(1 - distance, 0)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
