"""Re-ranking: a model of pairs puts the first 50 neighbors of a search in a better order.

HEADER
"""

import argparse
import json
import time
from pathlib import Path

import keras
import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from keras import layers, ops

import tfdml

WEIGHTS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 1.0)  # of the model of pairs beside the cosine of the search


def main():
    """Tell the story."""
    options, begin = arguments(), time.time()
    options.output.mkdir(parents=True, exist_ok=True)
    train, validation, test = tfdml.datasets.glyphs(validation=True)
    if options.quick:
        train, validation, test = (data.select_classes(range(40)) for data in (train, validation, test))
    network = tfdml.zoo.load("glyphs-small")
    branch = trunk(network)
    parts = {"validation": validation} if options.choose else {"validation": validation, "test": test}
    sides = {name: Side(data, network, branch, options) for name, data in parts.items()}
    embeddings, maps = tfdml.models.embed(network, train), branch.predict(train.images, batch_size=512, verbose=0)

    runs = []
    for seed in options.seeds:
        model = trained(maps, train.labels, embeddings, seed, options)
        scores = {name: side.scores(model) for name, side in sides.items()}
        recalls = [sides["validation"].hits(scores["validation"], weight).mean() for weight in WEIGHTS]
        weight = WEIGHTS[int(np.argmax(recalls))]
        runs.append({"seed": seed, "weight": weight, "validation": dict(zip(map(str, WEIGHTS), recalls, strict=True))})
        print(
            f"seed {seed}: validation {np.round(recalls, 4)}, processor seconds {time.process_time():.0f}", flush=True
        )
        if not options.choose:
            runs[-1]["hits"] = sides["test"].hits(scores["test"], weight).astype(int).tolist()
    if options.choose:
        return
    side = sides["test"]
    results = summary(runs, side)
    about = {"protocol": f"{test.protocol}/{len(side.rows)}-queries", "seeds": options.seeds, "results": results}
    about |= {"seconds": round(time.process_time(), 1), "wall_seconds": round(time.time() - begin, 1)}
    about |= {"runs": [{key: run[key] for key in ("seed", "weight", "validation", "recall@1")} for run in runs]}
    (options.output / "results.json").write_text(json.dumps({**about, **tfdml.environment("matplotlib")}, indent=1))
    draw(options.output / "reranking.png", side, scores["test"], runs[-1]["weight"])
    whole = tfdml.models.PairModel(model.decision, branch)  # from two images to a score, to save and to serve
    whole.save(options.output / "pair_model.keras")
    if keras.backend.backend() == "tensorflow":
        tfdml.export.saved_model(whole, options.output / "export")
    print(json.dumps(results, indent=1))


def arguments():
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--choose", action="store_true", help="validation classes only")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--output", type=Path, default=Path("runs/reranking"))
    parser.add_argument("--quick", action="store_true", help="40 classes, one seed, 10 training steps")
    options = parser.parse_args()
    if options.quick:
        options.steps, options.queries, options.seeds = 10, 50, [0]
    return options


def trunk(network):
    """The first two stages of a network, which find strokes: from an image to a map (8, 8, 32), not trained again."""
    pooled = [layer for layer in network.layers if isinstance(layer, layers.MaxPooling2D)]
    branch = keras.Model(network.inputs, pooled[1].output)
    branch.trainable = False
    return branch


def decision(dropout):
    """From two maps to a score: where, and in what, they differ."""
    f, g = keras.Input((8, 8, 32)), keras.Input((8, 8, 32))
    x = layers.BatchNormalization(momentum=0.9)(ops.concatenate([ops.abs(f - g), f * g], axis=-1))
    x = layers.MaxPooling2D()(layers.Conv2D(32, 3, padding="same", activation="relu")(x))
    x = layers.BatchNormalization(momentum=0.9)(x)
    x = layers.Conv2D(64, 3, padding="same", activation="relu")(x)
    x = layers.Dropout(dropout)(layers.Flatten()(x))
    return keras.Model([f, g], layers.Dense(1)(layers.Dense(64, activation="relu")(x)))


