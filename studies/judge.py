"""Are the intervals and tests of `tfdml.evaluation.compare` right, and how many classes show a point?

    python -m studies.judge                  # eight minutes of one core; resumes
    python -m studies.judge --spread         # how scores vary, measured again with models of the zoo: two minutes
    python -m studies.judge --quick          # a smoke test on a few sets

A set has classes, models, and a value per query and model: Recall@1, which is 0 or 1, or MAP@R. A query of a class has
a latent score for each model,

    z = sqrt(A) class + sqrt(B) class of this model + sqrt(Q) query + sqrt(E) query of this model,

of standard normal variables. Recall@1 is 1 where z + h > 0, and MAP@R is Phi((z + h) / sqrt(R)), with A + B + Q + E + R
= 1 and R = 0 for Recall@1. Both have the mean Phi(h), so the truth is known. The shares A to R are those whose standard
deviations are measured with the models of the zoo on the test glyphs. Long-tailed sizes are log-uniform from 2 to 100,
the imbalance of the long-tailed CIFAR of Cui et al., Class-Balanced Loss, CVPR 2019; even ones are 10.
"""

import functools
import itertools
from typing import NamedTuple

import numpy as np
from scipy import optimize, special

import tfdml
from studies import pages, runner

MODELS = tuple(
    f"glyphs-{name}" for name in ("nt-xent", "multi-similarity", "semi-hard-triplet", "contrastive", "small")
)
SCORES = {"recall@1": "Recall@1", "map@r": "MAP@R"}
SIZES = ("even", "long tail")
CLASSES = (5, 10, 20, 50, 100, 200, 500)
FAMILIES = (2, 5, 20, 92)
DIFFERENCES = (0.005, 0.01, 0.02, 0.05)
COVERED = 0.02  # the difference whose intervals are counted
SETS = 1000
LEVEL = 0.05
SPREAD, ROWS = pages.RESULTS / "judge_spread.csv", pages.RESULTS / "judge.csv"
PAGE = pages.ROOT / "docs" / "compare.md"
# Interval to its name in the table; the first ones are those that `compare` prints.
OF_MEANS = {"logit": "logit t", "t": "t", "bootstrap": "percentile bootstrap"}
OF_DIFFERENCES = {"kish": "t", "satterthwaite": "t, fewer degrees of freedom", "bootstrap": "percentile bootstrap"}


def spread_rows():
    """One row per model and score, and one per pair of models: mean, and deviations between and within classes."""
    _, test = tfdml.datasets.glyphs()
    values = {name: tfdml.models.embed(tfdml.zoo.load(name), test) for name in MODELS}
    values = {name: tfdml.metrics.retrieval(x, test.labels, k=1, per_query=True) for name, x in values.items()}
    about = {"protocol": test.protocol, **tfdml.environment()}
    rows = []
    for score in SCORES:
        singles = [((name, ""), values[name][score]) for name in MODELS]
        pairs = [(names, np.subtract(*(values[name][score] for name in names))) for names in _pairs(MODELS)]
        rows += [
            {"score": score, "model": one, "other": other, **moments(x, test.labels), **about}
            for (one, other), x in singles + pairs
        ]
    return rows


def _pairs(names):
    return itertools.combinations(names, 2)


def moments(values, labels):
    """The mean, and standard deviations of class means, corrected for their queries, and of queries in a class."""
    labels, values = labels[~np.isnan(values)], values[~np.isnan(values)]
    counts = np.bincount(labels)[np.unique(labels)]
    means = np.bincount(labels, values)[np.unique(labels)] / counts
    squares = np.bincount(labels, values**2)[np.unique(labels)] / counts
    within = (squares - means**2) * counts / (counts - 1)
    between = means.var(ddof=1) - (within / counts).mean()
    return {"mean": values.mean(), "between": max(between, 0) ** 0.5, "within": within.mean() ** 0.5}


