"""Registration of two images by their pixels: a copy agrees at one scale and place, a neighbor does not."""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tfdml._core.optional import tf

Sides = tuple[tuple[int, int], ...]  # heights and widths of templates

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


def gray_thumbnail(pixels: "tf.Tensor") -> "tf.Tensor":
    """Pixels `(height, width, 1, 3 or 4)` as gray ones of `(64, 64)` float32, by means of the pixels around each."""
    return tf.reduce_sum(tf.image.resize(pixels, (SIDE, SIDE), antialias=True)[..., :3] * _LUMA, axis=-1)


def thumbnail(pixels: np.ndarray) -> Thumbnail:
    """The `Thumbnail` of pixels `(height, width, 1, 3 or 4)`."""
    return Thumbnail(gray_thumbnail(pixels).numpy(), *np.shape(pixels)[:2])


def register(first: np.ndarray, second: np.ndarray) -> Registration:
    """The place of one image in the other where their details agree best.

    Both become gray thumbnails of 64 x 64 pixels. Each slides over the other one at 8 scales from 0.5 to 1. It keeps
    its aspect; at the full size, it also takes the aspect of the other image. Both are high-passed and divided by their
    local contrast, so that neither shaded areas nor a few bright dots decide.

    Args:
        first, second: pixels `(height, width, 3)` or `(height, width, 1)`, 0 to 255.

    Returns:
        A record: `score` in [-1, 1], the median of the correlations of the blocks of the overlap that have details, 0
        for images without contrast; `swapped`, whether the first image lies in the second one; and `top`, `left`,
        `height`, `width` of the inner image, as fractions of the sides of the outer one.

    Source: the contrast is from Jarrett, Kavukcuoglu, Ranzato, LeCun, What is the Best Multi-Stage Architecture for
    Object Recognition?, ICCV 2009, section 2, with a constant for the noise.
    """
    return registered(Prepared(thumbnail(first)), Prepared(thumbnail(second)))


def registered(a: "Prepared", b: "Prepared") -> Registration:
    """As `register`, of prepared thumbnails."""
    matches = [_whole_match(outer, inner) for outer, inner in ((a, b), (b, a))]
    is_swapped = matches[0].value < matches[1].value
    outer, inner = (b, a) if is_swapped else (a, b)
    best = _refined(outer, inner, matches[is_swapped])
    (y, x), (h, w) = best.place, best.template.shape
    score = agreement(outer.details[y : y + h, x : x + w], best.template)
    return Registration(score, is_swapped, y / SIDE, x / SIDE, h / SIDE, w / SIDE)


def agreement(window: np.ndarray, template: np.ndarray) -> float:
    """Median correlation of the 5 x 5 blocks of two images that have details in either one; 0 without details.

    A block that is even in one of the two has the correlation 0. No single block decides, covered or bright.
    """
    u, v = np.asarray(window, np.float64), np.asarray(template, np.float64)
    sums = np.stack([np.ones_like(u), u, v, u * u, v * v, u * v])
    for axis, side in enumerate(u.shape, start=1):
        sums = np.add.reduceat(sums, [block[0] for block in np.array_split(np.arange(side), _BLOCKS)], axis=axis)
    size, u, v = sums[:3].reshape(3, -1)
    squares = sums[3:].reshape(3, -1) - np.stack([u * u, v * v, u * v]) / size
    votes, is_even = squares[:2].max(axis=0) > _VOTING * size, squares[:2].min(axis=0) <= _EVEN * size
    values = np.where(is_even, 0, squares[2]) / np.where(is_even, 1, np.sqrt(np.abs(squares[0] * squares[1])))
    return float(np.median(values[votes])) if votes.any() else 0.0


class Templates:
    """Templates to search in images of a shape, with what all searches share."""

    def __init__(self, images: Sequence[np.ndarray], shape: tuple[int, int]) -> None:
        self.images, self.sides = images, tuple(image.shape for image in images)
        padded = np.zeros((len(images), *shape), images[0].dtype)
        self.norms = np.empty((len(images), 1, 1))
        for i, image in enumerate(images):
            centered = image - image.mean()
            padded[i, : image.shape[0], : image.shape[1]] = centered
            self.norms[i] = _norm(np.square(centered).sum(), image.size)
        self.spectra = np.conj(np.fft.rfft2(padded))


