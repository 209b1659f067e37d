"""Zero-shot retrieval of characters: train, watch retrieval, export, search, serve.

Claim: a small network learns from 676 characters to find 854 others that it has never seen.
Retrieval is watched on 196 validation classes, and the settings were chosen on them, by
`python -m studies.glyphs --choose`. The test classes are searched once, after training. docs/glyphs.md has the numbers
of several seeds, by `python -m studies.glyphs`. What is left is a model with its card in savedmodels/demo, a report as
an HTML page, and an index of the test images for the server.

    python recipes/glyphs.py                # the whole story, about three minutes on two cores
    python recipes/glyphs.py --resume       # resumes where a run was stopped
    python recipes/glyphs.py --quick        # smoke test: 40 classes, under a minute
"""

import argparse
import csv
import json
import time
from dataclasses import replace
from pathlib import Path

import keras
import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from keras import layers

import tfdml

K = (1, 2, 4, 8)
KEYS = [*(f"recall@{k}" for k in K), "map@r"]
BATCH = (32, 4)  # classes per batch, examples per class
GREEN, RED = "#2a9d4a", "#d1495b"


def main():
    """Tell the story."""
    begin, options = time.time(), arguments()
    out = options.output
    out.mkdir(parents=True, exist_ok=True)

    epochs, steps = (2, 30) if options.quick else (10, 92)
    train, validation, test = quick_parts() if options.quick else tfdml.datasets.glyphs(validation=True)
    print(f"{len(train)} images to train on, {len(test)} of other classes to search in")

    keras.utils.set_random_seed(options.seed)
    model = build_model(epochs * steps)
    evaluation = tfdml.callbacks.RetrievalEvaluation(validation)
    before = evaluation.evaluate(model)["map@r"]
    untrained = tfdml.models.embed(model, test)

    model, start = fitted(model, train, evaluation, epochs, steps, options)
    entry = zoo_entry(model, test, options)
    trained = served_embeddings(entry / "1", test.images)
    tfdml.evaluate(trained, test).html(out / "report.html")
    save_index(out / "index", trained, test)

    draw_history(out / "training.png", out / "history.csv", before=before)
    for name, embeddings in {"before": untrained, "after": trained}.items():
        pictures, title = 255 - test.images, f"{name.title()} training"
        figure = tfdml.visualize.retrieval_grid(embeddings, pictures, test.labels, title=title)
        figure.savefig(out / f"{name}.png", dpi=120)
    methods = {**pixels(test.images), "untrained network": untrained, "trained network": trained}
    results = {name: tfdml.metrics.retrieval(embeddings, test.labels, k=K) for name, embeddings in methods.items()}
    facts = {
        "protocol": test.protocol,
        "seed": options.seed,
        "seconds": round(time.time() - begin, 1),  # since this start, also of a resumed run
        "resumed_at_epoch": start // steps,
    }
    report(out, facts, results)
    print(f"{entry} holds the model and its card, {out / 'report.html'} what to know about its mistakes.")
    print(f"Search by your own drawings: tfdml serve {entry} --index {out / 'index'}")


def arguments():
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="40 classes, 2 short epochs")
    parser.add_argument("--resume", action="store_true", help="resume from the last whole epoch in --output")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("runs/glyphs"))
    parser.add_argument("--models", type=Path, default=Path("savedmodels/demo"), help="where the model is kept")
    return parser.parse_args()


def build_model(steps, *, loss=None, learning_rate=1e-2, augmentation=()):
    """A small network, compiled for `steps` training steps; its augmentation is a sequence of layers."""
    images = keras.Input((32, 32, 1), dtype="uint8")
    x = layers.Rescaling(1 / 255)(images)
    for layer in augmentation:
        x = layer(x)
    model = tfdml.models.EmbeddingModel(images, tfdml.models.plain_cnn(x, dim=128))
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, steps * 9 // 10, warmup_target=learning_rate, warmup_steps=steps // 10
    )
    model.compile(keras.optimizers.Adam(rate), loss=loss or tfdml.losses.NTXentLoss())
    return model


