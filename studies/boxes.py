"""Does a box help where a photograph shows two things? Recall@1 on composites with and without the box of the thing.

    python -m studies.boxes            # two minutes of one core
    python -m studies.boxes --quick    # a smoke test on few composites

A composite is a square canvas of two examples of the test part, of different classes, side by side at random heights.
The query is the left one. The gallery is the test part without both examples. A model of the zoo embeds the whole
canvas, resized to its input, or what is in the box. "Recall@1 of either" counts a neighbor of either class as right.
"""

import numpy as np
import tensorflow as tf

import tfdml
from studies import pages, runner

ROWS, PAGE = pages.RESULTS / "boxes.csv", pages.ROOT / "docs" / "search.md"
SETS = {"photo_patches": "photo-patches-small", "glyphs": "glyphs-small"}
COMPOSITES, SEEDS = 1000, (0, 1, 2)


def composite(rng, left, right):
    """The PNG of two squares side by side on the mean gray of their border, and the box of the left one."""
    side = len(left)
    canvas = np.full((2 * side, 2 * side, left.shape[2]), np.median(left[0]), np.uint8)
    y, other = rng.integers(0, side + 1, 2)
    canvas[y : y + side, :side] = left
    canvas[other : other + side, side:] = right
    return tf.io.encode_png(canvas).numpy(), (0, y, side, y + side)


def queries(name, seed, composites):
    """The set and its embeddings, the pairs of rows, and the pixels and embeddings of both kinds of queries."""
    data, model = getattr(tfdml.datasets, name)()[1], tfdml.zoo.load(SETS[name])
    rng, read = np.random.default_rng(seed), tfdml.datasets.Preprocessing.for_model(model).reader()
    pairs = np.array([rng.choice(len(data), 2, replace=False) for _ in range(4 * composites)])
    pairs = pairs[data.labels[pairs[:, 0]] != data.labels[pairs[:, 1]]][:composites]
    made = [composite(rng, *data.images[pair]) for pair in pairs]
    pixels = {
        "whole image": np.stack([read(file)[0] for file, _ in made]),
        "box": np.stack([read(file, box)[0] for file, box in made]),
    }
    vectors = {kind: np.asarray(tfdml.models.embed(model, images)) for kind, images in pixels.items()}
    return data, np.asarray(tfdml.models.embed(model, data)), pairs, pixels, vectors


def rows_of(name, seed, composites):
    """A row for the whole canvas and one for the box, with an interval over classes."""
    data, gallery, pairs, _, vectors = queries(name, seed, composites)
    for kind, x in vectors.items():
        scores = x @ gallery.T
        np.put_along_axis(scores, pairs, -np.inf, axis=1)
        found, labels = data.labels[scores.argmax(axis=1)], data.labels[pairs]
        right = (found == labels[:, 0]).astype(float)
        low, high = tfdml.metrics.class_interval(right, labels[:, 0])
        either = float((found[:, None] == labels).any(axis=1).mean())
        values = {"recall@1": float(right.mean()), "low": low, "high": high, "either": either}
        yield {"set": name, "seed": seed, "query": kind, "composites": len(pairs), **values, **tfdml.environment()}


def draw(path):
    """One composite and what is in its box, each with its nearest neighbors."""
    data, gallery, pairs, pixels, vectors = queries("photo_patches", 2, composites=1)
    rest = np.setdiff1d(np.arange(len(data)), pairs[0])
    of_rest = {"gallery_embeddings": gallery[rest], "gallery": data.take(rest)}
    both = tfdml.datasets.LabeledSet(
        images=np.concatenate([*pixels.values()]), labels=data.labels[pairs[[0, 0], 0]], class_names=data.class_names
    )
    figure = tfdml.visualize.retrieval_grid(np.concatenate([*vectors.values()]), both, queries=[0, 1], k=7, **of_rest)
    figure.savefig(path, dpi=100)


def table(rows):
    """A line for each set and kind of query: percents, means over seeds."""
    names = ("recall@1", "low", "high", "either")
    body = []
    for name in SETS:
        for kind in ("whole image", "box"):
            found = runner.where(rows, set=name, query=kind)
            body.append([name, kind, *(f"{runner.mean_of(found, key):.1f}" for key in names)])
    return runner.markdown(["set", "query", "Recall@1", "low", "high", "Recall@1 of either"], body)


def main(arguments=None):
    """Measure all sets; few composites with `--quick`, which writes nothing."""
    if runner.options_of(__doc__, arguments).quick:
        return print(*rows_of("glyphs", 0, composites=20), sep="\n")
    runner.write_rows(ROWS, [row for name in SETS for seed in SEEDS for row in rows_of(name, seed, COMPOSITES)])
    return draw(pages.IMAGES / "boxes.png")


if __name__ == "__main__":
    main()
