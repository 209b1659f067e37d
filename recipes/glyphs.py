"""Zero-shot retrieval of characters: train, watch retrieval, export, search.

Claim: a small network learns from 872 characters to find 854 others that it has never seen.
The numbers of five seeds stand in the README, made by `python benchmarks/glyphs.py`.

    python recipes/glyphs.py                # the whole story
    python recipes/glyphs.py --resume       # goes on where an interrupted run stopped
    python recipes/glyphs.py --quick        # a taste on 60 classes, a minute
"""

import argparse
import csv
import json
import time
from pathlib import Path

import keras
import numpy as np
import pictures
import tensorflow as tf
from keras import layers

import tfdml

KEYS = ["recall@1", "recall@2", "recall@4", "recall@8", "map@r"]


def build_model(steps):
    """A small network, compiled for `steps` training steps."""
    images = keras.Input((32, 32, 1), dtype="uint8")
    x = layers.Rescaling(1 / 255)(images)
    x = layers.RandomTranslation(0.06, 0.06, fill_mode="nearest")(x)
    x = layers.RandomRotation(0.02, fill_mode="nearest")(x)
    x = layers.GaussianNoise(0.1)(x)
    model = tfdml.models.EmbeddingModel(images, tfdml.models.plain(x, dim=128))
    rate = keras.optimizers.schedules.CosineDecay(0.0, steps * 9 // 10, warmup_target=3e-3, warmup_steps=steps // 10)
    model.compile(keras.optimizers.Adam(rate), loss=tfdml.losses.MultiSimilarityLoss())
    return model


def first_classes(part, classes):
    """The images and labels of the first classes of a set."""
    rows = part.labels < classes
    return part.images[rows], part.labels[rows]


def nearest(embeddings, queries, k=8):
    """The k nearest other rows of each query row."""
    found, _ = tfdml.search.Exact(embeddings).search(embeddings[queries], k + 1)
    return np.array([row[row != query][:k] for query, row in zip(queries, found, strict=True)])


def served_embeddings(path, images):
    """Embeddings from an exported model, as a server would make them."""
    embed = tf.saved_model.load(str(path)).signatures["serving_default"]
    parts = [embed(images=tf.constant(images[i : i + 512]))["embedding"] for i in range(0, len(images), 512)]
    return np.concatenate(parts)


def main():
    """Tell the story."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="60 classes, 3 short epochs")
    parser.add_argument("--resume", action="store_true", help="go on from the last whole epoch in --output")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("runs/glyphs"))
    options = parser.parse_args()
    begin, out = time.time(), options.output
    out.mkdir(parents=True, exist_ok=True)

    train, test = tfdml.datasets.glyphs()
    classes, per_batch, epochs, steps = (60, 8, 3, 30) if options.quick else (10_000, 32, 10, 92)
    (x, labels), (test_x, test_labels) = first_classes(train, classes), first_classes(test, classes)
    print(f"{len(x)} images to train on, {len(test_x)} of other classes to search in")

    keras.utils.set_random_seed(options.seed)
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=per_batch, examples_per_class=4, seed=options.seed)
    evaluation = tfdml.callbacks.RetrievalEvaluation((test_x, test_labels))
    model = build_model(epochs * steps)
    pixels = test_x.reshape(len(test_x), -1).astype("float32")
    table = {
        "raw pixels": tfdml.metrics.retrieval(pixels, test_labels),
        "pixels minus their mean": tfdml.metrics.retrieval(pixels - pixels.mean(1, keepdims=True), test_labels),
        "untrained network": evaluation.evaluate(model),
    }
    queries = np.random.default_rng(0).choice(len(test_x), 8, replace=False)
    before = nearest(model.predict(test_x, verbose=0), queries)
    pictures.retrieval_grid(out / "before.png", test_x, test_labels, queries, before, title="Before training")

    checkpoint = out / "checkpoint.keras"
    if options.resume and checkpoint.exists():
        model = keras.saving.load_model(checkpoint)
    done = model.steps
    model.fit(
        sampler.batches(x, labels, start=done),
        steps_per_epoch=steps,
        initial_epoch=done // steps,
        epochs=epochs,
        shuffle=False,
        callbacks=[
            evaluation,
            keras.callbacks.CSVLogger(out / "history.csv", append=done > 0),
            tfdml.callbacks.TrainingCheckpoint(checkpoint),
        ],
    )

    tfdml.export.saved_model(model, out / "saved_model")
    embeddings = served_embeddings(out / "saved_model", test_x)
    table["trained network"] = tfdml.metrics.retrieval(embeddings, test_labels)
    after = nearest(embeddings, queries)
    pictures.retrieval_grid(out / "after.png", test_x, test_labels, queries, after, title="After training")
    with open(out / "history.csv") as file:
        history = {int(row["epoch"]): row for row in csv.DictReader(file)}  # an epoch done twice counts once
    curve = [[float(row[key]) for row in history.values()] for key in ("loss", "val_map@r")]
    untrained = table["untrained network"]["map@r"]
    pictures.training_curve(out / "training.png", [epoch + 1 for epoch in history], *curve, before=untrained)

    results = {
        "protocol": test.protocol + (f"/first-{classes}-classes" if options.quick else ""),
        "seed": options.seed,
        "seconds": round(time.time() - begin, 1),  # of this start only, where it resumed
        "resumed_at_epoch": done // steps,
        **tfdml.environment("pillow", "matplotlib"),
        "results": {name: {key: numbers[key] for key in KEYS} for name, numbers in table.items()},
    }
    (out / "results.json").write_text(json.dumps(results, indent=1))
    print(f"\n{'':24}" + "".join(f"{key:>10}" for key in KEYS))
    for name, numbers in table.items():
        print(f"{name:24}" + "".join(f"{100 * numbers[key]:10.1f}" for key in KEYS))
    print(f"\n{results['seconds']:.0f} seconds; model, pictures and results.json are in {out}")


if __name__ == "__main__":
    main()