class Searched:
    """An image `(height, width)` to search for templates, with what all of them share."""

    def __init__(self, image: np.ndarray) -> None:
        self.shape, self.spectrum = image.shape, np.fft.rfft2(image)
        sums = (values.cumsum(axis=0, dtype=np.float64).cumsum(axis=1) for values in (image, image**2))
        self._sums = [np.pad(each, ((1, 0), (1, 0))) for each in sums]

    def correlations(self, templates: Templates, windows: np.ndarray) -> np.ndarray:
        """Normalized cross-correlation of each template with the window I at each place, 0 without contrast.

        sum (I - mean I) (T - mean T) / (|I - mean I| |T - mean T|), `(n, height, width)`, -inf where T does not fit

        Source: Lewis, Fast Normalized Cross-Correlation, Vision Interface 1995.
        """
        products = np.fft.irfft2(self.spectrum * templates.spectra, self.shape)
        values = (products / (windows * templates.norms)).astype(products.dtype)
        return np.where(np.isnan(values), -np.inf, values)

    def windows(self, sides: Sides) -> np.ndarray:
        """|I - mean I| by sides and place, `(n, height, width)`; inf for even windows, NaN for those outside."""
        norms = np.full((len(sides), *self.shape), np.nan)
        for i, (h, w) in enumerate(sides):
            total, squares = (s[h:, w:] - s[:-h, w:] - s[h:, :-w] + s[:-h, :-w] for s in self._sums)
            norms[i, : total.shape[0], : total.shape[1]] = _norm(squares - total**2 / (h * w), h * w)
        return norms


class Prepared:
    """A thumbnail to search for others, and a template at some sides; the last ones are kept."""

    def __init__(self, image: Thumbnail) -> None:
        self.image, self.details = image, details(image.gray)
        self.searched = Searched(self.details)
        self.windows: Callable[[Sides], np.ndarray] = functools.lru_cache(4)(self.searched.windows)
        self.templates: Callable[[Sides], Templates] = functools.lru_cache(4)(functools.partial(_templates, image.gray))


def _templates(gray, sides):
    """The details of a thumbnail at these sides."""
    return Templates([details(_shrinker(h) @ gray @ _shrinker(w).T) for h, w in sides], (SIDE, SIDE))


def _norm(energy, size):
    """Square root of a sum of squares; inf where rounding errors are all there is."""
    return np.where(energy > _EVEN * size, np.sqrt(np.maximum(energy, 0)), np.inf)


def _whole_match(outer, inner):
    ratio = np.array([inner.image.height / outer.image.height, inner.image.width / outer.image.width])
    scales = np.concatenate([[(1, 1)], _SCALES[:, None] * ratio / ratio.max()])
    sides = _sides(scales)
    return _best_match(outer, inner.templates(sides), outer.windows(sides), scales)


def _refined(outer, inner, match):
    """The best of scales around a match; the match itself where it does not promise anything."""
    for step in _STEPS if match.value >= _PROMISING else ():
        scales = np.clip(match.scale + step * _AROUND, _LEAST, 1)
        sides = _sides(scales)
        nearest = _best_match(outer, _templates(inner.image.gray, sides), outer.searched.windows(sides), scales)
        match = max(match, nearest, key=lambda each: each.value)
    return match


def _best_match(outer, templates, windows, scales):
    values = outer.searched.correlations(templates, windows)
    number, y, x = np.unravel_index(values.argmax(), values.shape)
    return _Match(float(values[number, y, x]), scales[number], (int(y), int(x)), templates.images[number])


def _sides(scales):
    return tuple((round(SIDE * y), round(SIDE * x)) for y, x in np.maximum(scales, _LEAST).tolist())


def details(gray: np.ndarray) -> np.ndarray:
    """The image minus its blurred copy, divided by the contrast around each pixel; shape and type are the same."""
    rows, columns = _blurrer(gray.shape[0]), _blurrer(gray.shape[1]).T
    sharp = gray - rows @ gray @ columns
    return sharp / np.sqrt(rows @ np.square(sharp) @ columns + _NOISE**2)


@functools.lru_cache(maxsize=256)
def _blurrer(side):
    """The matrix of a Gaussian blur, normalized at the border."""
    distance = np.subtract.outer(np.arange(side), np.arange(side))
    weights = np.exp(-0.5 * (distance / _BLUR) ** 2)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


@functools.cache
def _shrinker(side):
    """The matrix of antialiased linear interpolation from the side of a thumbnail to one that is at most as long."""
    scale = SIDE / side
    centers = (np.arange(side) + 0.5) * scale - 0.5
    weights = np.maximum(1 - np.abs(centers[:, None] - np.arange(SIDE)) / scale, 0)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
