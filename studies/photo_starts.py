"""Photo patches from the weights of ImageNet, and from random ones in about the same processor time.

    python -m studies.photo_starts --choose       # the trials of the choice, on validation photographs
    python -m studies.photo_starts                # the seeds of both, then the test photographs
    python -m studies.photo_starts --quick        # smoke test: 16 places, 2 steps, in runs/quick

Results and networks are kept under `runs/photo_starts`, a file per run, so that a stopped command resumes; delete them
to train again. The network from ImageNet with seed 0 is also put where recipes/zoo.py keeps its networks:
`python recipes/zoo.py photo-patches-imagenet` then writes its entry without training it again.
"""

import json
import shutil
import statistics
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import tensorflow as tf

import tfdml
from recipes import zoo
from studies import pages, photo_patches, runner
from studies.photo_patches import cells

FILES = [pages.RESULTS / f"photo_starts{name}.csv" for name in ("_frozen", "_choice", "", "_precision")]
FROZEN, CHOICE, ROWS, PRECISION = FILES
PAGE = pages.ROOT / "docs" / "photo-patches.md"
SOURCE = "studies/photo_starts"
ENTRY = "photo-patches-imagenet"
STARTS = ("random", "ImageNet")
PRECISIONS = ("float32", "int8")
COLUMNS = photo_patches.COLUMNS
REPETITIONS = 200  # of the search that is timed


@dataclass(frozen=True)
class Run(zoo.Run):
    """Settings of a training run: those of recipes/zoo.py, and a seed."""

    seed: int = 0


RANDOM = Run(**asdict(replace(zoo.PHOTOS, widths=(64, 128, 256), dim=128, learning_rate=2e-3, steps=450)))
IMAGENET = replace(RANDOM, layer="blocks_10_add", steps=270)
TRIALS = (
    RANDOM,
    replace(RANDOM, learning_rate=5e-3),
    IMAGENET,
    replace(IMAGENET, layer="blocks_7_add", steps=350),
    replace(IMAGENET, layer="blocks_7_add", steps=350, learning_rate=5e-3),
)
RUNS = tuple(replace(trial, seed=seed) for trial in (TRIALS[1], TRIALS[4]) for seed in range(3))


@dataclass(frozen=True)
class Setting(photo_patches.Setting):
    """Runs, their data, and the files that they leave; `places` limits the classes of each part."""

    choice: Path = CHOICE
    rows: Path = ROWS
    frozen: Path = FROZEN
    precision: Path = PRECISION
    handed_over: Path = pages.ROOT / "runs" / "zoo" / f"{ENTRY}.keras"
    trials: tuple[Run, ...] = TRIALS
    runs: tuple[Run, ...] = RUNS


def train(run, at):
    """Train a run, keep its network, and return its scores on the validation photographs."""
    return photo_patches.train(run, at, trained, embedded)


def trained(run, part):
    """The trained network, and the seconds of processor time that its training took."""
    begin = time.process_time()
    return zoo.trained(run, (part,), run.seed), time.process_time() - begin


def embedded(model, images):
    """Embeddings of images of 64 x 64 pixels."""
    return model.predict(images, batch_size=256, verbose=0)


def test(run, at):
    """The scores of a kept network on the test photographs, with its embeddings in float32 and in int8."""
    (part,) = photo_patches.parts("test", places=at.places)
    embeddings = embedded(photo_patches.loaded(run, at), part.images)
    codes = tfdml.metrics.int8_codes(embeddings).astype(np.float32)  # cosine similarity ignores the scales
    vectors = dict(zip(PRECISIONS, (embeddings, codes), strict=True))
    found = {name: photo_patches.scores(x, part.labels) for name, x in vectors.items()}
    return {**found, "items": len(part), "protocol": part.protocol}


def searches(shape, k=10):
    """Bytes of the exact index of an export, and milliseconds of its search for one query, in float32 and in int8.

    Args:
        shape: the number of the vectors, which are random, and their dimension.
        k: number of neighbors.
    """
    vectors = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    indexes = {name: tfdml.export.ExactSearch(k=k, dtype=name).searcher(unit, "cosine") for name in PRECISIONS}
    return {name: {"bytes": _bytes(x), "milliseconds": _milliseconds(x, unit)} for name, x in indexes.items()}


def _bytes(module):
    return sum(int(np.prod(variable.shape)) * variable.dtype.size for variable in module.variables)


def _milliseconds(index, queries):
    """The median time of a query."""
    search, times = tf.function(index, reduce_retracing=True), []
    for row in np.arange(REPETITIONS) % len(queries):
        query = tf.constant(queries[row : row + 1])
        begin = time.perf_counter()
        search(query)
        times.append(time.perf_counter() - begin)
    return 1000 * statistics.median(times)


def choose(at):
    """Write the rows of the features without training, and of the trials."""
    runner.write_rows(at.frozen, frozen_rows(at.places))
    runner.write_rows(at.choice, photo_patches.choice_rows(photo_patches.finished(train, at.trials, at)))


