"""The motorcycle stereo pair of scikit-image: correspondences between two real views of one scene."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from recipes.checks import require, require_whole

_ROWS, _COLUMNS = np.arange(40, 433, 28), np.arange(112, 693, 20)
_CANDIDATES = np.arange(73)  # disparities, in pixels
_BAD = 3.0  # pixels


@dataclass(frozen=True, eq=False, kw_only=True)
class StereoPair:
    """Two views of one scene, rectified: the left pixel (x, y) is the right pixel (x - disparity, y).

    Attributes:
        left, right: `(500, 741, 3)` uint8, RGB.
        disparity: `(500, 741)` float32, in pixels, at the left pixel; infinite where it is unknown.
        points: `(421, 2)` int64, x and y of the left pixels that are searched in the right image.
        visible: `(421,)` bool, whether the point is not hidden in the right image.
        protocol: the id under which errors are reported.
    """

    left: np.ndarray
    right: np.ndarray
    disparity: np.ndarray
    points: np.ndarray
    visible: np.ndarray
    protocol: str


def motorcycle_stereo() -> StereoPair:
    """The motorcycle of the Middlebury stereo sets at a quarter of its size, with its measured disparities.

    Example:

        >>> pair = patches.motorcycle_stereo()
        >>> pair.left.shape, len(pair.points), int(pair.visible.sum())
        ((500, 741, 3), 421, 374)
        >>> x, y = pair.points[0]
        >>> round(float(pair.disparity[y, x]), 1)  # the point is that many pixels farther to the left in pair.right
        10.4

    Returns:
        `StereoPair`.

    Raises:
        ImportError: scikit-image is not installed: `pip install tfdml[samples]`.

    Source: Scharstein et al., High-Resolution Stereo Datasets with Subpixel-Accurate Ground Truth, GCPR 2014. The
    docstring of scikit-image gives the direction of the disparity the other way round.
    """
    from skimage import data  # takes seconds

    left, right, disparity = data.stereo_motorcycle()
    points = np.stack(np.meshgrid(_COLUMNS, _ROWS), axis=-1).reshape(-1, 2)
    points = points[np.isfinite(disparity[points[:, 1], points[:, 0]])]
    return StereoPair(
        left=left,
        right=right,
        disparity=disparity,
        points=points,
        visible=_visible(disparity, points),
        protocol="motorcycle-stereo/left-grid/bad3/v1",
    )


def stereo_error(
    pair: StereoPair, embed: Callable[[np.ndarray], np.ndarray], *, window: int = 64, batch_size: int = 1024
) -> float:
    """Share of the visible points whose estimated disparity has an error above 3 pixels.

    The window around a left point is compared with those around the right points at all whole disparities from 0 to 72;
    the most similar one by cosine is taken, the smallest disparity on ties.

    See also: `dense_stereo_errors` for a disparity at every pixel.

    Example: raw gray levels around a point, centered, as its embedding.

        >>> pair = patches.motorcycle_stereo()
        >>> gray = lambda windows: windows.mean(axis=3).reshape(len(windows), -1)
        >>> embed = lambda windows: gray(windows) - gray(windows).mean(axis=1, keepdims=True)
        >>> round(patches.stereo_error(pair, embed, window=16), 2)
        0.06

    Args:
        pair: see `motorcycle_stereo`.
        embed: function of `(n, window, window, 3)` uint8 that returns `(n, dim)` embeddings.
        window: side of the windows, an even number up to 80.
        batch_size: windows that are embedded at a time.

    Returns:
        A float in [0, 1].

    Raises:
        ValueError: a window that is odd, below 2 or above 80.
    """
    if window % 2 or not 2 <= window <= 80:
        raise ValueError(f"Received window={window}, expected an even number of pixels from 2 to 80.")
    points = pair.points[pair.visible]
    shifted = np.stack([points[:, None, 0] - _CANDIDATES, np.broadcast_to(points[:, 1:], (len(points), 73))], axis=-1)
    left = _embedded(embed, pair.left, points, window, batch_size)
    right = _embedded(embed, pair.right, shifted.reshape(-1, 2), window, batch_size).reshape(len(points), 73, -1)
    estimates = _CANDIDATES[np.einsum("id,icd->ic", left, right).argmax(axis=1)]
    return float(np.mean(np.abs(estimates - pair.disparity[points[:, 1], points[:, 0]]) > _BAD))


class DenseErrors(NamedTuple):
    """Errors at all pixels that both images show, from left to right, then down.

    Attributes:
        bad: `(pixels,)` bool, whether the error of the disparity is above 3 pixels.
        blocks: `(pixels,)` int64, the square block of the image that a pixel is in.
    """

    bad: np.ndarray
    blocks: np.ndarray


def dense_stereo_errors(pair: StereoPair, disparities: npt.ArrayLike, *, block: int = 50) -> DenseErrors:
    """The errors of a disparity map, at all pixels with a measured disparity that is not hidden in the right image.

    Neighboring pixels are wrong together, so that blocks of pixels are resampled. Report the share with
    `motorcycle-stereo/left-dense/bad3/v1`.

    Example: the measured disparities themselves, and these moved by four pixels.

        >>> pair = patches.motorcycle_stereo()
        >>> errors = patches.dense_stereo_errors(pair, pair.disparity)
        >>> len(errors.bad), float(errors.bad.mean())
        (308397, 0.0)
        >>> float(patches.dense_stereo_errors(pair, pair.disparity + 4).bad.mean())
        1.0

    Args:
        pair: see `motorcycle_stereo`.
        disparities: `(height, width)` floats, at the left pixels.
        block: side of the blocks, in pixels.

    Returns:
        `DenseErrors` of 308,397 pixels.

    Raises:
        ValueError: a map of another size, or a block below 1.
    """
    estimates = np.asarray(disparities, np.float64)
    shape = pair.disparity.shape
    require(estimates.shape == shape, f"disparities of shape {estimates.shape}", f"{shape}, one per left pixel")
    require_whole(1, block=block)
    y, x = np.nonzero(np.isfinite(pair.disparity) & (np.arange(shape[1]) >= pair.disparity))
    visible = _visible(pair.disparity, np.stack([x, y], axis=1))
    y, x = y[visible], x[visible]
    per_row = -(-shape[1] // block)
    return DenseErrors(np.abs(estimates[y, x] - pair.disparity[y, x]) > _BAD, y // block * per_row + x // block)


def match_features(left_features: npt.ArrayLike, right_features: npt.ArrayLike, *, largest: int = 72) -> np.ndarray:
    """The disparity of each left pixel: that of the right pixel in its row with the most similar features.

    Left (x, y) is compared with right (x - d, y) for all whole d from 0 to `largest` that are inside the image. The
    smallest disparity is taken on ties. Only one map of similarities is in memory.

    Example: the right view shows the points of the left one a column farther to the left, but for the first.

        >>> left = np.eye(4)[None]  # a row of four pixels
        >>> right = np.roll(left, -1, axis=1)
        >>> patches.match_features(left, right, largest=2)
        array([[0, 1, 1, 1]])

    Args:
        left_features, right_features: `(height, width, dim)` floats, the features of each pixel, compared by their dot
            product: unit vectors for the cosine.
        largest: the largest disparity, in pixels.

    Returns:
        `(height, width)` int64.

    Raises:
        ValueError: features of different shapes, or a largest disparity below 0.
    """
    left, right = (np.asarray(features, np.float32) for features in (left_features, right_features))
    _require_same_shape(left, right, 3)
    return _best_disparities(
        lambda d: np.einsum("ijk,ijk->ij", left[:, d:], right[:, : right.shape[1] - d]), left.shape[:2], largest
    )


def match_windows(
    left_image: npt.ArrayLike, right_image: npt.ArrayLike, *, window: int, largest: int = 72
) -> np.ndarray:
    """The disparity of each left pixel by the normalized cross-correlation of the windows around pixels.

    See also: `match_features` for embeddings of pixels.

    Example: the right view shows the left one moved by two columns, which the first two have left.

        >>> left = np.random.default_rng(0).integers(0, 256, (5, 12))
        >>> right = np.roll(left, -2, axis=1)
        >>> patches.match_windows(left, right, window=3, largest=4)[2]
        array([0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2])

    Args:
        left_image, right_image: `(height, width)` gray levels. The border repeats where a window exceeds the image.
        window: side of the window, an odd number of pixels.
        largest: the largest disparity; see `match_features`.

    Returns:
        `(height, width)` int64. A window without contrast correlates with none: 0.

    Raises:
        ValueError: images of different shapes, a window that is even or below 3, or a largest disparity below 0.
    """
    left, right = (np.asarray(image, np.float64) for image in (left_image, right_image))
    _require_same_shape(left, right, 2)
    require(window % 2 == 1 and window >= 3, f"window={window}", "an odd number of pixels from 3")
    half, width = window // 2, left.shape[1]
    a, b = (np.pad(image, half, "edge") for image in (left, right))
    sums, squares = ([_window_sums(x, window) for x in images] for images in ((a, b), (a**2, b**2)))
    deviations = [np.sqrt(np.maximum(q - s**2 / window**2, 1e-6)) for s, q in zip(sums, squares, strict=True)]

    def correlation(d):
        products = _window_sums(a[:, d:] * b[:, : b.shape[1] - d], window)
        products -= sums[0][:, d:] * sums[1][:, : width - d] / window**2
        return products / (deviations[0][:, d:] * deviations[1][:, : width - d])

    return _best_disparities(correlation, left.shape, largest)


def _best_disparities(similarity, shape, largest):
    """The disparity of the largest similarity; `similarity(d)` is that of the left columns from d."""
    require_whole(0, largest=largest)
    best, disparities = np.full(shape, -np.inf), np.zeros(shape, np.int64)
    for d in range(min(largest, shape[1] - 1) + 1):
        values = similarity(d)
        is_better = values > best[:, d:]
        best[:, d:][is_better] = values[is_better]
        disparities[:, d:][is_better] = d
    return disparities


def _window_sums(x, window):
    """The sum over each window that is inside of x: `(height - window + 1, width - window + 1)`."""
    total = np.pad(x.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    rows = total[window:] - total[:-window]
    return rows[:, window:] - rows[:, :-window]


def _require_same_shape(one, other, axes):
    shapes = f"left of shape {one.shape} and right of shape {other.shape}"
    require(one.shape == other.shape and one.ndim == axes, shapes, f"the same shape of {axes} axes")


def _visible(disparity, points):
    """Whether nothing nearer than a point, by more than one pixel of disparity, covers it in the right image."""
    height, width = disparity.shape
    y, x = np.nonzero(np.isfinite(disparity))
    moved = np.rint(x - disparity[y, x]).astype(int)
    is_inside = moved >= 0
    nearest = np.zeros((height, width + 2))  # one more column at each end
    np.maximum.at(nearest, (y[is_inside], moved[is_inside] + 1), disparity[y[is_inside], x[is_inside]])
    depth_of_point = disparity[points[:, 1], points[:, 0]]
    column = np.rint(points[:, 0] - depth_of_point).astype(int) + 1
    covering = np.max([nearest[points[:, 1], column + i] for i in (-1, 0, 1)], axis=0)
    return covering <= depth_of_point + 1


def _embedded(embed, image, points, window, batch_size):
    """Embeddings of the windows around points, with norm 1: `(n, dim)` float32; the border of the image repeats."""
    half = window // 2
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(image, ((half, half), (half, half), (0, 0)), "edge"), (window, window), (0, 1)
    )
    batches = [points[start : start + batch_size] for start in range(0, len(points), batch_size)]
    embeddings = np.concatenate([embed(np.moveaxis(windows[batch[:, 1], batch[:, 0]], 1, -1)) for batch in batches])
    return (embeddings / np.maximum(np.linalg.norm(embeddings, axis=1, keepdims=True), 1e-12)).astype(np.float32)
