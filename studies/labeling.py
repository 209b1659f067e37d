"""Which images to label, labels that are proposed, and a search that learns: on features of ImageNet, and on trained.

    python -m studies.labeling --data FOLDER   # half an hour of a core; FOLDER has the four files of Fashion-MNIST
    python -m studies.labeling --choose        # the same on the validation part, with settings of clicks
    python -m studies.labeling --quick         # a smoke test on clusters of noise, which writes nothing

Features of EfficientNetLite0 are kept under `runs/labeling`: as it is, and after `tfdml train --unlabeled` on images of
the validation part. Draws of classes and images make ten pools. Only selections use the trained features, too.

Selection: labels are given in rounds of ten, the first by "typical" where a rule needs labels. A logistic regression on
64 principal components of the pool learns from n = 10, 20, ... 50 labels; the embedding of a held-back image of the
same classes is the square root of its class probabilities. The area is the mean of MAP@R over the five n. Random labels
are measured at the same n, and at 1.6 n: 80 for 50.

Proposals: labels of a share of thirty pools, drawn at random or selected. Right proposals of all pools are divided by
all proposals, so that a long list counts more than a short one.

Clicks: a user judges the first answer that is not judged yet, ten times. Recall@10 is the share of right answers among
the first ten, or among as many as there are, of items that are not judged; its gain is over the query as it was.
"""

import functools
import itertools
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn import linear_model

import tfdml
from recipes import things
from studies import fashion, pages, runner, unlabeled

FILES = [pages.RESULTS / f"labeling_{name}.csv" for name in ("selection", "proposals", "clicks")]
SELECTION, PROPOSALS, CLICKS = FILES
PAGE, FOLDER = pages.ROOT / "docs" / "labeling.md", pages.ROOT / "runs" / "labeling"
RULES = ("typical", "diverse", "uncertain", "all")
COUNTS, MORE, ROUND = (10, 20, 30, 40, 50), 1.6, 10
DRAWS, PROPOSAL_DRAWS, NUM_CLICKS, QUERIES = range(10), range(30), 10, 300
PRECISIONS, LABELS, FEW = (0.8, 0.9), (50, 100), 100  # proposals of all draws
NETWORKS = ("as it is", "trained")
TRAINING = unlabeled.SETS | {"Fashion-MNIST": (64, 100)}  # pixels, and steps of 32 images


@dataclass(frozen=True)
class Source:
    """The classes of a pool, its images of each class, and those held back."""

    classes: int
    pool: int
    held_back: int
    side: int


SETS = {
    "photo patches": Source(40, 5, 3, 64),
    "things": Source(24, 24, 8, 128),
    "Fashion-MNIST": Source(10, 200, 40, 64),
}


@functools.cache
def features(name, part, root=None, network="as it is"):
    """Features `(n, 1280)` and labels of a set, part "validation" or "test", kept in a file."""
    path = FOLDER / f"{name.replace(' ', '-')}-{network.replace(' ', '-')}-{part}.npz"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        images, labels = images_of(name, part, root)
        shape = (SETS[name].side, SETS[name].side, 3)
        frozen = functools.partial(tfdml.models.from_backbone, "EfficientNetLite0", dim=None, normalize=False)
        model = trained(name, root) if network == "trained" else frozen(input_shape=shape)
        np.savez(path, x=tfdml.models.embed(model, images), y=labels)
    with np.load(path) as kept:
        return kept["x"], kept["y"]


@functools.cache
def trained(name, root):
    """What `tfdml train --unlabeled` leaves: it has seen images of the validation part, without their labels."""
    size, steps = TRAINING[name]
    if name in unlabeled.SETS:
        most = 2500 if name == "photo patches" else 0
        images = unlabeled.without_labels(unlabeled.Run(name, size, steps, images=most))
    else:
        pixels = images_of(name, "validation", root)[0][:2500]
        images = tfdml.datasets.LabeledSet(images=pixels, labels=np.full(len(pixels), -1), class_names=())
    folder = FOLDER / f"{name.replace(' ', '-')}-network"
    return tfdml.training.train(images, folder, unlabeled=True, size=size, steps=steps, epochs=2, seed=0).model


