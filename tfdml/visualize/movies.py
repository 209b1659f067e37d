"""Animations of two-dimensional embeddings."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tfdml._core.atomic import atomic_write
from tfdml._core.checks import as_vectors, is_labeled_set, require, require_positive
from tfdml._core.optional import new_figure, optional_import
from tfdml.typing import Data, FilePath, Labels
from tfdml.visualize.colors import labels_and_names
from tfdml.visualize.maps import draw_points, finish

_COLORS = 256  # of the whole animation
_INCH = 100  # pixels
_SIDE = 4.8  # inches, 480 pixels
_LAST = 2000  # milliseconds


def animation(
    path: FilePath,
    frames: Sequence[npt.ArrayLike],
    data: Data | Labels | None = None,
    *,
    captions: Sequence[str] | None = None,
    title: str | None = None,
    seconds: float = 0.15,
) -> Path:
    """Write a GIF of moving embeddings, with the same axes in all frames.

    Example: two frames of three points, which turn by a quarter.

        >>> frames = [np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), np.array([[0.0, 1.0], [-0.1, 0.9], [-1.0, 0.0]])]
        >>> path = tfdml.visualize.animation("turn.gif", frames, np.array([0, 0, 1]), captions=["before", "after"])
        >>> from PIL import Image
        >>> with Image.open(path) as gif:
        ...     print(gif.n_frames, gif.size)
        2 (480, 480)

    Args:
        path: file to write, ending in .gif; it is replaced in one step.
        frames: one or more arrays `(n, 2)` of the same n examples.
        data: labeled set of the n examples, or `(n,)` integer class ids; up to eight classes have their own colors and
            markers.
        captions, title: one text per frame, written above it, and a text before each caption.
        seconds: duration of a frame; the last one stays for two seconds.
    """
    optional_import("PIL", feature="visualize.animation", extra="plots")
    require(Path(path).suffix == ".gif", f"path={str(path)!r}", "a file name that ends in .gif")
    require_positive(seconds=seconds)
    points = _stacked(frames)
    captions = [""] * len(points) if captions is None else captions
    received = f"{len(captions)} captions of {len(points)} frames"
    require(len(captions) == len(points), received, "one caption per frame")
    titles = [", ".join(filter(None, [title, caption])) for caption in captions]
    pictures = _pictures(points, _labels(data, points.shape[1]), titles)
    durations = [round(1000 * seconds)] * (len(points) - 1) + [_LAST]
    with atomic_write(path) as new:
        pictures[0].save(new, save_all=True, append_images=pictures[1:], duration=durations, loop=0)
    return Path(path)


def _stacked(frames):
    """All frames as one array `(frames, n, 2)`."""
    require(len(frames) > 0, "no frames", "at least one. Did the callback see the training?")
    frames = [as_vectors(frame, f"frames[{number}]") for number, frame in enumerate(frames)]
    shapes = sorted({frame.shape for frame in frames})
    is_plane = len(shapes) == 1 and shapes[0][1] == 2 and shapes[0][0] > 0
    advice = "Train a model with dim=2, or map all frames together, as with sklearn.decomposition.PCA(2)"
    require(is_plane, f"frames of shapes {shapes}", f"(n, 2) for all. {advice}")
    return np.stack(frames)


def _labels(data, count):
    """Class ids and their names; see `labels_and_names`."""
    return labels_and_names(data, None, count) if is_labeled_set(data) else labels_and_names(None, data, count)


def _pictures(points, labels_and_name, titles):
    """The frames as images with one palette."""
    figure = new_figure("visualize.animation", figsize=(_SIDE, _SIDE), dpi=_INCH)
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas, axis = FigureCanvasAgg(figure), figure.subplots()
    collections = draw_points(axis, points[0], *labels_and_name)
    finish(figure, axis, points.reshape(-1, 2), " ")
    images = [_picture(canvas, axis, collections, *frame) for frame in zip(points, titles, strict=True)]
    colors, _, counts = _colors_of(images[-1])
    palette = colors[np.argsort(-counts, kind="stable")[:_COLORS]]
    return [_in_palette(image, palette) for image in images]


def _picture(canvas, axis, collections, points, title):
    """The figure as pixels, `(height, width, 3)`, with its points moved."""
    for collection, rows in collections:
        collection.set_offsets(points[rows])
    axis.set_title(title or " ", fontsize=10)
    canvas.draw()
    return np.array(canvas.buffer_rgba())[..., :3]


def _in_palette(pixels, palette):
    """An image of the nearest colors of a palette, `(colors, 3)`; Pillow's own search does not keep exact colors."""
    from PIL import Image

    colors, indices, _ = _colors_of(pixels)
    nearest = ((colors[:, None] - palette) ** 2).sum(axis=-1).argmin(axis=1).astype(np.uint8)
    image = Image.fromarray(nearest[indices].reshape(pixels.shape[:2]))
    image.putpalette(palette.astype(np.uint8).tobytes())
    return image


def _colors_of(pixels):
    """Colors of an image, `(colors, 3)` int64; the color of each pixel, `(pixels,)`; and pixels per color."""
    codes = pixels.reshape(-1, 3) @ np.array([2**16, 2**8, 1])  # np.unique sorts whole numbers faster than rows
    codes, indices, counts = np.unique(codes, return_inverse=True, return_counts=True)
    return np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=1), indices, counts
