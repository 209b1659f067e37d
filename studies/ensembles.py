"""The tables of docs/ensembles.md and docs/compact.md: ensembles and trees, and embeddings in fewer bytes.

    python -m studies.ensembles                  # ten minutes on one core

Glyphs, the same network up to its last layers, batches, optimizer and steps for all runs. Nothing is tuned, and the
score is that of the validation classes: the tables show that the losses train, not which one is the best.
"""

import functools

import keras
from keras import layers

import tfdml
from studies import pages, runner
from tfdml import losses, models

ROWS, COMPACT_ROWS = pages.RESULTS / "ensembles.csv", pages.RESULTS / "compact.csv"
DIMS, THREE = (8, 16, 32, 64), (32, 32, 32)
STEPS, EPOCHS = 400, 4
UNTRAINED = "untrained network"


def stages():
    """Images, and the feature maps of a small network at growing depth."""
    images = keras.Input((32, 32, 1), dtype="uint8")
    x, maps = layers.Rescaling(1 / 255)(images), []
    for width in (16, 32, 64):
        x = convolution(x, width)
        maps.append(x)
    return images, maps


def convolution(x, width):
    """A convolution that halves the resolution."""
    x = layers.Conv2D(width, 3, padding="same", use_bias=False)(x)
    return layers.MaxPooling2D()(layers.Activation("relu")(layers.BatchNormalization(momentum=0.9)(x)))


def flat(maps):
    """Features of all places, without averaging: in small images the position of a stroke matters."""
    return [layers.Flatten()(x) for x in maps]


def single(dim=96):
    """One learner."""
    images, maps = stages()
    return images, models.ensemble(*flat(maps[-1:]), dims=(dim,))


def cascade():
    """Learners of growing depth."""
    images, maps = stages()
    return images, models.ensemble(flat(maps), dims=THREE)


def boosted():
    """Learners over the same features."""
    images, maps = stages()
    loss = losses.BoostedLoss(dims=(16, 32, 48))
    return images, models.ensemble(*flat(maps[-1:]), dims=loss.dims, shares=loss.shares)


def attention():
    """Learners with attention masks over the second of the feature maps."""
    images, maps = stages()
    inputs = keras.Input(maps[1].shape[1:])
    trunk = keras.Model(inputs, layers.Flatten()(convolution(inputs, 64)))
    return images, models.ensemble(models.attention_branches(maps[1], trunk, learners=3), dims=THREE)


def contrastive():
    """The base of the cascade and of the attention ensemble."""
    return losses.ContrastiveLoss()


RUNS = {
    "one learner, contrastive": (single, contrastive),
    "cascade, contrastive": (cascade, lambda: losses.CascadeLoss(contrastive(), dims=THREE, shares=(0.5, 0.2))),
    "cascade, all pairs": (cascade, lambda: losses.CascadeLoss(contrastive(), dims=THREE, shares=(1.0, 1.0))),
    "attention, contrastive": (attention, lambda: losses.DivergenceLoss(contrastive(), dims=THREE)),
    "attention, no divergence": (attention, lambda: losses.DivergenceLoss(contrastive(), dims=THREE, weight=0.0)),
    "one learner, binomial deviance": (single, losses.BinomialDevianceLoss),
    "boosted, binomial deviance": (boosted, lambda: losses.BoostedLoss(dims=(16, 32, 48))),
}
TRIPLETS = {
    "triplet": lambda ids: losses.TripletLoss(margin=0.2),
    "hierarchical triplet": lambda ids: losses.HierarchicalTripletLoss(tfdml.layers.ClassTree(ids)),
    "PDDM": lambda ids: losses.PDDMLoss(metric=tfdml.layers.PositionDependentMetric(seed=0)),
}
NESTED = {
    "multi-similarity": losses.MultiSimilarityLoss,
    "nested multi-similarity": lambda: losses.MatryoshkaLoss(losses.MultiSimilarityLoss(), dims=DIMS),
}


