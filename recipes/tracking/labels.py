"""Labels and weights of the positions of a score map."""

import numpy as np

from recipes.tracking.checks import require, require_positive, require_whole


def score_labels(size: int, *, stride: int = 8, radius: float = 16.0) -> tuple[np.ndarray, np.ndarray]:
    """Labels of a map whose target is in the middle: 1 where stride |u - c| <= radius, -1 elsewhere; and weights.

    Both labels have half of the weight, and the mean weight is 1, so that
    `PairLogisticLoss()(labels, scores, weights)` is the mean of the losses of both.

    Example:

        >>> labels, weights = tracking.score_labels(3, stride=8, radius=4)
        >>> labels[1].tolist(), weights[1].tolist()  # one position is positive, eight are negative: 9 / 2, 9 / 16
        ([-1.0, 1.0, -1.0], [0.5625, 4.5, 0.5625])

    Args:
        size: side of the map.
        stride: pixels of the search image between neighboring positions.
        radius: distance from the middle in pixels of the search image.

    Returns:
        labels and weights, `(size, size)` float32.

    Raises:
        ValueError: a size below 1, a stride or radius that is not positive, or a radius that leaves positions of one
            label only.

    Source: Bertinetto, Valmadre, Henriques, Vedaldi, Torr, Fully-Convolutional Siamese Networks for Object Tracking,
    ECCV 2016 workshops, eq. 6.
    """
    require_whole(1, size=size)
    require_positive(stride=stride, radius=radius)
    away = stride * (np.arange(size) - (size - 1) / 2)
    positive = away[:, None] ** 2 + away**2 <= radius**2
    count = np.count_nonzero(positive)
    expected = "positions of both labels. Change the radius"
    require(bool(0 < count < size**2), f"radius={radius} with {count} positive of {size**2} positions", expected)
    weights = np.where(positive, size**2 / (2 * count), size**2 / (2 * (size**2 - count)))
    return np.where(positive, 1.0, -1.0).astype(np.float32), weights.astype(np.float32)
