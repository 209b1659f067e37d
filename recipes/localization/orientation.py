"""Orientation: by which angle a photo of a place is turned against the tile of the map that shows it.

Claim: the mean angular error is 38.6 degrees against the tile of the place, where chance is 90, and 85.0 against the
tile that the photo finds first, which is wrong for most. Of the turned photos, 13.3% have their tile in the first
hundredth of the map; of the upright ones, 31.2%. One seed, 67 seconds of processor time (AMD EPYC).

    python -m recipes.localization.orientation            # one seed
    python -m recipes.localization.orientation --quick    # smoke test, under a minute

The task is the second one of Vo and Hays, Localizing and orienting street views using overhead imagery, ECCV 2016. The
towers are the separate ones of `python -m recipes.localization`, trained on photos that are upright to 20 degrees. Each
test photo is turned by a random angle. The photo tower embeds it in 24 turns; a softmax over their cosines with a tile
gives the sine and the cosine of the angle. The tile is that of the place, or the one that the photo finds by its best
turn. Two photos of each place are measured. The label has no turn of up to 20 degrees that each view has by itself: it
adds about 10 degrees to the mean error.
"""

import argparse
from dataclasses import replace

import numpy as np
from keras import ops

import tfdml
from recipes import localization
from recipes.localization import __main__ as recipe

TURNS = np.arange(24) * 15.0  # degrees


def main():
    """Tell the story."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="40 places, 5 training steps")
    options = parser.parse_args()
    options.steps, options.places = (5, 16) if options.quick else (150, 48)
    settings, train = recipe.CHOSEN["separate"], recipe.embedded(options.quick)[0]
    photos, tiles = recipe.trained("separate", settings, train, 0, options).towers
    (views,) = tfdml.datasets.photo_patches(splits=("test",))
    views = views.select_classes(range(40)) if options.quick else views
    for name, value in measured(photos, tiles, views.take(views.views < 2), settings["temperature"]).items():
        print(f"{name:64}{value:6.1f}")


def turned(images, degrees):
    """Images turned counterclockwise around their middle.

    Args:
        images: `(n, side, side, channels)`; pixels from outside repeat the border.
        degrees: `(n,)`.

    Returns:
        The shape and the type of the images.
    """
    sin, cos = np.asarray(sine_cosine(degrees), np.float32).T
    middle, zeros = (images.shape[1] - 1) / 2, np.zeros_like(sin)
    x, y = middle * (1 - cos + sin), middle * (1 - cos - sin)
    transforms = np.stack([cos, -sin, x, sin, cos, y, zeros, zeros], axis=1)
    pixels = ops.cast(images, "float32")
    pixels = ops.image.affine_transform(pixels, transforms, interpolation="bilinear", fill_mode="nearest")
    return np.rint(np.asarray(pixels)).astype(images.dtype)


def sine_cosine(degrees):
    """Sine and cosine of angles, `(n, 2)`."""
    radians = np.deg2rad(degrees)
    return np.stack([np.sin(radians), np.cos(radians)], axis=1)


def orientation(photos, tiles, temperature):
    """Sine and cosine of the angle, `(n, 2)`: their mean over turns, by a softmax of cosine / temperature.

    `photos` are unit vectors `(turns, n, dim)` of photos that are turned back by `TURNS`, `tiles` are `(n, dim)`.
    """
    similarity = np.einsum("tnd,nd->nt", photos, tiles)
    return np.asarray(ops.softmax(similarity / temperature)) @ sine_cosine(TURNS)


def angular_error(directions, degrees):
    """Angle between the direction of sines and cosines `(n, 2)`, of any length, and `degrees`: `(n,)` in [0, 180]."""
    sine, cosine = np.asarray(directions, np.float64).T
    return np.abs((np.rad2deg(np.arctan2(sine, cosine)) - degrees + 180) % 360 - 180)


def measured(photos, tiles, views, temperature, seed=0):
    """Shares of photos whose tile is in the first hundredth, in percent, and mean angular errors in degrees."""
    degrees = np.random.default_rng(seed).uniform(0, 360, len(views))
    gallery = localization.map_tiles(views)
    y = tfdml.models.embed(tiles, gallery)
    upright, as_turned = embedded(photos, views), turned(views.images, degrees)
    by_turn = [turned(as_turned, np.full(len(views), -turn)) for turn in TURNS]
    x = np.stack([embedded(photos, replace(views, images=images)) for images in by_turn])
    best = np.max([one @ y.T for one in x], axis=0)
    own = np.searchsorted(gallery.labels, views.labels)  # one tile per place, by ascending label
    values = {"recall@1%, upright photos": recall(upright @ y.T, own), "recall@1%, turned photos": recall(best, own)}
    for name, rows in {"the tile of the place": own, "the tile found first": best.argmax(axis=1)}.items():
        errors = angular_error(orientation(x, y[rows], temperature), degrees)
        values[f"mean angular error against {name}, degrees"] = errors.mean()
    return values


def embedded(tower, views):
    """Unit vectors of the middle of views, `(n, dim)`."""
    edge = (views.images.shape[1] - recipe.SIDE) // 2
    return tfdml.models.embed(tower, recipe.cropped(views, slice(edge, edge + recipe.SIDE)))


def recall(similarity, own):
    """Percent of the photos whose own tile is among the first hundredth, rounded up, of `(photos, tiles)`."""
    before = (similarity > np.take_along_axis(similarity, own[:, None], axis=1)).sum(axis=1)
    return 100 * (before < np.ceil(similarity.shape[1] / 100)).mean()


if __name__ == "__main__":
    main()
