"""Makes tfdml/datasets/photo_patches/manifest.npz, the places of the photo patches, and prints their numbers.

    python tools/make_photo_patches_manifest.py [file.npz]

Run it again only for a new version of the set: rounding may choose borderline places otherwise. Places are those that
can be told apart from their surroundings: maxima of the smaller structure eigenvalue.
"""

import pathlib
import sys

import numpy as np

from tfdml.datasets.photo_patches import patches, photographs

MANIFEST = pathlib.Path(patches.__file__).with_name("manifest.npz")
DISTANCES = {"train": 20, "validation": 28, "test": 28}  # pixels between places of one photograph
MOST = {"train": 300, "validation": 150, "test": 150}  # places per photograph
BORDER = 40  # pixels from every border
LOWEST = 2.5  # gray levels per pixel
WINDOW = 25  # pixels, the side of the square over which the structure tensor is averaged


def main(path=MANIFEST):
    """Selects the places and writes the manifest."""
    manifest = {part: np.concatenate(list(selected(part))) for part in patches.PARTS}
    np.savez_compressed(path, **{part: rows.astype(np.uint16) for part, rows in manifest.items()})
    for part, rows in manifest.items():
        counts = zip(patches.PARTS[part], np.bincount(rows[:, 0]).tolist(), strict=True)
        print(f"{len(rows):>7,} places in {part}: {', '.join(f'{name} {count}' for name, count in counts)}")
    print(f"{pathlib.Path(path).stat().st_size:>7,} bytes in {path}")


def selected(part):
    """For each photograph of a part, `(places, 3)` int64: its number, then x and y."""
    for number, name in enumerate(patches.PARTS[part]):
        pixels = photographs.read(photographs.PHOTOGRAPHS[name])
        chosen = choose(pixels, distance=DISTANCES[part], most=MOST[part])
        yield np.concatenate([np.full((len(chosen), 1), number), chosen], axis=1)


def choose(pixels, *, distance, most):
    """At most `most` places of a photograph, `(places, 2)` int64 x and y, the most distinct first.

    The place with the highest score is taken, all within `distance` of it are dropped, and so on.
    """
    score = distinctness(pixels)
    score[:BORDER] = score[-BORDER:] = score[:, :BORDER] = score[:, -BORDER:] = 0
    chosen = []
    while len(chosen) < most:
        y, x = np.unravel_index(np.argmax(score), score.shape)
        if score[y, x] < LOWEST:
            break
        chosen.append((int(x), int(y)))
        _drop_around(score, x, y, distance)
    return np.array(chosen, np.int64).reshape(-1, 2)


def distinctness(pixels):
    """Square root of the smaller eigenvalue of the structure tensor, `(height, width)` float64, gray levels per pixel.

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


if __name__ == "__main__":
    main(*sys.argv[1:])