def images_of(name, part, root):
    """Images and labels; the validation is of classes, or of images of Fashion-MNIST, that the test does not have."""
    if name == "Fashion-MNIST":
        train, test = fashion.read(root)
        data = train if part == "validation" else test
        data = data.take(np.random.default_rng(0).permutation(len(data))[:4000])
        images = np.pad(data.examples(), ((0, 0), (2, 2), (2, 2), (0, 0)))
        return images.repeat(2, axis=1).repeat(2, axis=2).repeat(3, axis=3), data.labels
    if name == "things":
        parts = things.things(("train",) if part == "validation" else ("validation", "test"), views=32)
    else:
        parts = tfdml.datasets.photo_patches(splits=("train",) if part == "validation" else ("test",))
    labels = [each.labels + 10_000 * number for number, each in enumerate(parts)]
    return np.concatenate([each.images for each in parts]), np.concatenate(labels)


def unit(x):
    """Rows of length 1."""
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def pool_of(source, x, y, seed):
    """Features and labels of a pool, and of what is held back: relative to the mean of the pool."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation(np.unique(y))[: source.classes]
    rows = [rng.permutation(np.flatnonzero(y == label))[: source.pool + source.held_back] for label in ids]
    pool, held_back = (np.concatenate(part) for part in zip(*(np.split(r, [source.pool]) for r in rows), strict=True))
    center = x[pool].mean(axis=0)
    numbers = np.unique(y, return_inverse=True)[1]
    return unit(x[pool] - center), numbers[pool], unit(x[held_back] - center), numbers[held_back]


def trained_score(x, labels, z, truth):
    """MAP@R of held-back images by what a logistic regression learned from labeled ones; without two classes, as is."""
    if len(np.unique(labels)) > 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # few steps, and few labels of each class
            learner = linear_model.LogisticRegression(C=30.0, max_iter=60, tol=1e-3).fit(x, labels)
        z = np.sqrt(learner.predict_proba(z))
    return tfdml.metrics.retrieval(z, truth, k=(1,), full_map=False)["map@r"]


def area_of(x, y, z, truth, rows, counts):
    """The mean of MAP@R over numbers of labels, in the order of the rows."""
    return np.mean([trained_score(x[rows[:count]], y[rows[:count]], z, truth) for count in counts])


def rounds(x, y, rule, seed):
    """Selected rows, in rounds of ten labels."""
    known = np.full(len(x), -1)
    while (known >= 0).sum() < COUNTS[-1]:
        first = not (known >= 0).any()
        named = "typical" if first and rule == "uncertain" else rule
        rows = tfdml.cleaning.select(x, ROUND, labels=known, rule=named, seed=seed).rows
        known[rows] = y[rows]
        yield from rows.tolist()


def selection_rows(name, source, data):
    """The area of each rule and of random labels, for each draw."""
    for seed in DRAWS:
        x, y, z, truth = pool_of(source, *data, seed)
        axes = np.linalg.svd(x, full_matrices=False)[2][:64].T
        area = functools.partial(area_of, x @ axes, y, z @ axes, truth)
        random = np.random.default_rng(seed).permutation(len(x))
        about = {"set": name, "seed": seed, "images": len(x), "classes": source.classes}
        more = area(random, [round(MORE * n) for n in COUNTS])
        yield {**about, "rule": "random", "area": area(random, COUNTS), "area of 80": more}
        for rule in RULES:
            rows = np.array(list(rounds(x, y, rule, seed)))
            found = len(np.unique(y[rows]))
            yield {**about, "rule": rule, "area": area(rows, COUNTS), "area of 80": more, "found": found}


def proposal_rows(name, source, data):
    """How many proposals are right, of random and of selected labels."""
    for seed, count in itertools.product(PROPOSAL_DRAWS, LABELS):
        x, y, *_ = pool_of(source, *data, seed)
        chosen = {"random": np.random.default_rng(seed).permutation(len(x))[:count]}
        if count == LABELS[0]:
            chosen["typical"] = tfdml.cleaning.select(x, count, seed=seed).rows
        for (rule, rows), precision in itertools.product(chosen.items(), PRECISIONS):
            labels = np.full(len(x), -1)
            labels[rows] = y[rows]
            row = {"set": name, "seed": seed, "labels": count, "rule": rule, "precision": precision}
            proposed = tfdml.cleaning.propose_labels(x, labels, precision=precision)
            right = int((y[proposed.rows] == proposed.labels).sum())
            yield row | {"others": len(x) - count, "proposals": len(proposed.rows), "right": right}


def rocchio(query, positive, negative, weights=(2.0, 1.0)):
    """The query and weighted means of right and of wrong answers.

    Source: Rocchio, Relevance Feedback in Information Retrieval, 1971.
    """
    means = [x.mean(axis=0) if len(x) else 0 * query for x in (positive, negative)]
    return query + weights[0] * means[0] - weights[1] * means[1]


def logistic(query, positive, negative, strength=10.0):
    """The direction of a logistic regression; the mean of query and right answers, as long as no answer is wrong."""
    right = np.concatenate([query[None], positive])
    if not len(negative):
        return right.mean(axis=0)
    x, y = np.concatenate([right, negative]), np.arange(len(right) + len(negative)) < len(right)
    return linear_model.LogisticRegression(C=strength, class_weight="balanced").fit(x, y).coef_[0]


def refined(query, positive, negative):
    """As the package does; the query as it is without a right answer."""
    return tfdml.search.refine(query, positive, negative) if len(positive) else query


METHODS = {"Rocchio": rocchio, "logistic regression": logistic, "tfdml.search.refine": refined}


def gains(x, y, row, method):
    """The gain of Recall@10 after each click."""
    judged, answers, found = [row], {True: [], False: []}, []
    scores = before = x @ x[row]
    for _ in range(NUM_CLICKS):
        click = np.where(np.isin(np.arange(len(x)), judged), -np.inf, scores).argmax()
        judged.append(click)
        answers[bool(y[click] == y[row])].append(x[click])
        positive, negative = (np.reshape(answers[kind], (-1, x.shape[1])) for kind in (True, False))
        scores = x @ method(x[row], positive, negative)
        rest = np.setdiff1d(np.arange(len(x)), judged)
        most = min(10, (y[rest] == y[row]).sum())
        first = [rest[np.argsort(-each[rest], kind="stable")[:10]] for each in (scores, before)]
        found.append(np.subtract(*((y[each] == y[row]).sum() for each in first)) / most if most else np.nan)
    return found


def click_rows(name, data, methods=METHODS):
    """The mean gain of each method after each click, with its interval over classes."""
    x, y = data
    kept = np.sort(np.random.default_rng(0).permutation(len(x))[:2000])
    x, y = unit(x[kept]), y[kept]
    queries = np.random.default_rng(1).permutation(len(x))[:QUERIES]
    for method, function in methods.items():
        values = np.array([gains(x, y, row, function) for row in queries])
        for click, column in enumerate(values.T, 1):
            low, high = tfdml.metrics.class_interval(column, y[queries])
            yield {"set": name, "method": method, "clicks": click, "gain": np.nanmean(column), "low": low, "high": high}


def tables(found):
    """The tables of the page, from the rows of the three files."""
    selection, proposals, clicks = found
    columns = list(itertools.product(SETS, NETWORKS))
    versus = [
        [rule, *(difference(runner.where(selection, rule=rule, set=one, network=other)) for one, other in columns)]
        for rule in (*RULES, "random")
    ]
    lines = []
    for count, rule, precision in sorted({(row["labels"], row["rule"], row["precision"]) for row in proposals}):
        cells = []
        for name in SETS:
            rows = runner.where(proposals, set=name, labels=count, rule=rule, precision=precision)
            cells += [pooled(rows), pages.plus_minus([row["proposals"] / row["others"] for row in rows], 1)]
        lines.append([f"{count:g}", rule, f"{100 * precision:g}", *cells])
    heads = [f"{name}, {word}" for name in SETS for word in ("right", "proposed")]
    body = [[method, *(gained(clicks, name, method, NUM_CLICKS) for name in SETS)] for method in METHODS]
    return {
        "selection": runner.markdown(["rule", *(f"{name}, {network}" for name, network in columns)], versus),
        "proposals": runner.markdown(["labels", "chosen", "stated, %", *heads], lines, texts=(1,)),
        "clicks": runner.markdown(["ten clicks", *SETS], body),
    }


def filled(text):
    """The page with the tables of the kept rows."""
    return pages.filled(text, tables([runner.read_rows(path) for path in FILES]), "studies/labeling")


def difference(rows):
    """The mean of the area minus that of more random labels, with its interval over draws, in points."""
    values = np.array([row["area"] - row["area of 80"] for row in rows])
    return f"{'+' if values.mean() > 0 else ''}{pages.plus_minus(values.tolist(), 1)}".replace("-", "\N{MINUS SIGN}")


def pooled(rows):
    """The share of right ones among the proposals of all draws, with its interval over draws; nothing of few."""
    counts = np.array([[row["right"], row["proposals"] - row["right"]] for row in rows], int)
    if counts.sum() < FEW:
        return ""
    hits, draws = np.repeat(np.tile([1, 0], len(rows)), counts.ravel()), np.repeat(np.arange(len(rows)), counts.sum(1))
    low, high = tfdml.metrics.class_interval(hits, draws)
    return f"{100 * hits.mean():.1f} ({100 * low:.1f} to {100 * high:.1f})"


def gained(rows, name, method, click):
    """The gain after some clicks, with its interval, in points."""
    (row,) = runner.where(rows, set=name, method=method, clicks=click)
    return f"{100 * row['gain']:.1f} ({100 * row['low']:.1f} to {100 * row['high']:.1f})"


def noise():
    """Clusters of a smoke test."""
    rng, labels = np.random.default_rng(0), np.repeat(np.arange(12), 40)
    return rng.normal(size=(12, 16))[labels] + 0.7 * rng.normal(size=(len(labels), 16)), labels


def choose(root=None):
    """Print the areas, the right proposals, and the gain after clicks of settings, on the validation part."""
    parts = {name: features(name, "validation", root) for name in SETS}
    for name, source in SETS.items():
        for network in NETWORKS:
            areas = list(selection_rows(name, source, features(name, "validation", root, network)))
            for rule in RULES:
                print(name, network, rule, difference(runner.where(areas, rule=rule)), flush=True)
        for row in proposal_rows(name, source, parts[name]):
            print(row, flush=True)
    grid = {f"Rocchio {w}": functools.partial(rocchio, weights=w) for w in ((1, 0.5), (2, 0.5), (2, 1), (4, 2))}
    grid |= {f"logistic {C}": functools.partial(logistic, strength=C) for C in (1.0, 10.0, 100.0)}
    for name in SETS:
        for row in click_rows(name, parts[name], grid | {"refine": refined}):
            if row["clicks"] in (1, 3, 10):
                print(name, row["method"], row["clicks"], round(100 * row["gain"], 1), flush=True)


def main(arguments=None):
    """Measure all, or choose; noise with `--quick`."""
    options = runner.options_of(__doc__, arguments, data={"type": Path, "help": "folder of the files"}, choose=False)
    if options.quick:
        source = Source(12, 30, 10, 0)
        print(next(selection_rows("noise", source, noise())), next(proposal_rows("noise", source, noise())))
        return print(next(click_rows("noise", noise())))
    if options.choose:
        return choose(options.data)
    about = tfdml.environment("scikit-learn")
    parts = {name: features(name, "test", options.data) for name in SETS}
    found = [[], [], []]
    for name, source in SETS.items():
        for network in NETWORKS:
            rows = selection_rows(name, source, features(name, "test", options.data, network))
            found[0] += [{"network": network} | row | about for row in rows]
        found[1] += [row | about for row in proposal_rows(name, source, parts[name])]
        found[2] += [row | about for row in click_rows(name, parts[name])]
        for path, rows in zip(FILES, found, strict=True):  # a stopped command leaves the sets that it measured
            runner.write_rows(path, rows)


if __name__ == "__main__":
    main()
