"""Few-shot training on glyphs: five seeds of recipes/few_shot.py, and the table of docs/few-shot.md.

    python -m studies.few_shot                # trains, measures the test classes, writes the rows

It also measures models of the zoo untouched, and three of them with trained last layers, which the recipe leaves out.
The learning rates of the recipe are the best of 0.001, 0.003 and 0.01 on validation classes, seed 0; those of the heads
were chosen on half of the validation classes, after training with the other half.
"""

import statistics
import time

import keras
import numpy as np

import tfdml
from recipes import few_shot as recipe
from studies import pages, runner

ROWS, GAINS = pages.RESULTS / "few_shot.csv", pages.RESULTS / "few_shot_gains.csv"
PAGE = pages.ROOT / "docs" / "few-shot.md"
MARK = "<!-- table of studies/few_shot -->"
SEEDS = range(5)
SETTINGS = recipe.DATASETS["glyphs"]
ZOO = ("glyphs-multi-similarity", "glyphs-nt-xent", "glyphs-semi-hard-triplet")  # the best first
BEST, THREE, TUNED = "zoo, best model", "zoo, three models", "zoo, tuned heads"
COMPARED = ((THREE, BEST), (TUNED, THREE), (TUNED, BEST))


def runs(train, validation, test):
    """Kind, seed, embeddings of the test classes and processor seconds of each training."""
    yield "pixels", 0, recipe.pixels(test), 0.0
    for kind, rate in zip(recipe.DISTANCES, SETTINGS.rates, strict=True):
        for seed in SEEDS:
            begin = time.process_time()
            network = recipe.trained(kind, rate, train, SETTINGS, seed)
            seconds = time.process_time() - begin
            yield kind, seed, tfdml.models.embed(network, recipe.small(test)), seconds
    yield from zoo_runs(train, validation, test)


def zoo_runs(train, validation, test):
    """The best model of the zoo, three models side by side, and these after the training of their last layers."""
    trunks, layers = zip(*map(split, ZOO), strict=True)
    features = embedded_by(trunks, test)
    both = np.concatenate([embedded_by(trunks, each) for each in (train, validation)])
    labels = np.concatenate([train.labels, validation.labels + len(train.class_names)])
    untouched = tfdml.models.embed(heads(layers), features)
    yield BEST, 0, untouched[:, : layers[0].units], 0.0
    yield THREE, 0, untouched, 0.0
    for seed in SEEDS:
        begin = time.process_time()
        model = tuned(heads(layers), both, labels, seed)
        seconds = time.process_time() - begin
        yield TUNED, seed, tfdml.models.embed(model, features), seconds


def split(name):
    """A model of the zoo without its last dense layer, and this layer."""
    model = tfdml.zoo.load(name)
    last = [layer for layer in model.layers if isinstance(layer, keras.layers.Dense)][-1]
    return keras.Model(model.inputs, last.input), last


def embedded_by(trunks, data):
    """The features of all trunks, side by side."""
    return np.concatenate([tfdml.models.embed(trunk, data) for trunk in trunks], axis=1)


def heads(layers):
    """A model of copies of the last layers, from features side by side to unit vectors side by side."""
    sizes = [layer.input.shape[1] for layer in layers]
    features, outputs = keras.Input((sum(sizes),)), []
    for number, layer in enumerate(layers):
        start = sum(sizes[:number])
        dense = keras.layers.Dense(layer.units)
        outputs.append(keras.layers.UnitNormalization()(dense(features[:, start : start + sizes[number]])))
        dense.set_weights(layer.get_weights())
    return tfdml.models.EmbeddingModel(features, keras.layers.Concatenate()(outputs))


def tuned(model, features, labels, seed):
    """The model after 150 batches with NT-Xent."""
    keras.utils.set_random_seed(seed)
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=32, examples_per_class=4, seed=seed)
    rate = keras.optimizers.schedules.CosineDecay(3e-4, 150)
    model.compile(keras.optimizers.Adam(rate), loss=tfdml.losses.NTXentLoss())
    model.fit(sampler.batches(features, labels), steps_per_epoch=150, shuffle=False, verbose=2)
    return model


def row(kind, seed, embeddings, seconds, test):
    """One line of the results."""
    values = recipe.scores(embeddings, test, SETTINGS, recipe.DISTANCES.get(kind, "cosine"))
    numbers = {name: value["accuracy"] for name, value in values.items()}
    return {"kind": kind, "seed": seed, **numbers, "seconds": round(seconds, 1)}


def gains(measured, test):
    """Paired differences of 100-way 1-shot accuracy between models of the zoo, on the same 600 episodes."""
    options = {"ways": 100, "shots": 1, "queries": 4, "groups": test.designs, "metric": "cosine", "per_episode": True}
    accuracies = {
        (kind, seed): tfdml.metrics.few_shot(embeddings, test.labels, **options)["accuracy"]
        for kind, seed, embeddings, _ in measured
        if kind in (BEST, THREE, TUNED)
    }
    for kind, against in COMPARED:
        for seed in sorted(seed for name, seed in accuracies if name == kind):
            difference = accuracies[kind, seed] - accuracies[against, 0]
            interval = 1.96 * difference.std(ddof=1) / len(difference) ** 0.5
            yield {"kind": kind, "against": against, "seed": seed, "gain": difference.mean(), "interval": interval}


def table(results):
    """Mean and 95% interval over seeds, as a Markdown table."""
    body = []
    for kind in dict.fromkeys(result["kind"] for result in results):
        chosen = runner.where(results, kind=kind)
        seconds = statistics.mean(result["seconds"] for result in chosen)
        cells = [pages.plus_minus([row[name] for row in chosen]) for name in SETTINGS.tasks]
        body.append([kind, len(chosen), *cells, f"{seconds:.0f}"])
    head = ["", "seeds", *SETTINGS.tasks, "seconds"]
    return runner.markdown(head, body, texts=(0,))


def filled(text):
    """The text of the page with its table."""
    return pages.replaced(text, MARK, table(runner.read_rows(ROWS)))


def main():
    """Train and write the rows."""
    parts = [recipe.splittable(each) for each in tfdml.datasets.glyphs(validation=True)]
    measured = list(runs(*parts))
    runner.write_rows(ROWS, [row(*run, parts[-1]) for run in measured])
    runner.write_rows(GAINS, list(gains(measured, parts[-1])))


if __name__ == "__main__":
    main()