def fitted(model, train, evaluation, epochs, steps, options):
    """The trained model, and the step at which this run started."""
    classes, examples = (8, 4) if options.quick else BATCH
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=classes, examples_per_class=examples, seed=options.seed)
    checkpoint = options.output / "checkpoint.keras"
    if options.resume and checkpoint.exists():
        model = keras.saving.load_model(checkpoint)
    start = model.steps
    model.fit(
        sampler.batches(train, start=start),
        steps_per_epoch=steps,
        initial_epoch=start // steps,
        epochs=epochs,
        shuffle=False,
        callbacks=[
            evaluation,
            keras.callbacks.CSVLogger(options.output / "history.csv", append=start > 0),
            tfdml.callbacks.TrainingCheckpoint(checkpoint),
        ],
    )
    return model, start


def quick_parts(classes=40):
    """The first classes of each split, with protocols that say so."""
    splits = tfdml.datasets.glyphs(validation=True)
    few = [data.select_classes(range(classes)) for data in splits]
    return [replace(less, protocol=f"{data.protocol}/first-{classes}") for less, data in zip(few, splits, strict=True)]


def zoo_entry(model, test, options):
    """The folder of the model, with a card of its numbers on the test classes."""
    flags = " --quick" * options.quick + f" --seed {options.seed}"
    return tfdml.zoo.save(
        model,
        "glyphs",
        test,
        summary="Images of characters, gray: finds the same character in another typeface.",
        recipe="recipes/glyphs.py",
        command=f"python recipes/glyphs.py{flags}",
        seed=options.seed,
        license="Apache-2.0",
        training={"loss": model.loss.name, "optimizer": model.optimizer.name, "steps": model.steps},
        selection="The best of 12 trials on validation classes: results/glyphs_choice.csv.",
        root=options.models,
    )


def save_index(folder, embeddings, test):
    """Write the test images as files, and an index of their embeddings that knows them."""
    images = folder.with_name("images").resolve()
    images.mkdir(exist_ok=True)
    paths = [str(images / f"{row}.png") for row in range(len(test))]
    for path, image in zip(paths, test.images, strict=True):
        keras.utils.save_img(path, image, scale=False)
    labels = [test.class_names[label] for label in test.labels]
    tfdml.search.Exact(embeddings, metadata={"path": paths, "label": labels}).save(folder)


def pixels(images):
    """The pixels as embeddings."""
    x = images.reshape(len(images), -1).astype("float32")
    return {"raw pixels": x, "pixels minus their mean": x - x.mean(1, keepdims=True)}


def served_embeddings(path, images):
    """Embeddings from an exported model, as a server would make them."""
    embed = tf.saved_model.load(str(path)).signatures["serving_default"]
    batches = [embed(images=tf.constant(images[i : i + 512]))["embedding"] for i in range(0, len(images), 512)]
    return np.concatenate(batches)


def draw_history(path, history, *, before):
    """Draw the loss and MAP@R after each epoch, with MAP@R before training at 0."""
    with open(history) as file:
        rows = {int(row["epoch"]) + 1: row for row in csv.DictReader(file)}  # the later one of a repeated epoch
    loss, map_at_r = ([float(row[key]) for row in rows.values()] for key in ("loss", "val_map@r"))
    figure, left = plt.subplots(figsize=(6, 3.6))
    left.plot(list(rows), loss, color=RED, marker="o", markersize=3)
    left.set_xlabel("epoch")
    left.set_ylabel("training loss", color=RED)
    left.set_ylim(0, 1.1 * max(loss))
    right = left.twinx()
    right.plot([0, *rows], 100 * np.array([before, *map_at_r]), color=GREEN, marker="o", markersize=3)
    right.set_ylabel("MAP@R of validation classes, %", color=GREEN)
    right.set_ylim(0, None)
    for axes in (left, right):
        axes.spines["top"].set_visible(False)
    save(figure, path)


def report(folder, facts, results):
    """Write results.json and print the table."""
    numbers = {name: {key: scores[key] for key in KEYS} for name, scores in results.items()}
    facts = {**facts, **tfdml.environment("pillow", "matplotlib"), "results": numbers}
    (folder / "results.json").write_text(json.dumps(facts, indent=1))
    print(f"\n{'':24}" + "".join(f"{key:>10}" for key in KEYS))
    for name, scores in numbers.items():
        print(f"{name:24}" + "".join(f"{100 * scores[key]:10.1f}" for key in KEYS))
    print(f"\n{facts['seconds']:.0f} seconds; model, pictures and results.json are in {folder}")


def save(figure, path):
    """Write a figure as PNG and close it."""
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
