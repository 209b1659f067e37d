"""Objects that nobody trained on: three sizes of EfficientNet-Lite as they are, and tuned in three ways.

    python -m studies.stamps --data /usr/share/tuxpaint/stamps   # an hour of two cores; resumes
    python -m studies.stamps --quick                             # a smoke test: drawn objects, two steps

The package `tuxpaint-stamps-default` of Debian (GPL) has the objects, and is not shipped: photographs of animals, food,
plants, tools, vehicles and others, cut out. An image is 128 x 128 pixels: an object on a square of a photograph,
scaled, turned, partly outside, half of them partly covered, under other light. Objects and photographs of the
background are disjoint: 160 objects are trained, the settings are chosen on 80, and 80 are the test.
"""

import functools
import hashlib
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import keras
import numpy as np
from PIL import Image

import tfdml
from recipes import things
from studies import pages, runner
from studies.leaderboard.family import trials_and_tests

NETWORKS = ("EfficientNetLite0", "EfficientNetLite1", "EfficientNetLite2")
UNTRAINED = "as it is"
RATES = {"linear head": (3e-3, 1e-2), "LoRA": (3e-3, 1e-2), "all": (1e-4, 3e-4, 1e-3)}
SEEDS = (1, 2, 3)
VIEWS = 8
KINDS = (
    "animals", "clothes", "food", "hobbies", "household", "medical", "military", "plants", "sports", "vehicles"
)  # fmt: skip
DRAWN = {"cartoon", "plastic", "toys"}  # folders of drawings and of toys
OBJECTS = {"train": slice(0, 160), "validation": slice(160, 240), "test": slice(240, 320)}
DIGEST = "59799445f01c70eb"
ROWS, PAGE = pages.RESULTS / "stamps.csv", pages.ROOT / "docs" / "tuning.md"
FOLDER = pages.ROOT / "runs" / "stamps"
KEYS = ("recall@1", "map@r")
STRANGERS = "dir@far=0.1"


@dataclass(frozen=True)
class Run:
    """Settings of a training run, and the part on which it is measured."""

    network: str = NETWORKS[0]
    way: str = UNTRAINED
    learning_rate: float = 0.0
    seed: int = 0
    part: str = "validation"
    steps: int = things.STEPS
    quick: bool = False


def train(run, read):
    """Train a run, and return its scores on its part, per query."""
    data = read()
    begin = time.process_time()
    keras.utils.clear_session()
    if run.way == UNTRAINED:
        model, row = things.network(run.quick, backbone=run.network, dim=None), {"trained": 0.0}
    else:
        options = {"rate": run.learning_rate, "steps": run.steps, "seed": run.seed, "quick": run.quick}
        model, row = things.trained(run.way, data["train"], backbone=run.network, **options)
    measured = data[run.part]
    x = tfdml.models.embed(model, measured)
    found = tfdml.metrics.retrieval(x, measured.labels, k=(1,), per_query=True)
    return {
        "run": asdict(run),
        "trained": row["trained"],
        "scores": {key: float(np.mean(found[key])) for key in KEYS} | {STRANGERS: with_strangers(x, measured.labels)},
        "queries": {key: np.asarray(found[key], float).tolist() for key in KEYS},
        "core_seconds": round(time.process_time() - begin, 1),
        "protocol": measured.protocol,
        **tfdml.environment("pillow"),
    }


def with_strangers(x, labels):
    """The detection and identification rate where half of the objects are in the gallery, with half of their images."""
    is_item, is_known = np.arange(len(labels)) % VIEWS < VIEWS // 2, labels % 2 == 0
    kept = is_item & is_known
    options = {"gallery": x[kept], "gallery_labels": labels[kept], "far": 0.1, "metric": "cosine"}
    return tfdml.metrics.open_set(x[~is_item], labels[~is_item], **options)[STRANGERS]


def objects(root):
    """Names and `(height, width, 4)` cut-outs of the package, in an order drawn from a seed.

    Raises:
        SystemExit: a package of another version, or another folder.
    """
    paths = sorted(path for path in root.rglob("*.png") if is_photograph(path.relative_to(root)))
    names = [path.relative_to(root).with_suffix("").as_posix() for path in paths]
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
    if digest != DIGEST:
        raise SystemExit(
            f"{root} has {len(names)} photographs of objects of digest {digest}, expected 320 of digest {DIGEST}. "
            "Unpack tuxpaint-stamps-default 2022.06.04-1 of Debian, and pass its folder stamps."
        )
    order = np.random.default_rng(0).permutation(len(paths))
    return [(names[i], cutout(Image.open(paths[i]).convert("RGBA"))) for i in order]


def is_photograph(path):
    """Whether a file is of an object, and neither a drawing nor a sign."""
    return path.parts[0] in KINDS and not DRAWN & set(path.parts)


def cutout(image):
    """An object without its transparent border, of at most 256 pixels."""
    image = image.crop(image.getchannel("A").getbbox())
    image.thumbnail((256, 256))
    return image


def part(found, name):
    """The images of a split: `VIEWS` of each object, which depend on the split, the object and the view alone."""
    chosen = found[OBJECTS[name]] or found
    split = list(OBJECTS).index(name)
    images = [
        view(cut, name, np.random.default_rng([split, label, i]))
        for label, (_, cut) in enumerate(chosen)
        for i in range(VIEWS)
    ]
    return tfdml.datasets.LabeledSet(
        images=np.stack(images),
        labels=np.repeat(np.arange(len(chosen)), VIEWS),
        class_names=tuple(name for name, _ in chosen),
        protocol=f"stamps/object-disjoint{'' if name == 'test' else f'-{name}'}/exact-cosine/v1",
    )


