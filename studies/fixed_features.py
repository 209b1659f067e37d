"""The table of docs/fixed-features.md: linear metrics on the bundled sets of scikit-learn.

    python -m studies.fixed_features                 # four minutes of one core
    python -m studies.fixed_features --only-table    # from the kept rows

Five splits into 70% and 30%, stratified, of a seed each. Features are centered and divided by their deviation on
the training part, pixels by a common one; a metric is learned on the training part, and 3 nearest neighbors of it
classify the test part. Settings were chosen on
splits of the training parts of two other seeds: `python -m studies.fixed_features --choose`.
"""

import argparse
import itertools
import time

import keras
import numpy as np
from sklearn import datasets, decomposition, model_selection, neighbors, preprocessing

import tfdml
from studies import pages, runner

ROWS = pages.RESULTS / "fixed_features.csv"
PAGE = pages.ROOT / "docs" / "fixed-features.md"
SETS = {"wine": datasets.load_wine, "breast cancer": datasets.load_breast_cancer, "digits": datasets.load_digits}
METRICS = ("raw", "euclidean", "whitened", "NCA", "Xing", "LMNN")
SEEDS = range(5)
STEPS, RATES = 30, {"Xing": 0.03, "LMNN": 0.1}


def split(name, seed):
    """Features and labels of the two parts: `(train, train_labels, test, test_labels)`."""
    x, y = SETS[name](return_X_y=True)
    train, test, *labels = model_selection.train_test_split(x, y, test_size=0.3, stratify=y, random_state=seed)
    return train, labels[0], test, labels[1]


def standardized(data, train, test):
    """Features with squared distances of 2 on average on the training part, by a scale for each feature.

    Pixels have one unit, and one scale for all of them.
    """
    varies = train.std(axis=0) > 0
    scaler = preprocessing.StandardScaler(with_std=data != "digits").fit(train[:, varies])
    size = np.sqrt(np.var(scaler.transform(train[:, varies]), axis=0).sum())
    return [(scaler.transform(x[:, varies]) / size).astype("float32") for x in (train, test)]


def learned(x, y, *, loss, labels, steps, rate):
    """The function that maps features by a metric, trained on all rows at once."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((x.shape[1],))
    layer = tfdml.layers.Mahalanobis()
    model = tfdml.models.EmbeddingModel(inputs, layer(inputs))
    model.compile(
        keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(rate, steps)), loss=loss, run_eagerly=True
    )
    model.fit(x, labels, batch_size=len(x), epochs=steps, shuffle=False, verbose=0)
    return lambda features: features @ keras.ops.convert_to_numpy(layer.weight)


def metric(name, x, y, *, steps=STEPS, rate=None):
    """The function that maps features by a metric of this name."""
    if name in ("raw", "euclidean"):
        return lambda features: features
    if name == "whitened":
        return decomposition.PCA(whiten=True).fit(x).transform
    if name == "NCA":
        return neighbors.NeighborhoodComponentsAnalysis(random_state=0, max_iter=50).fit(x, y).transform
    rate = rate or RATES[name]
    if name == "Xing":
        return learned(x, y, loss=tfdml.losses.XingLoss(), labels=y, steps=steps, rate=rate)
    targets = tfdml.miners.TargetNeighbors.nearest(x, y, k=3)
    rows = np.stack([y, np.arange(len(y))], axis=1)
    return learned(x, y, loss=tfdml.losses.LMNNLoss(miner=targets), labels=rows, steps=steps, rate=rate)


def error(train, train_labels, test, test_labels, transform):
    """Share of test examples that 3 nearest neighbors classify wrongly."""
    classifier = neighbors.KNeighborsClassifier(3).fit(transform(train), train_labels)
    return 1 - classifier.score(transform(test), test_labels)


def row(data, name, seed):
    """One metric on one split."""
    train, train_labels, test, test_labels = split(data, seed)
    start = time.process_time()
    x, z = (train, test) if name == "raw" else standardized(data, train, test)
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
            train, test = standardized(data, train, test)
            errors.append(error(train, y, test, z, metric(name, train, y, steps=steps, rate=rate)))
        print(name, rate, steps, np.round(100 * np.reshape(errors, (2, 2)).mean(axis=1), 2), flush=True)


def table(rows):
    """Mean error in percent with its interval, and the paired difference from the euclidean distance."""
    body = []
    for name in METRICS:
        cells = []
        for data in SETS:
            errors, baseline = (errors_of(rows, data, each) for each in (name, "euclidean"))
            cells.append(f"{errors.mean():.1f} ± {half_width(errors):.1f}")
            cells.append("" if name == "euclidean" else signed(errors - baseline))
        body.append([name, *cells])
    return runner.markdown(
        ["metric", *itertools.chain(*([data, "difference"] for data in SETS))], body, ["---", *["---:"] * 6]
    )


def errors_of(rows, data, name):
    """The errors of a metric on a set in percent, by seed."""
    return 100 * np.array([row["error"] for row in runner.where(rows, data=data, metric=name)])


def half_width(values):
    """Half the width of the 95% interval of the mean."""
    low, high = tfdml.metrics.seed_interval(values)
    return (high - low) / 2


def signed(differences):
    """Mean and interval of differences as text, with a sign."""
    return f"{differences.mean():+.1f} ± {half_width(differences):.1f}".replace("-", "\N{MINUS SIGN}")


def filled(text, rows):
    """The page with its table rebuilt."""
    return pages.filled(text, {"table": table(rows)}, "studies/fixed_features", rows)


def main():
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only-table", action="store_true", help="train nothing")
    parser.add_argument("--choose", action="store_true", help="print errors on splits of training parts")
    options = parser.parse_args()
    if options.choose:
        choices()
        return
    if not options.only_table:
        runner.write_rows(ROWS, [row(*run) for run in itertools.product(SETS, METRICS, SEEDS)])
    PAGE.write_text(filled(PAGE.read_text(), runner.read_rows(ROWS)))


if __name__ == "__main__":
    main()