class Latent(NamedTuple):
    """How the values of a score vary: their mean, and the shares A, B, Q, E and R of the latent variance."""

    mean: float
    classes: float
    classes_of_model: float
    queries: float
    queries_of_model: float
    rest: float


@functools.cache
def latent(score):
    """The shares whose values vary as the models of the zoo do, the means over models and over pairs of them."""
    rows = runner.where(runner.read_rows(SPREAD), score=score)
    singles, pairs = ([row for row in rows if bool(row["other"]) == is_pair] for is_pair in (False, True))
    mean = np.mean([row["mean"] for row in singles])
    between, within = (np.mean([row[name] ** 2 for row in singles]) for name in ("between", "within"))
    apart, scattered = (np.mean([row[name] ** 2 for row in pairs]) for name in ("between", "within"))
    return latent_of(mean, between, within, apart, scattered, is_binary=score == "recall@1")


def latent_of(mean, between, within, apart, scattered, *, is_binary):
    """The shares of these variances of values, and of differences of two models, between and within classes."""
    both = _share(mean, between)
    classes = _share(mean, between - apart / 2)
    total = mean * (1 - mean) if is_binary else between + within
    queries = _share(mean, total - (apart + scattered) / 2) - classes
    varied = 1.0 if is_binary else _share(mean, total)
    return Latent(mean, classes, both - classes, queries, varied - both - queries, 1 - varied)


def _share(mean, covariance):
    """The latent correlation of two values with this covariance, whose means are equal."""
    return optimize.brentq(lambda share: covariance_of(mean, share) - covariance, 0, 1 - 1e-9)


def covariance_of(mean, share):
    """The covariance of two values whose latent scores have this correlation."""
    h = special.ndtri(mean)
    return mean - 2 * special.owens_t(h, np.sqrt((1 - share) / (1 + share))) - mean**2


def draw_sizes(rng, classes, kind):
    """Numbers of queries of the classes of a set."""
    return np.full(classes, 10) if kind == "even" else np.floor(2 * 50 ** rng.random(classes)).astype(int)


def draw_sums(rng, sizes, shares, means):
    """Sums of the values of each class for models of these true means: `(classes, models)`."""
    deviations = np.sqrt(np.array(shares[1:]), dtype=np.float32)
    normal = functools.partial(rng.standard_normal, dtype=np.float32)
    classes, queries, models = len(sizes), sizes.sum(), len(means)
    effects = deviations[0] * normal((classes, 1)) + deviations[1] * normal((classes, models))
    z = deviations[3] * normal((queries, models))
    z += np.repeat(effects + special.ndtri(means).astype(np.float32), sizes, axis=0)
    z += deviations[2] * normal((queries, 1))
    values = z > 0 if shares.rest == 0 else special.ndtr(z / deviations[4], out=z)
    return np.add.reduceat(values, np.cumsum(sizes) - sizes, axis=0, dtype=np.float32)


class Estimates(NamedTuple):
    """Means and their standard errors `(sets,)`, with two degrees of freedom; see `compare`'s intervals.py."""

    mean: np.ndarray
    error: np.ndarray
    kish: np.ndarray
    satterthwaite: np.ndarray


def estimates(sums, sizes):
    """The `Estimates` of class sums and numbers of queries, `(sets, classes)` each."""
    total = sizes.sum(axis=1, keepdims=True)
    shares, mean = sizes / total, sums.sum(axis=1, keepdims=True) / total
    squares = (shares**2).sum(axis=1, keepdims=True)
    residuals = (sums - mean * sizes) / total
    error = np.sqrt((residuals**2 / (1 - 2 * shares + squares)).sum(axis=1))
    kish, satterthwaite = 1 / squares[:, 0] - 1, squares[:, 0] ** 2 / (shares**4).sum(axis=1) - 1
    return Estimates(mean[:, 0], error, np.maximum(kish, 1), np.maximum(satterthwaite, 1))