def embedded(build, make_loss, seed, steps, train, validation):
    """Embeddings of the validation classes by a model after `steps` batches."""
    keras.utils.set_random_seed(seed)
    model = models.EmbeddingModel(*build())
    loss = make_loss()
    model.compile(keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(3e-3, max(steps, 1))), loss=loss)
    batches = tfdml.samplers.GroupSampler(classes_per_batch=16, examples_per_class=4, seed=seed).batches(train)
    trees = [layer for layer in getattr(loss, "layers", []) if isinstance(layer, tfdml.layers.ClassTree)]
    refresh = [tfdml.callbacks.RefreshCenters(train, centers=tree) for tree in trees]
    if steps:
        model.fit(batches, steps_per_epoch=steps // EPOCHS, epochs=EPOCHS, shuffle=False, verbose=0, callbacks=refresh)
    return model.predict(validation.images, batch_size=256, verbose=0)


def rows(options, train, validation):
    """The numbers of each run of ensembles."""
    about = {"steps": options.steps, "protocol": validation.protocol, **tfdml.environment()}
    about = {"protocol": validation.protocol, **tfdml.environment()}
    triplets = {name: (single, functools.partial(make, train.labels)) for name, make in TRIPLETS.items()}
    for name, run in ({UNTRAINED: RUNS["one learner, contrastive"]} | RUNS | triplets).items():
        steps = 0 if name == UNTRAINED else options.steps
        x = embedded(*run, options.seed, steps, train, validation)
        found = tfdml.metrics.retrieval(x, validation.labels)
        print(name, found["recall@1"], found["map@r"], flush=True)
        numbers = {"recall@1": found["recall@1"], "map@r": found["map@r"], "steps": steps}
        yield {"run": name, "seed": options.seed, **numbers, **about}


def compact_rows(options, train, validation):
    """The numbers of each loss by number of dimensions and precision."""
    about = {"steps": options.steps, "protocol": validation.protocol, **tfdml.environment()}
    for name, make_loss in NESTED.items():
        x = embedded(lambda: single(DIMS[-1]), make_loss, options.seed, options.steps, train, validation)
        for found in tfdml.metrics.quantized_retrieval(x, validation.labels, dims=DIMS):
            print(name, found["dim"], found["precision"], found["recall@1"], flush=True)
            kept = {key: found[key] for key in ("dim", "precision", "bytes", "recall@1", "map@r")}
            yield {"loss": name, "seed": options.seed, **kept, **about}


def table(rows):
    """Recall@1 and MAP@R of each run, as a Markdown table."""
    body = [[row["run"], *(f"{100 * row[key]:.1f}" for key in ("recall@1", "map@r"))] for row in rows]
    return runner.markdown(["run", "Recall@1", "MAP@R"], body, texts=(0,))


def compact_table(rows):
    """Recall@1 by loss, dimensions and precision, with the bytes of an embedding, as a Markdown table."""
    body = []
    for dim in DIMS:
        for precision in ("float32", "binary"):
            some = runner.where(rows, dim=dim, precision=precision)
            body.append([dim, precision, int(some[0]["bytes"]), *(f"{100 * row['recall@1']:.1f}" for row in some)])
    return runner.markdown(["dim", "precision", "bytes", *NESTED], body, texts=(1,))


def filled(file, make, text):
    """The text of a page with its table, which a function makes of the rows of a file."""
    kept = runner.read_rows(file)
    return pages.filled(text, {"table": make(kept)}, "studies/ensembles")


FILLED = {
    pages.ROOT / "docs" / "ensembles.md": functools.partial(filled, ROWS, table),
    pages.ROOT / "docs" / "compact.md": functools.partial(filled, COMPACT_ROWS, compact_table),
}


def main():
    """Train and write the rows."""
    options = runner.options_of(__doc__, seed=0, steps=STEPS)
    train, validation, _ = tfdml.datasets.glyphs(validation=True)
    runner.write_rows(COMPACT_ROWS, list(compact_rows(options, train, validation)))
    runner.write_rows(ROWS, list(rows(options, train, validation)))


if __name__ == "__main__":
    main()
