"""Zero-shot retrieval of characters: train, watch retrieval, export, search.

Claim: a small network learns from 872 characters to find 854 others that it has never seen.
The README has the numbers of five seeds, by `python -m studies.glyphs`.

    python recipes/glyphs.py                # the whole story, four minutes on two cores
    python recipes/glyphs.py --resume       # resumes where a run was stopped
    python recipes/glyphs.py --quick        # smoke test: 40 classes, under a minute
"""

import argparse
import csv
import json
import time
from pathlib import Path

import keras
import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from keras import layers

import tfdml

KEYS = ["recall@1", "recall@2", "recall@4", "recall@8", "map@r"]
RIGHT, WRONG = "#2a9d4a", "#d1495b"


def main():
    """Tell the story."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="40 classes, 2 short epochs")
    parser.add_argument("--resume", action="store_true", help="resume from the last whole epoch in --output")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("runs/glyphs"))
    options = parser.parse_args()
    begin, out = time.time(), options.output
    out.mkdir(parents=True, exist_ok=True)

    train, test = tfdml.datasets.glyphs()
    classes, per_batch, epochs, steps = (40, 8, 2, 30) if options.quick else (10_000, 32, 10, 92)
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
    draw_neighbors(out / "before.png", test_x, test_labels, queries, before, title="Before training")

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
    draw_neighbors(out / "after.png", test_x, test_labels, queries, after, title="After training")
    draw_history(out / "training.png", out / "history.csv", before=table["untrained network"]["map@r"])

    results = {
        "protocol": test.protocol + (f"/first-{classes}-classes" if options.quick else ""),
        "seed": options.seed,
        "seconds": round(time.time() - begin, 1),  # since this start, also of a resumed run
        "resumed_at_epoch": done // steps,
        **tfdml.environment("pillow", "matplotlib"),
        "results": {name: {key: numbers[key] for key in KEYS} for name, numbers in table.items()},
    }
    (out / "results.json").write_text(json.dumps(results, indent=1))
    print(f"\n{'':24}" + "".join(f"{key:>10}" for key in KEYS))
    for name, numbers in table.items():
        print(f"{name:24}" + "".join(f"{100 * numbers[key]:10.1f}" for key in KEYS))
    print(f"\n{results['seconds']:.0f} seconds; model, pictures and results.json are in {out}")


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


def draw_neighbors(path, images, labels, queries, neighbors, *, title):
    """Draw one line per query: the query, then its neighbors, framed green if of the same class, else red."""
    rows, columns = neighbors.shape[0], neighbors.shape[1] + 1
    figure, axes = plt.subplots(rows, columns, figsize=(0.8 * columns, 0.8 * rows + 0.5), squeeze=False)
    for query, found, line in zip(queries, neighbors, axes, strict=True):
        for place, (row, axis) in enumerate(zip([query, *found], line, strict=True)):
            axis.imshow(images[row, :, :, 0], cmap="gray_r", vmin=0, vmax=255)
            axis.set(xticks=[], yticks=[])
            color = "black" if place == 0 else RIGHT if labels[row] == labels[query] else WRONG
            plt.setp(axis.spines.values(), color=color, linewidth=2.5 if place else 1)
    axes[0, 0].set_title("query", fontsize=9)
    axes[0, 1].set_title("nearest", fontsize=9)
    figure.suptitle(title, fontsize=11)
    save(figure, path)


def draw_history(path, history, *, before):
    """Draw the loss and MAP@R after each epoch, with MAP@R before training at 0."""
    with open(history) as file:
        rows = {int(row["epoch"]) + 1: row for row in csv.DictReader(file)}  # the later one of a repeated epoch
    loss, map_at_r = ([float(row[key]) for row in rows.values()] for key in ("loss", "val_map@r"))
    figure, left = plt.subplots(figsize=(6, 3.6))
    left.plot(list(rows), loss, color=WRONG, marker="o", markersize=3)
    left.set_xlabel("epoch")
    left.set_ylabel("training loss", color=WRONG)
    left.set_ylim(0, 1.1 * max(loss))
    right = left.twinx()
    right.plot([0, *rows], 100 * np.array([before, *map_at_r]), color=RIGHT, marker="o", markersize=3)
    right.set_ylabel("MAP@R of test classes, %", color=RIGHT)
    right.set_ylim(0, None)
    for axes in (left, right):
        axes.spines["top"].set_visible(False)
    save(figure, path)


def save(figure, path):
    """Write a figure as PNG and close it."""
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