def test_seeds(at):
    """Train the seeds of both starts, test them, write their rows, and hand one network over to recipes/zoo.py."""
    results = photo_patches.finished(train, at.runs, at)
    tested = photo_patches.finished(test, at.runs, at)
    runner.write_rows(at.rows, rows_of(results, tested))
    runner.write_rows(at.precision, precision_rows(results, tested, searches((tested[0]["items"], at.runs[0].dim))))
    _hand_over(at, results)


def _hand_over(at, results):
    """Copy the network of the zoo, and what its card says of its training."""
    run, result = next((run, found) for run, found in zip(at.runs, results, strict=True) if run.layer)
    at.handed_over.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(at.output / f"{runner.name_of(run)}.keras", at.handed_over)
    seconds = {"seconds of processor time": round(result["core_seconds"])}
    about = seconds | {key: result[key] for key in ("hardware", "versions")}
    at.handed_over.with_suffix(".json").write_text(json.dumps(about))


def start_of(run):
    """The start of a run, as the tables name it."""
    return "ImageNet" if run["layer"] else "random"


def frozen_rows(places):
    """One row per kind of features of ImageNet without training: its scores on the validation photographs."""
    (part,) = photo_patches.parts("validation", places=places)
    features = {
        "the whole network at 128 pixels, its average": _averages(part.images),
        "up to blocks.7 at 64 pixels, all positions": embedded(
            zoo.pretrained(replace(IMAGENET, layer="blocks_7_add")).get_layer("backbone"), part.images
        ),
    }
    about = {"protocol": part.protocol, **tfdml.environment("scikit-image")}
    return [{"features": name, **photo_patches.scores(x, part.labels), **about} for name, x in features.items()]


def _averages(images):
    model = tfdml.models.from_backbone("EfficientNetLite0", dim=None, input_shape=(128, 128, 3))
    batches = tf.data.Dataset.from_tensor_slices(images).batch(64).map(lambda x: tf.image.resize(x, (128, 128)))
    return model.predict(batches, verbose=0)


def rows_of(results, tested):
    """One row per run: its start and seed, its scores on the validation and on the test photographs, its time."""
    return [
        {
            "start": start_of(result["run"]),
            "seed": result["run"]["seed"],
            "steps": result["run"]["steps"],
            **{f"validation {key}": value for key, value in result["validation"].items()},
            **found["float32"],
            **{key: result[key] for key in ("core_seconds", "weights", "hardware", "versions")},
            "protocol": found["protocol"],
        }
        for result, found in zip(results, tested, strict=True)
    ]


def precision_rows(results, tested, search):
    """One row per run and type of the stored vectors: its scores on the test photographs, and its index."""
    return [
        {
            "start": start_of(result["run"]),
            "seed": result["run"]["seed"],
            "precision": name,
            **found[name],
            **search[name],
            **{key: result[key] for key in ("hardware", "versions")},
            "protocol": found["protocol"],
        }
        for result, found in zip(results, tested, strict=True)
        for name in PRECISIONS
    ]


def tables():
    """The table of the page, by the name of its mark."""
    return {"table": starts_table(runner.read_rows(ROWS), runner.read_rows(photo_patches.ROWS))}


def starts_table(rows, earlier):
    """Mean and standard deviation over seeds of each start, on the validation and on the test photographs.

    Args:
        rows: the rows of this study.
        earlier: the rows of studies/photo_patches, whose network is trained with another learning rate and for longer.
    """
    seeds = {start: runner.where(rows, start=start) for start in STARTS}
    body = [["validation", start, *cells(found, "validation "), *_effort(found)] for start, found in seeds.items()]
    body += [["test", start, *cells(found), *_effort(found)] for start, found in seeds.items()]
    trained = runner.where(earlier, method=photo_patches.TRAINED)
    trained = [row | {"steps": photo_patches.Run().steps} for row in trained if isinstance(row["seed"], float)]
    body.append(["test", "random, the table above", *cells(trained), *_effort(trained)])
    return runner.markdown(["photographs", "start", *COLUMNS.values(), "steps", "core seconds"], body, texts=(0, 1))


def _effort(seeds):
    return f"{seeds[0]['steps']:,.0f}", f"{statistics.mean(row['core_seconds'] for row in seeds):.0f}"


def filled(text):
    """The page with its tables."""
    return pages.filled(text, tables(), SOURCE)


def quick(output, workers):
    """A setting for smoke tests, all of whose files are in `output`."""
    small = {"classes": 8, "steps": 2, "dim": 8}
    runs = replace(RANDOM, widths=(8, 8), **small), replace(IMAGENET, layer="blocks_2_add", **small)
    files = dict(zip(("frozen", "choice", "rows", "precision"), (output / path.name for path in FILES), strict=True))
    files["handed_over"] = output / "zoo.keras"
    return Setting(output, **files, trials=runs, runs=runs, places=16, workers=workers)


def main(arguments=None):
    """Run the command line."""
    folder = {"type": Path, "help": "folder of results and networks; runs/photo_starts by default"}
    options = runner.options_of(__doc__, arguments, choose=False, workers=2, output=folder)
    folder = pages.ROOT / "runs" / ("quick/photo_starts" if options.quick else "photo_starts")
    at = (quick if options.quick else Setting)(options.output or folder, workers=options.workers)
    if options.choose or options.quick:
        choose(at)
    if not options.choose:
        test_seeds(at)


if __name__ == "__main__":
    main()
