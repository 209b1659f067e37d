"""Does Recall@1 fall while an index is embedded again by a new model? Curves over the share of items, on three sets.

    python -m studies.migration            # three orders of the items of each kind, ten minutes of one core
    python -m studies.migration --quick    # a smoke test on few classes

Queries of the new model search the versions that `search.migrate` puts out: every test image, among all others. Old
and new model are of the zoo; of "things", the old one is the network of ImageNet. The whitening of the old embeddings,
learned on the training part, is a linear change. Items come in random order ("mixed"), or class after class
("classes").
"""

import itertools
import tempfile
from pathlib import Path

import numpy as np

import tfdml
from recipes import things
from studies import figures, pages, runner

ROWS, PAGE = pages.RESULTS / "migration.csv", pages.ROOT / "docs" / "model-upgrades.md"
READ = {"glyphs": tfdml.datasets.glyphs, "photo patches": tfdml.datasets.photo_patches, "things": things.things}
MODELS = {
    "glyphs": ("glyphs-contrastive", "glyphs-multi-similarity"),
    "photo patches": ("photo-patches-raw", "photo-patches-imagenet"),
    "things": (None, "things"),
}
CHANGES, ORDERS, SEEDS, STEP = ("model", "whitening"), ("mixed", "classes"), (0, 1, 2), 0.05
SHOWN, INTERVAL = (0.19, 0.44, 0.74), ("recall@1", "low", "high")
LINES = [("mixed", "model", "o-"), ("classes", "model", "o-"), ("mixed", "whitening", "--")]


def hits(queries, gallery, labels):
    """Whether the nearest other row of each row is of its class, `(n,)`."""
    rows = np.arange(len(labels))
    options = {"gallery": gallery, "gallery_labels": labels, "groups": rows, "gallery_groups": rows}
    return tfdml.metrics.retrieval(queries, labels, k=1, full_map=False, per_query=True, **options)["recall@1"]


def embedded(name, parts):
    """Embeddings of the parts by a model of the zoo, or by the network of ImageNet; of no model that an index knows."""
    model = tfdml.zoo.load(name) if name else things.network(dim=None)
    return [np.asarray(tfdml.models.embed(model, part)) for part in parts]


def ordered(labels, kind, seed):
    """Rows in the order in which they are embedded again."""
    random = np.random.default_rng(seed)
    if kind == "mixed":
        return random.permutation(len(labels))
    return np.argsort(random.permutation(labels.max() + 1)[labels], kind="stable")


def curve(old, new, labels, order):
    """The hits in each version of the index that a migration puts out, by the number of items embedded again."""
    points, order = {}, order[::-1]  # the newest items come first
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        tfdml.search.Exact(old[order], order, model="old").save(path)
        again = tfdml.search.migrate(path, lambda ids, _: new[ids], model="new", batch_size=int(STEP * len(old)))
        for _ in again:
            index = tfdml.search.load(path, model="new")
            origin = index.metadata["vector"].to_numpy() if index.metadata else np.full(len(old), "embedded")
            vectors = index.vectors[index.rows(np.arange(len(old)))]
            points.setdefault(int(np.sum(origin == "embedded")), hits(new, vectors, labels))
    return points


def rows_of(name, classes=None):
    """A row for each change, order and share: Recall@1, the mean over orders, with its interval over classes."""
    train, *_, test = READ[name]()
    if classes is not None:
        train, test = (part.select_classes(range(classes)) for part in (train, test))
    labels, (of_old, of_new) = test.labels, (embedded(model, (train, test)) for model in MODELS[name])
    old = of_old[1]
    news = of_new[1], tfdml.search.Whitening.learn(of_old[0], shrinkage=0.1)(old)
    for change, new in zip(CHANGES, news, strict=True):
        levels = {key: float(np.nanmean(hits(x, x, labels))) for key, x in (("old", old), ("new", new))}
        for order in ORDERS:
            curves = [curve(old, new, labels, ordered(labels, order, seed)) for seed in SEEDS]
            for count in curves[0]:
                values = np.mean([points[count] for points in curves], axis=0)
                low, high = tfdml.metrics.class_interval(values, labels)
                row = {"set": name, "change": change, "order": order, "share": count / len(old)}
                row |= {"recall@1": float(np.nanmean(values)), "low": low, "high": high, **levels}
                yield {**row, "orders": len(SEEDS), "protocol": test.protocol, **tfdml.environment()}


def table(rows):
    """A line for each curve of a new model: Recall@1 at some shares, the first that passes the old model, its fall."""
    body = []
    for name, order in itertools.product(READ, ORDERS):
        points = runner.where(rows, set=name, change="model", order=order)
        values, (old, new) = [row["recall@1"] for row in points], (points[0][key] for key in ("old", "new"))
        first = points[0]
        at = [f"{100 * next(row for row in points if row['share'] > share)['recall@1']:.1f}" for share in SHOWN]
        passed = [100 * row["share"] for row in points if row["recall@1"] >= old]
        fall = 100 * np.max(np.maximum.accumulate(values) - values)
        interval = f"{100 * first['recall@1']:.1f} ({100 * first['low']:.1f} to {100 * first['high']:.1f})"
        passing = f"{min(passed):.0f}%" if passed else "-"
        body.append([name, order, f"{100 * old:.1f}", interval, *at, f"{100 * new:.1f}", passing, f"{fall:.1f}"])
    head = ["set", "order", "old", "5%", "20%", "45%", "75%", "new", "passes old at", "falls by"]
    return runner.markdown(head, body, texts=(0, 1))


def draw(path, rows):
    """A panel for each set: the curves of the new model with their intervals, of the whitening, and the old model."""

    def panels(*axes):
        for axis, name in zip(axes, READ, strict=True):
            for (order, change, line), color in zip(LINES, figures.COLORS, strict=False):
                points = runner.where(rows, set=name, change=change, order=order)
                x, y, low, high = (np.array([100 * row[key] for row in points]) for key in ("share", *INTERVAL))
                axis.plot(x, y, line, color=color, label=f"{change}, {order}", markersize=3)
                axis.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
            axis.axhline(100 * points[0]["old"], color="0.3", linestyle=":", label="old model")
            axis.set(title=name, xlabel="embedded again, %", ylim=(0, 100))
        axes[0].set_ylabel("Recall@1, %")

    figures.save(path, panels, columns=len(READ))


def main(arguments=None):
    """Measure all sets; few classes of glyphs with `--quick`, which writes nothing."""
    if runner.options_of(__doc__, arguments).quick:
        return print(*rows_of("glyphs", classes=20), sep="\n")
    runner.write_rows(ROWS, [row for name in READ for row in rows_of(name)])
    return draw(pages.IMAGES / "migration.png", runner.read_rows(ROWS))


if __name__ == "__main__":
    main()
