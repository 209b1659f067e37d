"""Search inside one photograph: its tiles, and the tiles that show the same as one of them."""

import numpy as np
import tensorflow as tf


def tiles(photograph: np.ndarray, *, side: int, stride: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut a photograph into overlapping squares; the last row and column touch its border.

    Example:

        >>> squares, boxes = product_search.tiles(np.zeros((100, 130, 3), np.uint8), side=64, stride=48)
        >>> squares.shape
        (6, 64, 64, 3)
        >>> boxes.tolist()[2]
        [0, 66, 64, 130]

    Args:
        photograph: `(height, width, 3)` pixels.
        side: side of a square in pixels, at most that of the photograph.
        stride: pixels from a square to the next one; a quarter of the side finds objects at any place.

    Returns:
        `(tiles, boxes)`: `(n, side, side, 3)`, and `(n, 4)` integers, the upper, left, lower and right border of each.

    Raises:
        ValueError: the photograph is smaller than a square.
    """
    height, width = photograph.shape[:2]
    if min(height, width) < side:
        raise ValueError(f"Received side={side} for {height} x {width} pixels, expected at most {min(height, width)}.")
    rows, columns = (np.append(np.arange(0, length - side, stride), length - side) for length in (height, width))
    boxes = np.array([(top, left, top + side, left + side) for top in rows for left in columns])
    return np.stack([photograph[top:bottom, left:right] for top, left, bottom, right in boxes]), boxes


def others(embeddings: np.ndarray, boxes: np.ndarray, query: int, *, most: int, overlap: float = 0.2) -> np.ndarray:
    """Find the other places of a photograph that look like one of its tiles.

    Tiles with a pixel of the query are left out. Of tiles that overlap each other, the most similar one is kept
    (non-maximum suppression).

    Example:

        >>> boxes = np.array([[0, 0, 8, 8], [0, 4, 8, 12], [0, 8, 8, 16], [0, 12, 8, 20]])
        >>> embeddings = np.array([[1.0, 0.0], [0.9, 0.1], [0.6, 0.8], [0.8, 0.6]])
        >>> product_search.others(embeddings, boxes, 0, most=2)  # tile 1 overlaps the query, tile 2 tile 3
        array([3])

    Args:
        embeddings: `(n, dim)` of norm 1.
        boxes: `(n, 4)` of `tiles`.
        query: row number of the tile to look for.
        most: largest number of answers.
        overlap: largest intersection over union of two answers.

    Returns:
        Row numbers of at most `most` tiles, the most similar one first.
    """
    first, last = np.maximum(boxes[:, :2], boxes[query, :2]), np.minimum(boxes[:, 2:], boxes[query, 2:])
    apart = np.flatnonzero((first >= last).any(axis=1))
    scores = (embeddings[apart] @ embeddings[query]).astype("float32")
    return apart[tf.image.non_max_suppression(boxes[apart].astype("float32"), scores, most, overlap).numpy()]
