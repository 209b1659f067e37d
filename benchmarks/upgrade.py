"""A new model and an old index: as it is, upgraded by adapters, kept compatible in training, and embedded again.

python benchmarks/upgrade.py            # both sets, twenty minutes on two cores
python benchmarks/upgrade.py --quick    # the first classes of glyphs, a few steps

The old model is a small network that learned from half of the training classes, the new one a larger network that
learned from all of them. Adapters are learned on embeddings of the training classes, their settings are chosen by the
validation classes, and the test classes are searched once. Every test image is a query of the new model against all
other test images in the gallery of a row.
"""

import itertools

import keras
import numpy as np
from _report import options_of, write_table

import tfdml
from studies.leaderboard import starts
from tfdml.search import LinearAdapter, MLPAdapter

SAMPLES = 2000  # of the bootstrap
OLD_DIM, NEW_DIM = 64, 128
RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
NETWORKS = list(itertools.product((256, 1024), (10, 40)))  # units, epochs


def trained(train, *, widths, dim, steps, seed, compatible=None):
    """A network after so many steps; with `compatible`, also by the influence loss over these fixed references."""
    keras.utils.set_random_seed(seed)
    images = keras.Input((32, 32, 1), dtype="uint8")
    model = tfdml.models.EmbeddingModel(images, tfdml.models.plain_cnn(images, dim=dim, widths=widths))
    loss = tfdml.losses.MultiSimilarityLoss(threshold=0.7)
    if compatible is not None:
        influence = tfdml.losses.NTXentLoss(temperature=0.1, pairing=compatible)
        loss = tfdml.losses.WeightedSumLoss([loss, influence])
    rate = keras.optimizers.schedules.CosineDecay(0.0, steps * 9 // 10, warmup_target=1e-2, warmup_steps=steps // 10)
    model.compile(keras.optimizers.Adam(rate), loss=loss)
    classes = min(32, len(train.class_names))
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=classes, examples_per_class=4, seed=seed)
    model.fit(sampler.batches(train), steps_per_epoch=steps, epochs=1, shuffle=False, verbose=0)
    return model


def recalls(queries, gallery, labels):
    """Whether the nearest other image of each query is of its class, `(queries,)`."""
    rows = np.arange(len(labels))
    options = {"gallery": gallery, "gallery_labels": labels, "groups": rows, "gallery_groups": rows}
    return tfdml.metrics.retrieval(queries, labels, k=1, full_map=False, per_query=True, **options)["recall@1"]


def adapters_of(old, new, labels):
    """The adapters of each kind that the validation classes choose, by their name, with their settings.

    Args:
        old, new: embeddings by the name of the part.
        labels: of the validation part.
    """
    pairs, validation = (old["train"], new["train"]), (old["validation"], new["validation"])

    def best(candidates):
        scores = [np.nanmean(recalls(validation[1], adapter(validation[0]), labels)) for _, adapter in candidates]
        return candidates[int(np.argmax(scores))]

    ridge, linear = best([(ridge, LinearAdapter.learn(*pairs, ridge=ridge)) for ridge in RIDGES])
    shape, mlp = best(
        [(each, MLPAdapter.learn(*pairs, ridge=ridge, units=each[0], epochs=each[1])) for each in NETWORKS]
    )
    return {
        "upgraded, linear": (linear, f"ridge {ridge:g}"),
        "upgraded, orthogonal": (LinearAdapter.learn(*pairs, orthogonal=True), "-"),
        "upgraded, network": (mlp, f"{shape[0]} units, {shape[1]} epochs"),
    }


def intervals(values, first, last, labels):
    """Mean, and share of the gain from `first` to `last` that is kept, each with its 95% interval over classes."""
    valid = ~np.isnan(values + first + last)
    classes = np.unique(labels[valid], return_inverse=True)[1]
    counts, *sums = (np.bincount(classes, weights) for weights in (None, values[valid], first[valid], last[valid]))
    draws = np.random.default_rng(0).integers(len(counts), size=(SAMPLES, len(counts)))
    draws = np.concatenate([np.arange(len(counts))[None], draws])
    means = [each[draws].sum(axis=1) / counts[draws].sum(axis=1) for each in sums]
    with np.errstate(divide="ignore", invalid="ignore"):  # after few steps, there is no gain
        kept = (means[0] - means[1]) / (means[2] - means[1])
    return {name: (x[0], *np.quantile(x[1:], (0.025, 0.975))) for name, x in (("recall@1", means[0]), ("kept", kept))}


def rows_of(name, parts, steps):
    """The rows of a set: queries and gallery, Recall@1 and the share of the gain."""
    train = parts["train"]
    half = train.select_classes(np.arange(0, len(train.class_names), 2))
    networks = {
        "old": trained(half, widths=(16, 32), dim=OLD_DIM, steps=steps // 3, seed=0),
        "new": trained(train, widths=(32, 64), dim=NEW_DIM, steps=steps, seed=1),
    }
    old_train = tfdml.models.embed(networks["old"], train)
    centers = tfdml.layers.FixedReferences.centers(old_train, train.labels)
    alone = trained(train, widths=(32, 64), dim=OLD_DIM, steps=steps, seed=1)
    networks["compatible"] = trained(train, widths=(32, 64), dim=OLD_DIM, steps=steps, seed=1, compatible=centers)
    embeddings = {
        model: {key: tfdml.models.embed(network, data) for key, data in parts.items()}
        for model, network in {**networks, "new of the old dim": alone}.items()
    }
    adapters = adapters_of(embeddings["old"], embeddings["new"], parts["validation"].labels)
    test, labels = {model: each["test"] for model, each in embeddings.items()}, parts["test"].labels
    galleries = [("old", "old", test["old"], "-")]
    galleries += [("new", way, adapter(test["old"]), text) for way, (adapter, text) in adapters.items()]
    galleries += [("new", "embedded again", test["new"], "-")]
    galleries += [("new of the old dim", "old", test["old"], "-")]
    galleries += [("compatible", "old", test["old"], "-"), ("compatible", "embedded again", test["compatible"], "-")]
    scores = [recalls(test[queries], gallery, labels) for queries, _, gallery, _ in galleries]
    last = [queries for queries, *_ in galleries].index("new") + len(adapters)
    rows = []
    for (queries, gallery, vectors, settings), values in zip(galleries, scores, strict=True):
        numbers = intervals(values, scores[0], scores[last], labels)
        rows.append(
            {
                "set": name,
                "queries": queries,
                "gallery": gallery,
                "dim": vectors.shape[1],
                "chosen": settings,
                "recall@1": percent(numbers["recall@1"]),
                "gain kept": "-" if values is scores[0] or values is scores[last] else percent(numbers["kept"]),
                "classes": len(np.unique(labels)),
                "images": len(labels),
                "steps": steps,
                "command": "benchmarks/upgrade.py",
            }
        )
    return rows


def percent(interval):
    """A number and its interval, in percent."""
    value, low, high = (100 * x for x in interval)
    return f"{value:.1f} ({low:.1f} to {high:.1f})"


def main():
    """Measure both sets, or a little of one."""
    options = options_of(__doc__, "upgrade.csv", sets=["glyphs", "photo patches"])
    rows = []
    for name in options.sets[: 1 if options.quick else None]:
        parts = starts.SETS[name]()
        if options.quick:
            parts = {key: data.select_classes(range(40)) for key, data in parts.items()}
        rows += rows_of(name, parts, 6 if options.quick else 900)
    write_table(options.output, rows)


if __name__ == "__main__":
    main()
