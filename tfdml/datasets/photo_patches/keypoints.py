"""Places in photographs that can be told apart from their surroundings: maxima of the smaller structure eigenvalue."""

import numpy as np

BORDER = 40  # pixels from every border
LOWEST = 2.5  # grey levels per pixel
WINDOW = 25  # pixels, the side of the square over which the structure tensor is averaged


def choose(pixels: np.ndarray, *, distance: int, most: int) -> np.ndarray:
    """The places of a photograph, the most distinct first.

    The place with the highest score is taken, all within `distance` of it are dropped, and so on.

    Args:
        pixels: `(height, width, 3)` uint8.
        distance: the smallest distance of two places, in pixels.
        most: the largest number of places.

    Returns:
        `(places, 2)` int64, x and y.
    """
    score = distinctness(pixels)
    score[:BORDER] = score[-BORDER:] = score[:, :BORDER] = score[:, -BORDER:] = 0
    chosen: list[tuple[int, int]] = []
    while len(chosen) < most:
        y, x = np.unravel_index(np.argmax(score), score.shape)
        if score[y, x] < LOWEST:
            break
        chosen.append((int(x), int(y)))
        _drop_around(score, x, y, distance)
    return np.array(chosen, np.int64).reshape(-1, 2)


def distinctness(pixels: np.ndarray) -> np.ndarray:
    """Square root of the smaller eigenvalue of the structure tensor, `(height, width)` float64, grey levels per pixel.

    The tensor is the mean of the products of the gradients of the smoothed luma over 25 x 25 pixels.
    """
    red, green, blue = np.moveaxis(pixels.astype(np.float64), -1, 0)
    luma = (299 * red + 587 * green + 114 * blue) / 1000  # no matrix product, whose last bits differ by processor
    smooth = _filtered(_filtered(luma, np.array([1, 4, 6, 4, 1]) / 16, 0), np.array([1, 4, 6, 4, 1]) / 16, 1)
    by_y, by_x = np.gradient(smooth)
    box = np.full(WINDOW, 1 / WINDOW)
    xx, xy, yy = (_filtered(_filtered(a * b, box, 0), box, 1) for a, b in ((by_x, by_x), (by_x, by_y), (by_y, by_y)))
    smaller = (xx + yy) / 2 - np.hypot((xx - yy) / 2, xy)
    return np.sqrt(np.maximum(smaller, 0))


def _filtered(image, taps, axis):
    """Correlation along an axis; the border repeats."""
    reach = len(taps) // 2
    padded = np.pad(image, [(reach, reach) if a == axis else (0, 0) for a in (0, 1)], mode="edge")
    size = image.shape[axis]
    return sum(tap * np.take(padded, np.arange(i, i + size), axis=axis) for i, tap in enumerate(taps))


def _drop_around(score, x, y, distance):
    rows = slice(max(y - distance, 0), y + distance + 1)
    columns = slice(max(x - distance, 0), x + distance + 1)
    dy, dx = np.ogrid[rows, columns]
    window = score[rows, columns]
    window[(dx[:, : window.shape[1]] - x) ** 2 + (dy[: window.shape[0]] - y) ** 2 < distance**2] = 0
