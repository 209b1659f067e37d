"""The table of docs/fixed-features.md: linear metrics on the bundled sets of scikit-learn.

    python -m studies.fixed_features                 # half a minute of one core

Five splits into 70% and 30%, stratified, of a seed each. Features are centered and divided by their deviation on the
training part; a metric is learned on the training part, and 3 nearest neighbors of it classify the test part. The rate
and the number of steps were chosen on splits of the training parts of two other seeds, LMNN then with the target
neighbors of the features: `python -m studies.fixed_features --choose`.
"""

import argparse
import functools
import itertools
import time

import keras
import numpy as np
from sklearn import datasets, decomposition, model_selection, neighbors, preprocessing

import tfdml
from studies import pages, runner

ROWS = pages.RESULTS / "fixed_features.csv"
PAGE = pages.ROOT / "docs" / "fixed-features.md"
SETS = {"wine": datasets.load_wine, "breast cancer": datasets.load_breast_cancer}
METRICS = ("raw", "euclidean", "whitened", "NCA", "Xing", "LMNN")
SEEDS = range(5)
LOSSES = {"Xing": tfdml.losses.XingLoss, "LMNN": tfdml.losses.LMNNLoss}
STEPS, RATES = 30, {"Xing": 0.03, "LMNN": 0.1}


def split(name, seed):
    """Features and labels of the two parts: `(train, train_labels, test, test_labels)`."""
    x, y = SETS[name](return_X_y=True)
    train, test, *labels = model_selection.train_test_split(x, y, test_size=0.3, stratify=y, random_state=seed)
    return train, labels[0], test, labels[1]


def standardized(train, test):
    """Features of mean 0 and variance 1 / dim on the training part, so that squared distances are 2 on average."""
    scaler = preprocessing.StandardScaler().fit(train)
    return [(scaler.transform(x) / np.sqrt(x.shape[1])).astype("float32") for x in (train, test)]


@functools.cache
def compiled(name, rows, features, steps, rate):
    """A model of a metric, compiled for all rows at once, and the start of its variables: one for all splits."""
    inputs = keras.Input((features,))
    model = tfdml.models.EmbeddingModel(inputs, tfdml.layers.Mahalanobis()(inputs))
    rate = keras.optimizers.schedules.CosineDecay(rate, steps)
    model.compile(keras.optimizers.Adam(rate), loss=LOSSES[name]())
    model.optimizer.build(model.trainable_variables)
    variables = [*model.variables, *model.optimizer.variables]
    return model, variables, [keras.ops.convert_to_numpy(variable) for variable in variables]


def learned(name, x, y, *, steps, rate):
    """The function that maps features by a metric, trained on all rows at once."""
    model, variables, start = compiled(name, *x.shape, steps, rate)
    for variable, value in zip(variables, start, strict=True):
        variable.assign(value)
    for _ in range(steps):
        model.train_on_batch(x, y)
    projection = keras.ops.convert_to_numpy(model.trainable_variables[0])
    return lambda features: features @ projection


def metric(name, x, y, *, steps=STEPS, rate=None):
    """The function that maps features by a metric of this name."""
    if name in ("raw", "euclidean"):
        return lambda features: features
    if name == "whitened":
        return decomposition.PCA(whiten=True).fit(x).transform
    if name == "NCA":
        return neighbors.NeighborhoodComponentsAnalysis(random_state=0, max_iter=50).fit(x, y).transform
    return learned(name, x, y, steps=steps, rate=rate or RATES[name])


def error(train, train_labels, test, test_labels, transform):
    """Share of test examples that 3 nearest neighbors classify wrongly."""
    classifier = neighbors.KNeighborsClassifier(3).fit(transform(train), train_labels)
    return 1 - classifier.score(transform(test), test_labels)


def row(data, name, seed):
    """One metric on one split."""
    train, train_labels, test, test_labels = split(data, seed)
    start = time.process_time()
    x, z = (train, test) if name == "raw" else standardized(train, test)
    transform = metric(name, x, train_labels)
    return {
        "data": data,
        "metric": name,
        "seed": seed,
        "error": error(x, train_labels, z, test_labels, transform),
        "seconds": round(time.process_time() - start, 2),
        "protocol": f"sklearn {data}, 70/30 stratified, 3 neighbors",
        **tfdml.environment("scikit-learn"),
    }


def choices():
    """The error on halves of training parts, of two seeds that the table does not have."""
    for name, rate, steps in itertools.product(("Xing", "LMNN"), (0.01, 0.03, 0.1), (30, 60)):
        errors = []
        for data, seed in itertools.product(("wine", "breast cancer"), (100, 101)):
            train, labels, _, _ = split(data, seed)
            train, test, y, z = model_selection.train_test_split(
                train, labels, test_size=0.4, stratify=labels, random_state=seed
            )
            train, test = standardized(train, test)
            errors.append(error(train, y, test, z, metric(name, train, y, steps=steps, rate=rate)))
        print(name, rate, steps, np.round(100 * np.reshape(errors, (2, 2)).mean(axis=1), 2), flush=True)


def table(rows):
    """Mean error in percent with its interval, and the paired difference from the euclidean distance."""
    body, sets = [], [data for data in SETS if runner.where(rows, data=data)]
    for name in METRICS:
        cells = []
        for data in sets:
            errors, baseline = (errors_of(rows, data, each) for each in (name, "euclidean"))
            cells.append(pages.plus_minus(errors, unit=1))
            cells.append("" if name == "euclidean" else signed(errors - baseline))
        body.append([name, *cells])
    return runner.markdown(["metric", *itertools.chain(*([data, "difference"] for data in sets))], body, texts=(0,))


def errors_of(rows, data, name):
    """The errors of a metric on a set in percent, by seed."""
    return 100 * np.array([row["error"] for row in runner.where(rows, data=data, metric=name)])


def signed(differences):
    """Mean and interval of differences as text, with a sign."""
    sign = "+" if differences.mean() >= 0 else ""
    return f"{sign}{pages.plus_minus(differences, unit=1)}".replace("-", "\N{MINUS SIGN}")


def main():
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--choose", action="store_true", help="print errors on splits of training parts")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), help="all of them by default")
    options = parser.parse_args()
    if options.choose:
        choices()
        return
    kept = runner.read_rows(ROWS) if ROWS.exists() else []
    others = [each for each in kept if each["data"] not in options.sets]
    runner.write_rows(ROWS, others + [row(*run) for run in itertools.product(options.sets, METRICS, SEEDS)])


if __name__ == "__main__":
    main()