def intervals_of_means(sums, sizes):
    """Candidates for the interval of a mean: bounds `(2, sets)` by name."""
    found = estimates(sums, sizes)
    half = special.stdtrit(found.satterthwaite, 0.975) * found.error
    classes = sizes.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        center, logit_half = special.logit(found.mean), half / (found.mean * (1 - found.mean))
        logit = special.expit([center - logit_half, center + logit_half])
    sure = 0.025 ** (1 / classes)
    logit = np.where(found.mean >= 1, [[sure], [1]], np.where(found.mean <= 0, [[0], [1 - sure]], logit))
    return {"logit": logit, "t": _around(found.mean, half), "bootstrap": bootstrap(sums, sizes)}


def intervals_of_differences(sums, sizes):
    """Candidates for the interval of a paired difference: bounds `(2, sets)` by name."""
    found = estimates(sums, sizes)
    degrees = {"kish": found.kish, "satterthwaite": found.satterthwaite}
    bounds = {name: _around(found.mean, special.stdtrit(n, 0.975) * found.error) for name, n in degrees.items()}
    return bounds | {"bootstrap": bootstrap(sums, sizes)}


def _around(mean, half):
    return np.stack([mean - half, mean + half])


def bootstrap(sums, sizes, samples=1000):
    """The bounds of a percentile bootstrap over classes, of all sets at once."""
    classes = sums.shape[1]
    drawn = np.random.default_rng(0).integers(classes, size=(samples, classes), dtype=np.int32)
    times = np.apply_along_axis(np.bincount, 1, drawn, minlength=classes).astype(float)
    return np.quantile((times @ sums.T) / (times @ sizes.T), [0.025, 0.975], axis=0)


def p_of_differences(sums, sizes):
    """The p of `compare` for paired differences: `(sets,)`."""
    found = estimates(sums, sizes)
    t = found.mean / np.maximum(found.error, 1e-12)
    return np.maximum(2 * special.stdtr(found.kish, -np.abs(t)), 2.0 ** (1 - sums.shape[1]))


def least_p(sums, sizes):
    """The smallest p of `compare` over all pairs of models of one set, before Holm; `sums` are `(classes, models)`."""
    shares, mean = sizes / sizes.sum(), sums.sum(axis=0) / sizes.sum()
    squares = (shares**2).sum()
    residuals = (sums - mean * sizes[:, None]) / sizes.sum() / np.sqrt(1 - 2 * shares + squares)[:, None]
    products = residuals.T @ residuals
    variance = np.add.outer(np.diag(products), np.diag(products)) - 2 * products
    t = np.abs(np.subtract.outer(mean, mean)) / np.sqrt(np.maximum(variance, 1e-24))
    return max(2 * special.stdtr(max(1 / squares - 1, 1), -t.max()), 2.0 ** (1 - len(sizes)))


def measured(score, kind, classes, sets=SETS, families=FAMILIES):
    """The row of a score, a kind of class sizes and a number of classes."""
    rng = np.random.default_rng([classes, *map(ord, score + kind)])
    shares = latent(score)
    sizes = np.stack([draw_sizes(rng, classes, kind) for _ in range(sets)])
    means = shares.mean - np.array([0, *DIFFERENCES])
    sums = np.stack([draw_sums(rng, each, shares, means) for each in sizes]).astype(float)
    differences = sums[:, :, :1] - sums[:, :, 1:]
    covered = differences[:, :, DIFFERENCES.index(COVERED)]
    row = {"score": score, "sizes": kind, "classes": classes, "sets": sets, "mean": float(shares.mean)}
    of_means, of_differences = intervals_of_means(sums[:, :, 0], sizes), intervals_of_differences(covered, sizes)
    row |= {f"mean {name}": _coverage(bounds, shares.mean) for name, bounds in of_means.items()}
    row |= {f"difference {name}": _coverage(bounds, COVERED) for name, bounds in of_differences.items()}
    for index, difference in enumerate(DIFFERENCES):
        row[f"power {difference}"] = power(differences[:, :, index], sizes)
    found = estimates(covered, sizes)
    smallest = (special.stdtrit(found.kish, 1 - LEVEL / 2) + special.stdtrit(found.kish, 0.8)) * found.error
    row["smallest"] = float(smallest.mean())
    row["power smallest"] = ""
    if row["smallest"] < shares.mean:
        means = shares.mean - np.array([0, row["smallest"]])
        sums = np.stack([draw_sums(rng, each, shares, means) for each in sizes]).astype(float)
        row["power smallest"] = power(sums[:, :, 0] - sums[:, :, 1], sizes)
    least = [least_of_families(rng, each, shares, families) for each in sizes]
    for models, p in zip(families, np.transpose(least), strict=True):
        row[f"false {models}"] = float(np.mean(p * models * (models - 1) / 2 <= LEVEL))
    return row | tfdml.environment()


