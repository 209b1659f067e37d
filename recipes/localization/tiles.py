"""Localization: tiles of a map, drawn from photographs, for the places of the photo patches."""

from dataclasses import replace

import numpy as np

import tfdml

SIDE = 48  # pixels of a tile
SPAN = 96  # pixels of the photograph that a tile shows, twice the support of a view

# Colors of a map by brightness, from dark to bright: water, forest, meadow, building, road. Their own brightness has
# another order, so that a tile is not a gray copy of the photograph.
PALETTE = np.array([[70, 130, 180], [34, 100, 34], [200, 220, 140], [150, 110, 90], [250, 245, 235]], np.uint8)


def map_tiles(patches: tfdml.datasets.LabeledSet) -> tfdml.datasets.LabeledSet:
    """One tile of a map for each place of a set of photo patches, as the gallery of localization.

    A tile shows a square of 96 pixels of the photograph around the place, twice as wide as a view, north up and without
    the lights, turns and covers of the views. It is drawn like a map: the brightness of 2 x 2 pixels, smoothed over
    3 x 3 of these, cut at its quintiles in the tile, and painted in five colors.

    Example:

        >>> (views,) = tfdml.datasets.photo_patches(splits=["test"])
        >>> tiles = localization.map_tiles(views.select_classes([0, 1]))  # the gallery; queries are the views
        >>> tiles.images.shape, tiles.labels
        ((2, 48, 48, 3), array([0, 1]))

    Args:
        patches: one of the sets of `tfdml.datasets.photo_patches`.

    Returns:
        A set of `(places, 48, 48, 3)` uint8, in the order of the classes; view 0 of each place is its record.
        If the set has a protocol, it is that and `/views-against-map-tiles`.

    Raises:
        ImportError: Pillow or a package with photographs is not installed.
        ValueError: a set without a view of each class, or a photograph that is not the expected file.
    """
    classes, first = np.unique(patches.labels, return_index=True)
    if len(classes) != len(patches.class_names):
        received = f"views of {len(classes)} of {len(patches.class_names)} places"
        raise ValueError(f"Received {received}, expected one of each at least: select_classes keeps some places.")
    records = patches.take(first)
    tiles = np.empty((len(records), SIDE, SIDE, 3), np.uint8)
    for number, name in enumerate(records.photograph_names):
        rows = np.flatnonzero(records.photographs == number)
        if len(rows):
            tiles[rows] = _drawn(tfdml.datasets.photograph(name), records.places[rows])
    protocol = patches.protocol and f"{patches.protocol}/views-against-map-tiles"
    return replace(records, images=tiles, protocol=protocol)


def _drawn(photograph, centers):
    """The tiles around `(n, 2)` x and y of a photograph `(height, width, 3)` uint8.

    All sums are of whole numbers, so that every machine draws the same tiles.
    """
    luma = (photograph.astype(np.int64) * [299, 587, 114]).sum(axis=2)
    padded = np.pad(luma, SPAN // 2, mode="edge")
    squares = np.stack([padded[y : y + SPAN, x : x + SPAN] for x, y in centers])
    sums = _sums_of_neighbors(squares.reshape(-1, SIDE, 2, SIDE, 2).sum(axis=(2, 4)))
    limits = np.sort(sums.reshape(len(sums), -1), axis=1)[:, SIDE**2 * np.arange(1, 5) // 5]
    return PALETTE[(sums[..., None] > limits[:, None, None]).sum(axis=-1)]


def _sums_of_neighbors(squares):
    """Sums over 3 x 3 pixels; the border is repeated."""
    padded = np.pad(squares, ((0, 0), (1, 1), (1, 1)), mode="edge")
    height, width = squares.shape[1:]
    return sum(padded[:, y : y + height, x : x + width] for y in range(3) for x in range(3))
