"""Ways to tune a pretrained network on few photos: the table of docs/tuning.md.

    python -m studies.things --choose       # learning rates, on the validation part
    python -m studies.things                # three seeds of each way, then the test part
    python -m studies.things --quick        # smoke test of all this: a tiny network, two steps, in runs/quick

The photos and the training of a network are those of `recipes/things.py`. Results and networks are kept under
`runs/things`; delete them to train again.
"""

import functools
import statistics
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import keras
import numpy as np

import tfdml
from recipes import things
from studies import pages, runner

CHOICE, ROWS = pages.RESULTS / "things_choice.csv", pages.RESULTS / "things.csv"
PAGE = pages.ROOT / "docs" / "tuning.md"
UNTRAINED = "as it is"
RATES = {
    "linear head": (1e-3, 3e-3, 1e-2, 3e-2),
    "LoRA": (1e-3, 3e-3, 1e-2, 3e-2),
    "all": (3e-5, 1e-4, 3e-4, 1e-3),
}
VIEWS = 16
KEYS = ("recall@1", "map@r")
HEAD = ("Recall@1", "things, 95%", "MAP@R", "things, 95%")
COSTS = ("trained", "trained_with_head", "core_seconds")


@dataclass(frozen=True)
class Photos:
    """Training photos: every `step`-th thing, and the number of views of each."""

    step: int
    views: int

    def of(self, train):
        """These photos of the training part, which has the views of a thing together."""
        chosen = train.select_classes(range(0, len(train.class_names), self.step))
        return chosen.take(np.flatnonzero(np.arange(len(chosen)) % VIEWS < self.views))


PHOTOS = {72: Photos(4, 4), 1152: Photos(1, 16)}


@dataclass(frozen=True)
class Run:
    """Settings of a training run."""

    way: str = "linear head"
    photos: int = 72
    learning_rate: float = 3e-3
    steps: int = things.STEPS
    seed: int = 0


@dataclass(frozen=True)
class Setting:
    """Runs, their data, and the files that they leave."""

    output: Path
    choice: Path = CHOICE
    rows: Path = ROWS
    sizes: tuple[int, ...] = tuple(PHOTOS)
    num_rates: int = 4
    steps: int = things.STEPS
    seeds: tuple[int, ...] = (0, 1, 2)
    most: int | None = None
    quick: bool = False

    def trials(self):
        """Each way with each of its learning rates, for each number of photos."""
        return [
            Run(way, photos, rate, self.steps)
            for photos in self.sizes
            for way, rates in RATES.items()
            for rate in rates[: self.num_rates]
        ]

    def data(self, split):
        """The photos of a split."""
        return things.things((split,), views=VIEWS, most=self.most)[0]


def quick(output):
    """A setting for smoke tests, all of whose files are in `output`."""
    files = [output / path.name for path in (CHOICE, ROWS)]
    return Setting(output, *files, sizes=(1152,), num_rates=1, steps=2, seeds=(0,), most=8, quick=True)


def train(run, at, data):
    """Train a run, keep its network, and return its scores on the validation part."""
    keras.utils.clear_session()
    options = {"rate": run.learning_rate, "steps": run.steps, "seed": run.seed, "quick": at.quick}
    model, row = things.trained(run.way, PHOTOS[run.photos].of(data["train"]), **options)
    model.save(at.output / f"{runner.name_of(run)}.keras")
    return {"run": asdict(run), **row, **evaluated(model, data["validation"]), **tfdml.environment("pillow")}


def test(run, at, data):
    """The scores of a kept network on the test part."""
    return evaluated(keras.saving.load_model(at.output / f"{runner.name_of(run)}.keras"), data["test"])


def evaluated(model, part):
    """Scores on a part, with the values per query."""
    result = tfdml.metrics.retrieval(tfdml.models.embed(model, part), part.labels, k=(1,), per_query=True)
    queries = {key: np.asarray(result[key], np.float64) for key in KEYS}
    means = {key: float(values.mean()) for key, values in queries.items()}
    return {**means, "queries": {key: values.tolist() for key, values in queries.items()}, "protocol": part.protocol}


def finished(function, runs, at, *splits):
    """The results of a function of runs, each computed once and kept."""
    data = {split: at.data(split) for split in splits}
    kept = at.output / function.__name__
    return runner.finished(runs, runner.Options(Run(), functools.partial(function, at=at, data=data), kept, workers=1))