def trained(maps, labels, embeddings, seed, options):
    """A model of pairs of maps, trained on what the search confuses: pairs among the first 50 neighbors."""
    keras.utils.set_random_seed(seed)
    model = tfdml.models.PairModel(decision(options.dropout))
    rate = keras.optimizers.schedules.CosineDecay(options.rate, options.steps)
    model.compile(keras.optimizers.Adam(rate), loss=tfdml.losses.PairLogisticLoss())
    mined = tfdml.samplers.MinedPairs(labels, positives=20, negatives=50)
    mined.refresh(embeddings)
    sampler = tfdml.samplers.MinedSampler(anchors_per_batch=128, pairs=mined, seed=seed)
    batches = tfdml.samplers.input_pairs(sampler.batches(maps, labels), pairing=tfdml.pairs.triplet_rows)
    model.fit(batches, steps_per_epoch=options.steps, shuffle=False, verbose=2)
    return model


class Side:
    """Queries of a set, and the first 50 neighbors of each."""

    def __init__(self, data, network, branch, options):
        count = min(options.queries, len(data))
        self.data, self.rows = data, np.sort(np.random.default_rng(0).choice(len(data), count, replace=False))
        self.labels = np.asarray(data.labels)
        self.maps = branch.predict(data.images, batch_size=512, verbose=0)
        embeddings = tfdml.models.embed(network, data)
        neighbors, cosines = tfdml.search.Exact(embeddings).search(embeddings[self.rows], 51)
        others = np.argsort(neighbors == self.rows[:, None], axis=1, kind="stable")[:, :50]  # without the query
        self.neighbors, self.cosines = (np.take_along_axis(x, others, axis=1) for x in (neighbors, cosines))

    def scores(self, model):
        """The scores of the model of pairs, in the order of the search."""
        order, scores = tfdml.search.rerank(model, self.maps[self.rows], self.maps, self.neighbors, batch_size=1000)
        places = np.argsort(np.argsort(self.neighbors, axis=1), axis=1)
        return np.take_along_axis(np.take_along_axis(scores, np.argsort(order, axis=1), axis=1), places, axis=1)

    def reranked(self, scores, weight):
        """The neighbors by the cosine plus weight times the score of the model."""
        order = np.argsort(-(self.cosines + weight * scores), axis=1, kind="stable")
        return np.take_along_axis(self.neighbors, order, axis=1)

    def hits(self, scores, weight):
        """Whether the first neighbor of each query is of its class."""
        return self.labels[self.reranked(scores, weight)[:, 0]] == self.labels[self.rows]


def summary(runs, side):
    """Recall@1 of the search and after re-ranking, and the paired difference with its intervals."""
    base = (side.labels[side.neighbors[:, 0]] == side.labels[side.rows]).astype(float)
    hits = np.array([run.pop("hits") for run in runs], float)
    for run, row in zip(runs, hits, strict=True):
        run["recall@1"] = float(row.mean())
    within = (side.labels[side.neighbors] == side.labels[side.rows, None]).any(axis=1)
    gain = hits.mean(axis=0) - base
    found = {"search": base.mean(), "reranked": hits.mean(), "first 50": within.mean(), "gain": gain.mean()}
    found |= {"gain, interval over classes": tfdml.metrics.bootstrap_interval(gain, side.labels[side.rows])}
    if len(runs) > 1:
        found |= {"gain, interval over seeds": tfdml.metrics.seed_interval(hits.mean(axis=1) - base.mean())}
    return {name: np.round(np.asarray(value, float), 5).tolist() for name, value in found.items()}


def draw(path, side, scores, weight):
    """Queries whose first neighbor changed: the first five of the search, and of the re-ranking."""
    after = side.reranked(scores, weight)
    queries = np.flatnonzero(side.neighbors[:, 0] != after[:, 0])[:6]
    figure, axes = plt.subplots(max(1, len(queries)), 12, figsize=(9, 0.8 * max(1, len(queries)) + 0.6), squeeze=False)
    for axis in axes.ravel():
        axis.axis("off")
    for row, query in zip(axes, queries, strict=False):
        shown = [side.rows[query], *side.neighbors[query, :5], None, *after[query, :5]]
        for axis, number in zip(row, shown, strict=True):
            if number is not None:
                axis.axis("on")
                axis.set(xticks=[], yticks=[])
                axis.imshow(255 - side.data.images[number, :, :, 0], cmap="gray", vmin=0, vmax=255)
                match = side.labels[number] == side.labels[side.rows[query]]
                color = "black" if number == side.rows[query] else "#0072b2" if match else "#d55e00"
                axis.spines[:].set(color=color, linewidth=2)
    for column, title in ((0, "query"), (3, "search"), (9, "re-ranked")):
        axes[0, column].set_title(title, fontsize=10)
    figure.tight_layout(pad=0.4)
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
