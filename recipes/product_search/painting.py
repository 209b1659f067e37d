"""Product search: glyphs in scenes, painted on photographs, that search plain glyphs of other type designs."""

from dataclasses import replace

import numpy as np

import tfdml

_SHIFT = 3  # pixels
_DIMMED = 0.6  # brightness of the photographs
_LIGHT = (170, 256)  # range of the channels of a color


def scenes(
    glyphs: tfdml.datasets.LabeledSet, backgrounds: tfdml.datasets.LabeledSet, *, seed: int = 0
) -> tuple[tfdml.datasets.LabeledSet, tfdml.datasets.LabeledSet]:
    """Two domains of glyphs: in scenes, and as products on a plain background.

    A scene is a glyph in a random light color, moved by up to three pixels, on a random crop of a dimmed photo patch.
    Scenes are the glyphs of type designs with an even number, products those with an odd number, so no scene shows an
    image of the products.

    Example:

        >>> _, test = tfdml.datasets.glyphs()
        >>> (patches,) = tfdml.datasets.photo_patches(splits=["test"])
        >>> queries, gallery = product_search.scenes(test.take(range(300)), patches)
        >>> queries.images.shape, gallery.images.shape
        ((131, 32, 32, 3), (169, 32, 32, 3))
        >>> set(queries.designs) & set(gallery.designs)
        set()

    Args:
        glyphs: one of the sets of `tfdml.datasets.glyphs`.
        backgrounds: one of the sets of `tfdml.datasets.photo_patches`; take the same split.
        seed: seed of colors, shifts and crops.

    Returns:
        `(scenes, products)`, two sets of glyphs with images `(n, 32, 32, 3)` uint8; if the set has a protocol, theirs
        is it and `/scenes-against-products`.

    Raises:
        ValueError: no backgrounds, or a seed below 0.
    """
    if not len(backgrounds):
        raise ValueError("There are no backgrounds. Pass photo patches to paint on.")
    shown, plain = (glyphs.take(np.flatnonzero(glyphs.designs % 2 == side)) for side in (0, 1))
    protocol = glyphs.protocol and f"{glyphs.protocol}/scenes-against-products"
    painted = _painted(shown.examples()[..., 0], backgrounds.examples(), np.random.default_rng(seed))
    products = np.repeat(plain.examples(), 3, axis=-1)
    return replace(shown, images=painted, protocol=protocol), replace(plain, images=products, protocol=protocol)


def _painted(ink, patches, rng):
    """`ink` `(n, 32, 32)` uint8, 255 where the color covers the background: `(n, 32, 32, 3)` uint8."""
    side = ink.shape[1]
    rows = rng.integers(len(patches), size=len(ink))
    corners = rng.integers(patches.shape[1] - side + 1, size=(len(ink), 2))
    background = np.float32(_DIMMED) * _crops(patches, rows, corners, side)
    color = rng.integers(*_LIGHT, size=(len(ink), 1, 1, 3)).astype(np.float32)
    padded = np.pad(ink, ((0, 0), (_SHIFT, _SHIFT), (_SHIFT, _SHIFT)))
    shifts = rng.integers(2 * _SHIFT + 1, size=(len(ink), 2))
    cover = _crops(padded, np.arange(len(ink)), shifts, side)[..., None] / np.float32(255)
    return np.rint(background * (1 - cover) + color * cover).astype(np.uint8)


def _crops(images, rows, corners, side):
    """The squares of images `rows` whose upper left corners are `(n, 2)` y and x: `(n, side, side, ...)`."""
    y, x = (corners[:, axis, None] + np.arange(side) for axis in (0, 1))
    return images[rows[:, None, None], y[:, :, None], x[:, None, :]]
