"""Sketch to product: outlines of glyphs that search the filled glyphs of other type designs."""

from dataclasses import replace
from typing import Any

import numpy as np

from tfdml.datasets.glyphs.glyph_set import Glyphs


def sketches(glyphs: Glyphs) -> tuple[Glyphs, Glyphs]:
    """Queries and gallery of glyphs, for two towers.

    Queries are the outlines of the type designs with an even number, the gallery is the filled characters of those with
    an odd number. So no query is the outline of an image of the gallery.

    Example:

        >>> _, test = tfdml.datasets.glyphs()
        >>> queries, gallery = tfdml.datasets.sketches(test)
        >>> len(queries), len(gallery), set(queries.designs) & set(gallery.designs)
        (7024, 4387, set())

    Args:
        glyphs: one of the sets of `tfdml.datasets.glyphs`.

    Returns:
        `(queries, gallery)`; their protocol is the set's and `/outlines-against-other-designs`.
    """
    drawn, filled = (glyphs.take(np.flatnonzero(glyphs.designs % 2 == side)) for side in (0, 1))
    protocol = glyphs.protocol and f"{glyphs.protocol}/outlines-against-other-designs"
    return replace(drawn, images=outlines(drawn.images), protocol=protocol), replace(filled, protocol=protocol)


def outlines(images: Any) -> np.ndarray:
    """The morphological gradient: the maximum minus the minimum of the 3 x 3 pixels around each pixel.

    Example: ink in the four columns on the right.

        >>> image = np.zeros((1, 5, 6, 1), "uint8")
        >>> image[0, :, 2:] = 9
        >>> tfdml.datasets.outlines(image)[0, ..., 0]
        array([[0, 9, 9, 0, 0, 0],
               [0, 9, 9, 0, 0, 0],
               [0, 9, 9, 0, 0, 0],
               [0, 9, 9, 0, 0, 0],
               [0, 9, 9, 0, 0, 0]], dtype=uint8)

    Args:
        images: `(n, height, width, channels)`.

    Returns:
        The same shape and type. Pixels outside an image repeat its border.
    """
    images = np.asarray(images)
    height, width = images.shape[1:3]
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    shifted = [padded[:, row : row + height, column : column + width] for row in range(3) for column in range(3)]
    return np.max(shifted, axis=0) - np.min(shifted, axis=0)
