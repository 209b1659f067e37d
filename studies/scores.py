"""What is a probability of `tfdml.metrics.ScoreCalibration` worth on classes that are new?

    python -m studies.scores            # ten minutes of one core
    python -m studies.scores --quick    # a smoke test on clusters of noise, which writes nothing

The classes that a model of the zoo was not trained on are split into two halves, five times: one half calibrates, and
the other one is measured. A query is searched among the other images of its half; where it has no match, its class is
left out. `ece` is the expected calibration error in ten bins at the true `prior`, the share of queries with a match;
`of_truth` is that of draws from the probabilities themselves, which is above 0 by chance alone. `ece_high` and
`ece_low` are those where the odds of the prior that is stated are ten times too high or too low. `score_0.9` is the
lowest one from which a match is right in 90 of 100 cases by its probability, `right_0.9` the share of right matches
from it on, and `found_0.9` the share of the right ones that it keeps; there is none where no score reaches it. `kept`
is the share of new classes that keep a false-match rate of 10% at a threshold with a guarantee of 95%.
"""

import itertools

import numpy as np

import tfdml
from recipes import things
from studies import pages, runner

ROWS = pages.RESULTS / "scores.csv"
PAGE, FIGURE = pages.ROOT / "docs" / "scores.md", pages.IMAGES / "scores.png"
SEEDS, PRIORS = range(5), (1.0, 0.5, 0.1)
RATE, GUARANTEE, PROMISED, RIGHT = 0.1, 0.95, 0.1, (0.9, 0.99)
SETS = {
    "glyphs": ("glyphs-multi-similarity", lambda: [tfdml.datasets.glyphs()[1]]),
    "photo patches": ("photo-patches-imagenet", lambda: tfdml.datasets.photo_patches(splits=("test",))),
    "things": ("things", lambda: things.things(("validation", "test"))),
}


def embedded(name):
    """Embeddings and labels of the classes of a set that a model of the zoo was not trained on, by that model."""
    entry, load = SETS[name]
    parts = list(load())
    model = tfdml.zoo.load(entry)
    labels = [part.labels + 10_000 * number for number, part in enumerate(parts)]  # parts number their own
    return np.concatenate([tfdml.models.embed(model, part) for part in parts]), np.concatenate(labels)


def clusters(classes=60, each=8):
    """Embeddings and labels of a smoke test."""
    rng, labels = np.random.default_rng(0), np.repeat(np.arange(classes), each)
    return rng.normal(size=(classes, 8))[labels] + 0.6 * rng.normal(size=(len(labels), 8)), labels


def halves(labels, seed):
    """The rows of both halves of the classes."""
    ids = np.random.default_rng(seed).permutation(np.unique(labels))
    return [np.flatnonzero(np.isin(labels, part)) for part in np.array_split(ids, 2)]


def rows_of(name, embeddings, labels, seed):
    """A row for each prior: the errors of probabilities, and what thresholds are worth, on the second half."""
    first, second = halves(labels, seed)
    calibration = tfdml.metrics.ScoreCalibration.fit_search(embeddings[first], labels[first])
    scores, same, classes = tfdml.metrics.search_outcomes(embeddings[first], labels[first], prior=PROMISED)
    try:
        promise = {"classes": classes, "far": RATE, "guarantee": GUARANTEE}
        threshold = tfdml.metrics.calibrated_threshold(scores, same, **promise)
    except ValueError:  # too few classes cannot promise
        threshold = None
    found = []
    for prior in PRIORS:
        outcomes = tfdml.metrics.search_outcomes(embeddings[second], labels[second], prior=prior)
        row = {"set": name, "seed": seed, "prior": prior, "classes": len(np.unique(labels[second]))}
        found.append(row | measured(calibration, outcomes, prior) | kept(threshold, outcomes, prior))
    return found


