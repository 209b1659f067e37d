"""Sketch to product: outlines of characters search filled ones, with two towers of shared or of separate weights.

Claim: an outline of an unseen character finds the character first, drawn by other designers, for 57.1% of the queries
(56.7 to 57.6 over three seeds) with shared weights, for 55.7% (54.0 to 56.7) with separate ones, and for 19.3% by the
pixels of outlines. Six trainings took 20 minutes on two busy cores (Intel Xeon), two to four minutes each.

    python recipes/sketches.py              # both kinds, three seeds each
    python recipes/sketches.py --choose     # the settings, on validation classes, with seed 0
    python recipes/sketches.py --quick      # smoke test, under a minute

Data: glyphs, 32 x 32 pixels, in classes that are disjoint between the splits. Queries are outlines (the morphological
gradient) of the characters in three type designs, the gallery the filled characters of two other designs. The learning
rate and the temperature of each kind are the best of four on validation classes, seed 0; each model is tested once.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np

import tfdml

KEYS = ["recall@1", "recall@8", "map@r"]
CHOSEN = {"shared": {"rate": 1e-2, "temperature": 0.1}, "separate": {"rate": 3e-3, "temperature": 0.1}}
GRID = [{"rate": rate, "temperature": temperature} for rate in (1e-2, 3e-3) for temperature in (0.1, 0.05)]


def main():
    """Tell the story."""
    options, begin = arguments(), time.time()
    options.output.mkdir(parents=True, exist_ok=True)
    splits = tfdml.datasets.glyphs(validation=True)
    if options.quick:
        splits = [
            replace(data.select_classes(range(40)), protocol=f"{data.protocol}/first-40-classes") for data in splits
        ]
    train, validation, test = map(tfdml.datasets.sketches, splits)
    measured = validation if options.choose else test
    evaluation = tfdml.callbacks.RetrievalEvaluation(measured[0], gallery=measured[1], k=(1, 8))

    results = {"pixels": [pixels(*measured)]}
    for kind, chosen in CHOSEN.items():
        for settings in GRID if options.choose else [chosen]:
            name = f"{kind} {settings}" if options.choose else kind
            models = [trained(kind, settings, train, seed, options) for seed in options.seeds]
            results[name] = [evaluation.evaluate(model) for model in models]
        for tower in models[0].towers:
            tfdml.export.saved_model(tower, options.output / kind / tower.name)

    about = {
        "protocol": measured[0].protocol,
        "seeds": options.seeds,
        "seconds": round(time.time() - begin, 1),
        **tfdml.environment("pillow", "matplotlib"),
        "results": {name: [{key: run[key] for key in KEYS} for run in runs] for name, runs in results.items()},
    }
    (options.output / "results.json").write_text(json.dumps(about, indent=1))
    print(f"\n{'mean and range over seeds, %':48}" + "".join(f"{key:>20}" for key in KEYS))
    for name, runs in results.items():
        values = 100 * np.array([[run[key] for run in runs] for key in KEYS])
        cells = [f"{row.mean():.1f} [{row.min():.1f}, {row.max():.1f}]" for row in values]
        print(f"{name:48}" + "".join(f"{cell:>20}" for cell in cells))
    print(f"{about['seconds']:.0f} seconds; results.json and both towers are in {options.output}")


def arguments():
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--choose", action="store_true", help="measure all settings on validation classes, with seed 0")
    parser.add_argument("--output", type=Path, default=Path("runs/sketches"))
    parser.add_argument("--quick", action="store_true", help="40 classes, one seed, 10 training steps")
    options = parser.parse_args()
    options.seeds = [0] if options.choose or options.quick else [0, 1, 2]
    return options


def trained(kind, settings, train, seed, options):
    """Two towers after training, with the same weights if shared."""
    keras.utils.set_random_seed(seed)
    model = tfdml.models.TwoTowers(query := network(), query if kind == "shared" else network())
    steps, classes = (10, 8) if options.quick else (300, 64)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, steps * 9 // 10, warmup_target=settings["rate"], warmup_steps=steps // 10
    )
    loss = tfdml.losses.NTXentLoss(temperature=settings["temperature"], pairing=tfdml.pairs.two_towers)
    model.compile(keras.optimizers.Adam(rate), loss=loss)
    sampler = tfdml.samplers.TwoSetSampler(classes_per_batch=classes, seed=seed)
    print(f"Training: {kind}, {settings}, seed {seed}", flush=True)
    model.fit(sampler.batches(*train), steps_per_epoch=steps, shuffle=False, verbose=2)
    return model


def network():
    """A small network from an image to a unit vector."""
    images = keras.Input((32, 32, 1), dtype="uint8")
    return tfdml.models.EmbeddingModel(images, tfdml.models.plain_cnn(images))


def pixels(queries, gallery):
    """Metrics of the pixels as embeddings; those of the gallery are outlined, too."""
    images = queries.images, tfdml.datasets.outlines(gallery.images)
    x, y = (side.reshape(len(side), -1).astype("float32") for side in images)
    return tfdml.metrics.retrieval(x, queries.labels, gallery=y, gallery_labels=gallery.labels, k=(1, 8))


if __name__ == "__main__":
    main()