def least_of_families(rng, sizes, shares, families):
    """The smallest p of one set for the first models of each number, all equal in truth."""
    sums = draw_sums(rng, sizes, shares, np.full(families[-1], shares.mean)).astype(float)
    return [least_p(sums[:, :models], sizes) for models in families]


def _coverage(bounds, truth):
    return float(np.mean((bounds[0] <= truth) & (truth <= bounds[1])))


def power(differences, sizes):
    """The share of the sets in which the first model is called better."""
    is_positive = estimates(differences, sizes).mean > 0
    return float(np.mean((p_of_differences(differences, sizes) <= LEVEL) & is_positive))


def tables(rows):
    """Coverage and power by the number of classes."""
    counts = sorted({int(row["classes"]) for row in rows})
    names = [f"mean: {name}" for name in OF_MEANS.values()]
    names += [f"difference: {name}" for name in OF_DIFFERENCES.values()]
    columns = [*(f"mean {name}" for name in OF_MEANS), *(f"difference {name}" for name in OF_DIFFERENCES)]
    by_classes = {count: runner.where(rows, classes=count) for count in counts}
    coverage = [[count, *(_range(found, column) for column in columns)] for count, found in by_classes.items()]
    return {
        "coverage": runner.markdown(["classes", *names], coverage),
        "power": _power_table(runner.where(rows, sizes="even")),
    }


def _range(rows, column):
    """The lowest and the highest share of some rows, in percent."""
    shares = [100 * row[column] for row in rows]
    return f"{min(shares):.1f} to {max(shares):.1f}"


def _power_table(rows):
    names = [f"{100 * difference:g} points" for difference in DIFFERENCES]
    head = ["", "classes", *names, "smallest with 80% power", "its power"]
    body = [
        [
            SCORES[row["score"]],
            int(row["classes"]),
            *(f"{100 * row[f'power {difference}']:.0f}" for difference in DIFFERENCES),
            f"{100 * row['smallest']:.1f} points",
            f"{100 * row['power smallest']:.0f}" if row["power smallest"] != "" else "",
        ]
        for row in sorted(rows, key=lambda row: list(SCORES).index(row["score"]))
        if row["classes"] > CLASSES[0]  # of which no difference can be seen
    ]
    return runner.markdown(head, body)


def main(arguments=None):
    """Simulate what is missing; a few sets with `--quick`, which writes nothing."""
    given = runner.options_of(__doc__, arguments, spread=False)
    if given.quick:
        return print(measured("map@r", "long tail", 20, sets=20, families=(2, 5)))
    if given.spread:
        runner.write_rows(SPREAD, spread_rows())
    return simulate()


def simulate():
    """Measure the rows that are missing, and write the file after each."""
    rows = runner.read_rows(ROWS) if ROWS.exists() else []
    order = [(score, kind, classes) for classes in CLASSES for score in SCORES for kind in SIZES]
    for score, kind, classes in order:
        if not runner.where(rows, score=score, sizes=kind, classes=classes):
            rows.append(measured(score, kind, classes))
            rows.sort(key=lambda row: order.index((row["score"], row["sizes"], int(row["classes"]))))
            runner.write_rows(ROWS, rows)
            print(score, kind, classes, flush=True)


if __name__ == "__main__":
    main()
