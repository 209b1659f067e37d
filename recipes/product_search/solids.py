"""Solids: glyphs with a depth, turned about their vertical axis. An item of the catalog is several views of a solid.

Claim: turned by up to 60 degrees, 44.1% of the solids find their character first among items of five views, by the
nearest one (41.9 to 46.5 over classes), 38.9% among items of the front alone (36.7 to 41.1). Half a minute of processor
time, without a training.

    python -m recipes.product_search.solids

Queries are solids of type designs with an even number, turned by up to 60 degrees; items are those of the other designs
of the test characters. The network of the zoo has learned plain glyphs alone. Intervals are over classes.
"""

import argparse
from pathlib import Path

import keras
import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

import tfdml

KS = (1, 2, 5, 10, 20, 50, 100)
ANGLES = (-60, -30, 0, 30, 60)
DEPTH, SIDES = 9, 0.5  # pixels, brightness of the faces behind the front


def shapes(images):
    """The shapes of glyphs `(n, height, width)`, 255 where a mean of 3 x 3 pixels is above the middle of its range."""
    padded = np.pad(images.astype(np.float32), ((0, 0), (1, 1), (1, 1)), mode="edge")
    smooth = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2)).mean((-2, -1))
    middle = (smooth.min((1, 2), keepdims=True) + smooth.max((1, 2), keepdims=True)) / 2
    return np.where(smooth > middle, 255, 0).astype(np.uint8)


def turned(ink, degrees, depth=DEPTH):
    """Parallel projections of extruded glyphs, `(n, height, width)`, turned by less than 90 degrees each, `(n,)`."""
    sine, cosine = np.sin(np.radians(degrees))[:, None], np.cos(np.radians(degrees))[:, None]
    center = (ink.shape[2] - 1) / 2
    views = np.zeros(ink.shape, np.float32)
    for behind in reversed(range(depth)):  # the front is painted last
        columns = (np.arange(ink.shape[2]) - center - (behind - (depth - 1) / 2) * sine) / cosine + center
        near = np.rint(columns).astype(int)
        is_inside = (near >= 0) & (near < ink.shape[2])
        cover = np.take_along_axis(ink, np.where(is_inside, near, 0)[:, None], axis=2) / 255 * is_inside[:, None]
        views = views * (1 - cover) + cover * (255 if behind == 0 else 255 * SIDES)
    return np.rint(views).astype(np.uint8)


def first_ranks(queries, views, labels, item_labels):
    """The place of the first right item of each query, for items of one view, of all of them, and of their mean."""
    items, front = np.arange(len(item_labels)), [views[ANGLES.index(0)]]
    searches = {
        "one view, the front": (front, {}),
        "five views, the nearest": (views, {"items": "solid"}),
        "five views, mean of the three nearest": (views, {"items": "solid", "best": 3}),
        "the mean of five views": ([np.mean(views, axis=0)], {}),
    }
    for name, (vectors, options) in searches.items():
        index = tfdml.search.Exact(np.concatenate(vectors), metadata={"solid": np.tile(items, len(vectors))})
        rows, _ = index.search(queries, k=min(KS[-1], len(items)), **options)
        is_right = item_labels[rows % len(items)] == labels[:, None]
        yield name, np.where(is_right.any(axis=1), is_right.argmax(axis=1) + 1, KS[-1] + 1)


def main():
    """Draw some solids, and Recall@k over k."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("runs", "product-solids"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    _, test = tfdml.datasets.glyphs()
    shown, plain = (test.take(np.flatnonzero(test.designs % 2 == side)) for side in (0, 1))
    degrees = np.random.default_rng(0).uniform(min(ANGLES), max(ANGLES), len(shown))
    queries = turned(shapes(shown.images[..., 0]), degrees)
    views = [turned(shapes(plain.images[..., 0]), np.full(len(plain), angle)) for angle in ANGLES]
    rows = np.arange(6) * (len(plain) // 6)
    picture = np.concatenate([np.concatenate(view[rows], axis=1) for view in views])
    keras.utils.save_img(options.output / "product-solids.png", np.kron(255 - picture, np.ones((3, 3)))[..., None])
    model = tfdml.zoo.load("glyphs-multi-similarity")
    x, *gallery = (tfdml.models.embed(model, each[..., None]) for each in (queries, *views))
    figure, axis = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
    for name, ranks in first_ranks(x, gallery, shown.labels, plain.labels):
        axis.plot(KS, [100 * np.mean(ranks <= k) for k in KS], marker="o", markersize=3, label=name)
        low, high = tfdml.metrics.class_interval((ranks == 1).astype(float), shown.labels)
        print(f"{name:40} {100 * np.mean(ranks == 1):.1f} [{100 * low:.1f}, {100 * high:.1f}]")
    axis.set(xscale="log", xlabel="k, items of the list", ylabel="Recall@k, %")
    axis.grid(color="0.92")
    axis.legend(frameon=False, fontsize=8)
    figure.savefig(options.output / "product-recall.png", dpi=120)


if __name__ == "__main__":
    main()
