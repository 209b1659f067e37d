"""Localization: a photo of a place finds the tile of a map that shows it, with two towers.

Claim: with separate weights, 29.0% of photos of unseen places have their tile in the first hundredth of the map (27.1
to 30.8 over five seeds), with shared weights 8.9% (8.0 to 9.9), by gray pixels 15.9%. Ten trainings took 413 seconds of
processor time (AMD EPYC, two cores).

    python -m recipes.localization              # two separate towers and one shared, five seeds each
    python -m recipes.localization --choose     # the settings, on validation photographs, with seed 0
    python -m recipes.localization --quick      # smoke test, under a minute
    python -m recipes.localization --data pairs.csv --image-size 224    # your own photos and tiles

The task is from Vo and Hays, Localizing and orienting street views using overhead imagery, ECCV 2016: recall at 1% of
the gallery. Their photos and aerial tiles look different, so the two towers of the paper have separate weights.

Data: photo patches. A query is a view of a place: 33 to 70 pixels of a photograph, turned, lit, covered. The gallery
has one tile per place: 96 pixels, drawn in the five colors of a map. Photographs of the splits are disjoint. `--data`
takes a table with the columns path, label (the place), domain (photo or tile) and split (train, validation, test). Rate
and temperature are chosen on validation photographs, each model is tested once. Gray pixels of both are the baseline.
"""

import time
from dataclasses import replace

import keras
import numpy as np

import tfdml
from recipes import localization, two_domains

KS = (1, 5, "1%")
KEYS = [f"recall@{k}" for k in KS]
GRID = [
    {"rate": rate, "temperature": temperature}
    for rate, temperature in ((3e-3, 0.05), (3e-3, 0.1), (1e-2, 0.1), (1e-2, 0.2), (3e-2, 0.1))
]
CHOSEN = {"separate": {"rate": 1e-2, "temperature": 0.1}, "shared": {"rate": 1e-2, "temperature": 0.1}}
SIDE = 48  # of the images of both domains


def main():
    """Tell the story."""
    options, begin = arguments(), time.process_time()
    options.output.mkdir(parents=True, exist_ok=True)
    train, validation, test = from_table(options) if options.data else embedded(options.quick)
    queries, gallery = validation if options.choose else test
    results = {"pixels": [means(pixels(queries, gallery))]}
    values = {}
    for kind, chosen in CHOSEN.items():
        for settings in GRID if options.choose else [chosen]:
            name = f"{kind} {settings}" if options.choose else kind
            models = [trained(kind, settings, train, seed, options) for seed in options.seeds]
            values[name] = [measured(model, queries, gallery) for model in models]
            results[name] = [means(run) for run in values[name]]
            print(name, results[name], flush=True)
            if kind == "separate" and not options.choose:
                draw(models[0], queries, gallery, options.output / "localization.png")
    others, key = {}, "recall@1%"
    if not options.choose:
        difference = two_domains.difference(values["separate"], values["shared"], queries.labels, key)
        others[f"separate - shared, {key}"] = difference
    two_domains.write(options, gallery.protocol, time.process_time() - begin, results, others)


def arguments():
    """The options of the command line."""
    columns, quick = "path, label, domain and split", "40 places, one seed, 5 training steps"
    options = two_domains.arguments(__doc__, "localization", columns, quick)
    options.steps, options.places = (5, 16) if options.quick else (150, 48)
    return options


def embedded(quick):
    """Views and tiles of the places of the three splits; the middle of a view is as large as a tile."""
    parts = tfdml.datasets.photo_patches()
    parts = [part.select_classes(range(40)) for part in parts] if quick else parts
    edge = (parts[0].images.shape[1] - SIDE) // 2
    middle = [cropped(part, slice(edge, edge + SIDE)) for part in parts]
    return [(views, localization.map_tiles(views)) for views in middle]


def cropped(part, window):
    """A set with the same pixels of all of its images."""
    return replace(part, images=part.images[:, window, window])


def from_table(options):
    """The same from a table: one row per photo or tile."""
    load = tfdml.datasets.Preprocessing(size=options.image_size)
    parts = tfdml.datasets.table(options.data, splits=("train", "validation", "test"), group="domain", load=load)
    # Groups are numbered in the order of their names: photo, tile.
    return [(part.take(part.groups == 0), part.take(part.groups == 1)) for part in parts]


def trained(kind, settings, train, seed, options):
    """Two towers after training, with the same weights if shared."""
    keras.utils.set_random_seed(seed)
    shape = next(iter(train[0].batches(1)))[0].shape[1:]
    photos = network(shape)
    model = tfdml.models.TwoTowers(photos, photos if kind == "shared" else network(shape))
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, options.steps * 9 // 10, warmup_target=settings["rate"], warmup_steps=options.steps // 10
    )
    model.compile(keras.optimizers.Adam(rate), loss=tfdml.losses.CLIPLoss(temperature=settings["temperature"]))
    sampler = tfdml.samplers.TwoSetSampler(classes_per_batch=options.places, seed=seed)
    model.fit(sampler.batches(*train), steps_per_epoch=options.steps, shuffle=False, verbose=0)
    return model


def network(shape):
    """A small network from an image to a unit vector."""
    images = keras.Input(shape, dtype="uint8")
    return tfdml.models.EmbeddingModel(images, tfdml.models.residual_cnn(images, stem=(16,), widths=(16, 32, 64)))


def measured(model, queries, gallery):
    """Metrics of each photo as a query among the tiles."""
    towers = zip(model.towers, (queries, gallery), strict=True)
    return retrieval(*(tfdml.models.embed(tower, part) for tower, part in towers), queries, gallery)


def pixels(queries, gallery):
    """The same for gray pixels without their mean; a tile shows twice the square, so its middle is enlarged."""
    x, y = (part.examples().mean(axis=-1) for part in (queries, gallery))
    quarter = y.shape[1] // 4
    y = y[:, quarter:-quarter, quarter:-quarter].repeat(2, axis=1).repeat(2, axis=2)
    flat = [images.reshape(len(images), -1) for images in (x, y)]
    return retrieval(*(rows - rows.mean(axis=1, keepdims=True) for rows in flat), queries, gallery)


def retrieval(x, y, queries, gallery):
    """Values of each query."""
    options = {"gallery": y, "gallery_labels": gallery.labels, "per_query": True, "full_map": False}
    return tfdml.metrics.retrieval(x, queries.labels, k=KS, **options)


def means(values):
    """Means over queries."""
    return {key: float(np.nanmean(values[key])) for key in KEYS}


def draw(model, queries, gallery, path):
    """A picture of photos and the first eight tiles of each."""
    x, y = (tfdml.models.embed(tower, part) for tower, part in zip(model.towers, (queries, gallery), strict=True))
    grid = tfdml.visualize.retrieval_grid(x, queries, gallery_embeddings=y, gallery=gallery, title="Photos find tiles")
    grid.savefig(path, dpi=100)


if __name__ == "__main__":
    main()