def measured(calibration, outcomes, prior):
    """The errors of the probabilities of outcomes, and of a match that is right in 99 of 100 cases."""
    scores, same, classes = outcomes
    at = calibration.at(prior)
    p = at(scores)
    error = lambda values, truth: tfdml.metrics.reliability(values, truth, classes=classes).ece  # noqa: E731
    rng = np.random.default_rng(0)
    row = {
        "searches": len(p),
        "ece": error(p, same),
        "of_truth": np.mean([error(p, rng.random(len(p)) < p) for _ in range(20)]),
    }
    row["brier"] = tfdml.metrics.reliability(p, same).brier
    odds = prior / max(1 - prior, 1e-12)
    for word, factor in (("high", 10), ("low", 0.1)):
        stated = min(1.0, odds * factor / (1 + odds * factor))
        row[f"ece_{word}"] = error(calibration.at(stated)(scores), same) if prior < 1 else None
    for share in RIGHT:
        try:
            score = at.threshold(share)
        except ValueError:  # no score reaches it
            continue
        taken = scores >= score
        row |= {f"score_{share:g}": score, f"found_{share:g}": taken[same].mean()}
        row[f"right_{share:g}"] = same[taken].mean() if taken.any() else None
    return row


def kept(threshold, outcomes, prior):
    """The share of classes that keep the rate that was promised."""
    if threshold is None or prior != PROMISED:
        return {"kept": None}
    scores, same, classes = outcomes
    return {"kept": tfdml.metrics.threshold_rates(threshold, scores, same, classes=classes, far=RATE)["kept"]}


def measure():
    """Rows of all sets and seeds."""
    for name, (entry, _) in SETS.items():
        data = embedded(name)
        for seed in SEEDS:
            about = {"model": entry, **tfdml.environment("scikit-learn")}
            yield from ({**row, **about} for row in rows_of(name, *data, seed))


def shown(rows, key, digits=3, unit=1):
    """The mean of a column with half of its interval over seeds; nothing where there is no value."""
    values = [row[key] for row in rows if isinstance(row.get(key), float)]
    return pages.plus_minus(values, digits, unit) if values else ""


def tables(rows):
    """A line for each set and prior: errors, what is needed to be right in 99 of 100 matches, and a promise."""
    body = []
    for name, prior in itertools.product(SETS, PRIORS):
        found = runner.where(rows, set=name, prior=prior)
        errors = [shown(found, key) for key in ("ece", "of_truth", "ece_high", "ece_low", "brier")]
        needed = [shown(found, "score_0.9", 2), *(shown(found, f"{key}_0.9", 1, 100) for key in ("right", "found"))]
        most = shown(found, "score_0.99", 2)
        few = "too few classes" if prior == PROMISED else ""
        promise = shown(found, "kept", 1, 100) or few
        body.append([name, f"{prior:g}", *errors, needed[0] or "none", *needed[1:], most or "none", promise])
    heads = ["set", "prior", "error", "by chance", "prior too high", "too low", "Brier score"]
    return {"errors": runner.markdown([*heads, "90%", "right, %", "found, %", "99%", "keep it, %"], body)}


def draw(path):
    """The reliability diagram of the glyphs, first seed, where half of the queries have a match."""
    embeddings, labels = embedded("glyphs")
    first, second = halves(labels, 0)
    calibration = tfdml.metrics.ScoreCalibration.fit_search(embeddings[first], labels[first])
    scores, same, classes = tfdml.metrics.search_outcomes(embeddings[second], labels[second])
    tfdml.visualize.reliability_diagram(calibration(scores), same, classes=classes).savefig(path, dpi=90)


def main(arguments=None):
    """Measure all sets; clusters with `--quick`, which writes nothing."""
    if runner.options_of(__doc__, arguments).quick:
        return print(rows_of("clusters", *clusters(), 0))
    draw(FIGURE)
    return runner.write_rows(ROWS, list(measure()))


if __name__ == "__main__":
    main()
