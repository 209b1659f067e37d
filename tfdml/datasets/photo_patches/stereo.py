"""The motorcycle stereo pair of scikit-image: correspondences between two real views of one scene."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tfdml.datasets.photo_patches import photographs

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

    Returns:
        `StereoPair`.

    Raises:
        ImportError: scikit-image or Pillow is not installed: `pip install tfdml[photos]`.
        ValueError: scikit-image holds another file.

    Source: Scharstein et al., High-Resolution Stereo Datasets with Subpixel-Accurate Ground Truth, GCPR 2014. The
    docstring of scikit-image gives the direction of the disparity the other way round.
    """
    left, right = (photographs.read(photographs.PHOTOGRAPHS[f"motorcycle_{side}"]) for side in ("left", "right"))
    with np.load(photographs.find(photographs.PHOTOGRAPHS["motorcycle_disp"]), allow_pickle=False) as saved:
        disparity = saved["arr_0"]
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
