"""Sketch to product: outline drawings as queries, filled pictures as the gallery, and two towers.

    python recipes/sketches.py --quick
"""

import argparse
import json
import time
from pathlib import Path

import keras
import numpy as np

import tfdml

KEYS = ["recall@1", "recall@8", "map@r"]


def main():
    """Tell the story."""
    options, begin = arguments(), time.time()
    options.output.mkdir(parents=True, exist_ok=True)
    train, validation, test = (sides(part) for part in read(options))
    watched = tfdml.callbacks.RetrievalEvaluation(validation[0], gallery=validation[1], k=(1, 8), every=5)
    measured = watched if options.choose else tfdml.callbacks.RetrievalEvaluation(test[0], gallery=test[1], k=(1, 8))

    table = {"pixels": pixels(*(validation if options.choose else test))}
    for kind in ("shared", "separate"):
        runs = [measured.evaluate(trained(kind, seed, train, watched, options)) for seed in options.seeds]
        table[kind] = {key: [run[key] for run in runs] for key in KEYS}
    print(table, time.time() - begin)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--classes", type=int, default=64)
    parser.add_argument("--examples", type=int, default=2)
    parser.add_argument("--loss", default="ntxent")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--temperature", type=float, default=0.1)
    parser.add_argument("--output", type=Path, default=Path("runs/sketches"))
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--quick", action="store_true")
    return parser.parse_args()


def read(options):
    parts = tfdml.datasets.glyphs(validation=True)
    return [part.classes(range(40)) for part in parts] if options.quick else parts


def sides(part):
    """Outlines in the typefaces of three designs as queries, filled characters of the other two as the gallery."""
    sketched = part.designs % 2 == 0
    return (outlines(part.images[sketched]), part.labels[sketched]), (part.images[~sketched], part.labels[~sketched])


def outlines(images):
    """The morphological gradient of images: the maximum minus the minimum of 3 x 3 pixels."""
    height, width = images.shape[1:3]
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    shifted = [padded[:, row : row + height, column : column + width] for row in range(3) for column in range(3)]
    return np.max(shifted, axis=0) - np.min(shifted, axis=0)


def tower():
    images = keras.Input((32, 32, 1), dtype="uint8")
    return tfdml.models.EmbeddingModel(images, tfdml.models.plain(images))


def trained(kind, seed, train, watched, options):
    keras.utils.set_random_seed(seed)
    query = tower()
    model = tfdml.models.TwoTowers(query, query if kind == "shared" else tower())
    epochs, steps = (1, 5) if options.quick else (5, options.steps // 5)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, epochs * steps * 9 // 10, warmup_target=options.lr, warmup_steps=max(1, epochs * steps // 10)
    )
    loss = {
        "ntxent": lambda: tfdml.losses.NTXentLoss(temperature=options.temperature, pairing=tfdml.pairs.two_towers),
        "supcon": lambda: tfdml.losses.SupConLoss(temperature=options.temperature, pairing=tfdml.pairs.two_towers),
        "ms": lambda: tfdml.losses.MultiSimilarityLoss(pairing=tfdml.pairs.two_towers),
    }[options.loss]()
    model.compile(keras.optimizers.Adam(rate), loss=loss)
    sampler = tfdml.samplers.TwoSetSampler(classes_per_batch=options.classes if not options.quick else 8, examples_per_class=options.examples, seed=seed)
    begin = time.time()
    history = model.fit(sampler.batches(*train), steps_per_epoch=steps, epochs=epochs, shuffle=False, verbose=0, callbacks=[watched])
    print(kind, seed, options.lr, options.classes, options.examples, options.loss, options.temperature, history.history["loss"], history.history["val_recall@1"], history.history["val_map@r"], f"{time.time() - begin:.0f}s", flush=True)
    return model


def pixels(queries, gallery):
    x, y = (part[0].reshape(len(part[0]), -1).astype("float32") for part in (queries, gallery))
    return tfdml.metrics.retrieval(x, queries[1], gallery=y, gallery_labels=gallery[1], k=(1, 8))


if __name__ == "__main__":
    main()