def view(cut, split, rng):
    """An object on a square of a photograph of the split, `(128, 128, 3)` uint8."""
    photographs = list(things.PHOTOGRAPHS[split])
    image = things.background(rng.choice(photographs), rng)
    scale = rng.uniform(56, 110) / max(cut.size)
    size = [max(round(scale * side), 1) for side in cut.size]
    turned = cut.resize(size, Image.Resampling.BILINEAR).rotate(
        rng.uniform(-40, 40), Image.Resampling.BILINEAR, expand=True
    )
    center = things.SIDE / 2 + rng.uniform(-32, 32, 2)
    corner = [round(middle - side / 2) for middle, side in zip(center, turned.size, strict=True)]
    image.paste(turned, corner, turned)
    if rng.random() < 0.5:
        side = int(rng.integers(24, 49))
        cover = things.background(rng.choice(photographs), rng).resize((side, side))
        image.paste(cover, [int(middle) for middle in center + rng.uniform(-48, 48, 2) - side / 2])
    return things.lit(np.asarray(image), rng)


def rows(options, networks=NETWORKS):
    """One row per trial, and one per seed of the trial with the highest MAP@R of the validation part."""
    base = options.base
    groups = [
        [replace(base, network=network, way=way, learning_rate=rate) for rate in rates]
        for network in networks
        for way, rates in RATES.items()
    ]
    runs = trials_and_tests(groups, options) + [replace(base, network=network, part="test") for network in networks]
    return [result["run"] | about(result) for result in runner.finished(runs, options)]


def about(result):
    """The numbers of a result, with the scores per object, over whose queries they are means."""
    by_object = {key: np.reshape(result["queries"][key], (-1, VIEWS)).mean(axis=1) for key in KEYS}
    objects_of = {f"{key} by object": " ".join(f"{each:.4f}" for each in by_object[key]) for key in KEYS}
    kept = {key: result[key] for key in ("trained", "core_seconds", "protocol", "hardware", "versions")}
    return result["scores"] | kept | objects_of


def tables(found):
    """The test part by network and way, and the paired gain over the network as it is."""
    tested = runner.where(found, part="test")
    body = []
    for network in NETWORKS:
        frozen = runner.where(tested, network=network, way=UNTRAINED)
        scores = (f"{runner.mean_of(frozen, key):.1f}" for key in (*KEYS, STRANGERS))
        body.append([network, UNTRAINED, *scores, "-", "-"])
        for way in RATES:
            runs = runner.where(tested, network=network, way=way)
            scores = (runner.share(runs, key) for key in (*KEYS, STRANGERS))
            body.append([network, way, *scores, gain(runs, frozen), f"{seconds(runs):.0f}"])
    head = ["network", "trained", "Recall@1", "MAP@R", "with strangers", "gain in Recall@1, 95%", "core seconds"]
    return {"objects": runner.markdown(head, body)}


def gain(runs, frozen):
    """The mean gain in Recall@1 over the frozen network, with an interval over objects."""
    trained, before = (np.mean([by_object(row) for row in each], axis=0) for each in (runs, frozen))
    difference = 100 * (trained - before)
    low, high = tfdml.metrics.class_interval(difference, np.arange(len(difference)))
    return f"{difference.mean():+.1f} [{low:+.1f}, {high:+.1f}]"


def by_object(row):
    """Recall@1 of each object."""
    return np.array(row["recall@1 by object"].split(), float)


def seconds(runs):
    """Mean core seconds of training and measuring runs."""
    return np.mean([row["core_seconds"] for row in runs])


@functools.cache
def parts(root):
    """The images of each split of a folder, drawn once in a process."""
    found = objects(root)
    return {name: part(found, name) for name in OBJECTS}


def shapes():
    """Eight colored squares as objects, for a smoke test."""
    rng = np.random.default_rng(0)
    colors = rng.integers(0, 255, (8, 1, 1, 4), dtype="uint8")
    colors[..., 3] = 255
    return [(f"square {i}", Image.fromarray(np.tile(color, (64, 64, 1)))) for i, color in enumerate(colors)]


def parts_of_shapes():
    """The images of each split of the squares."""
    return {name: part(shapes(), name) for name in OBJECTS}


def main(arguments=None):
    """Train what is missing; two steps of a tiny network with `--quick`, which writes nothing."""
    data = {"type": Path, "help": "the folder stamps of the package"}
    given = runner.options_of(__doc__, arguments, data=data, workers=2)
    if given.quick:
        made = functools.partial(train, read=parts_of_shapes)
        small = runner.Options(Run(steps=2, quick=True), made, FOLDER / "quick", seeds=(1,), workers=1)
        return print(len(rows(small, NETWORKS[:1])), "rows")
    if given.data is None:
        raise SystemExit("--data is missing: the folder stamps of the package tuxpaint-stamps-default.")
    made = functools.partial(train, read=functools.partial(parts, given.data))
    return runner.write_rows(ROWS, rows(runner.Options(Run(), made, FOLDER, seeds=SEEDS, workers=given.workers)))


if __name__ == "__main__":
    main()