def choose(at):
    """Write the rows of the trials, and return them."""
    keys = (*KEYS, "core_seconds", "protocol", "hardware", "versions")
    results = finished(train, at.trials(), at, "train", "validation")
    rows = [{**result["run"], **{key: result[key] for key in keys}} for result in results]
    runner.write_rows(at.choice, rows)
    return rows


def chosen(rows, at):
    """The run of each way and number of photos whose trial has the highest MAP@R on the validation part, per seed."""
    groups = {}
    for row in rows:
        groups.setdefault((row["photos"], row["way"]), []).append(row)
    best = [max(group, key=lambda row: row["map@r"]) for group in groups.values()]
    runs = [Run(**{key: row[key] for key in asdict(Run())}) for row in best]
    return {run: [replace(run, seed=seed) for seed in at.seeds] for run in runs}


def test_seeds(at):
    """Train all seeds of the chosen runs, then open the test part and write its rows."""
    runs = chosen(choose(at), at)
    results = finished(train, [run for seeds in runs.values() for run in seeds], at, "train", "validation")
    tested = finished(test, [run for seeds in runs.values() for run in seeds], at, "test")
    part = at.data("test")
    untrained = evaluated(things.network(at.quick, dim=None), part)
    costs = dict.fromkeys(COSTS, 0.0)
    rows = [
        {"way": UNTRAINED, "photos": 0, "learning_rate": 0.0, "seed": "none", **numbers([untrained], part), **costs}
    ]
    for start in range(0, len(results), len(at.seeds)):
        seeds = range(start, start + len(at.seeds))
        rows += [row_of([results[i]], [tested[i]], part, seed=results[i]["run"]["seed"]) for i in seeds]
        rows.append(row_of([results[i] for i in seeds], [tested[i] for i in seeds], part, seed="mean"))
    about = {"protocol": part.protocol, **{key: results[0][key] for key in ("hardware", "versions")}}
    runner.write_rows(at.rows, [row | about for row in rows])


def row_of(results, tested, part, *, seed):
    """The row of one seed, or the mean of some."""
    settings = {key: results[0]["run"][key] for key in ("way", "photos", "learning_rate")}
    costs = {key: statistics.mean(result[key] for result in results) for key in COSTS}
    return {**settings, "seed": seed, **numbers(tested, part), **costs}


def numbers(tested, part):
    """Means over queries and seeds, and their 95% intervals by a bootstrap over the things of the part."""
    row = {}
    for key in KEYS:
        values = np.mean([result["queries"][key] for result in tested], axis=0)
        low, high = tfdml.metrics.class_interval(values, part.labels)
        row |= {key: float(values.mean()), f"{key} low": low, f"{key} high": high}
    return row


def table(rows):
    """The test part by number of photos and way: mean and standard deviation over seeds, interval over things."""
    means = [row for row in rows if row["seed"] in ("none", "mean")]
    body = [line(row, [seed for seed in rows if same_run(seed, row)]) for row in means]
    head = ["photos", "trained", "of the backbone, %", "with the head, %", "rate", *HEAD, "core seconds"]
    return runner.markdown(head, body, texts=(1,))


def same_run(row, mean):
    """Whether a row is of a seed of the run of a mean."""
    return isinstance(row["seed"], float) and all(row[key] == mean[key] for key in ("way", "photos"))


def line(row, seeds):
    """The cells of a way."""
    shares = [runner.share(seeds, key) if seeds else f"{100 * row[key]:.1f}" for key in KEYS]
    intervals = [f"[{100 * row[f'{key} low']:.0f}, {100 * row[f'{key} high']:.0f}]" for key in KEYS]
    scores = [cell for pair in zip(shares, intervals, strict=True) for cell in pair]
    weights = [f"{100 * row[key]:.1f}" for key in COSTS[:2]]
    first = [f"{row['photos']:.0f}", row["way"], *weights, f"{row['learning_rate']:g}" if seeds else "-"]
    return [*first, *scores, f"{row['core_seconds']:.0f}"]


def main(arguments=None):
    """Train what is missing, and write the rows."""
    folder = {"type": Path, "help": "folder of results and networks; runs/things by default"}
    options = runner.options_of(__doc__, arguments, choose=False, output=folder)
    folder = pages.ROOT / "runs" / ("quick/things" if options.quick else "things")
    at = (quick if options.quick else Setting)(options.output or folder)
    (choose if options.choose else test_seeds)(at)


if __name__ == "__main__":
    main()
