"""Re-identification: characters seen by other type designs, as persons are by other cameras; what refines a search.

Claim: with batch-hard triplets, a character finds itself first in another design for 52% of the queries (42 to 62 over
five seeds, mAP 41), with softmax features for 42% (40 to 43, mAP 30); k-reciprocal re-ranking adds 10 and 7 points of
mAP, database augmentation and query expansion 8 and 5, whitening nothing. Ten trainings and all measurements took 121
processor seconds (AMD EPYC, one thread).

    python recipes/reidentification.py             # batch-hard triplets and softmax features, five seeds each
    python recipes/reidentification.py --quick     # smoke test, under a minute
    python recipes/reidentification.py --dataset market1501 --data Market-1501-v15.09.15 --weights imagenet  # a GPU
    python recipes/reidentification.py --dataset vehicle-id --data VehicleID_V1.0                            # a GPU

Data: glyphs, 32 x 32 pixels, in classes that are disjoint between the splits. An identity is a character, a camera a
type design. Each camera has one query per identity; the other images are the gallery, in which every third identity is
a distractor without a query. Gallery images of the query's identity and camera do not count. The settings of training
and of each refinement are those of the highest mAP on validation characters, seed 0 (`python -m studies
reidentification choice`); the test is opened once.

The original files: Market-1501 with ResNet-50, 128 numbers and batch-hard triplets with a soft margin, 18 persons x 4
images (Hermans et al.); VehicleID with the two-branch network, softmax and coupled clusters (Liu et al.). No run on
either is claimed here.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import tfdml

KEYS = ["cmc@1", "cmc@5", "cmc@10", "map"]
RATES = {"softmax": 1e-2, "batch hard": 3e-3}
CHOSEN = {
    "softmax": {
        "plain": {},
        "query expansion": {"expand": {"k": 2, "alpha": 0.0}},
        "database augmentation": {"augment": {"k": 4, "alpha": 0.0}},
        "both": {"augment": {"k": 4, "alpha": 3.0}, "expand": {"k": 4, "alpha": 3.0}},
        "whitening": {"whiten": {"dim": 64, "shrinkage": 1.0}},
        "k-reciprocal": {"rerank": {"k1": 12, "k2": 4}},
    },
    "batch hard": {
        "plain": {},
        "query expansion": {"expand": {"k": 4, "alpha": 0.0}},
        "database augmentation": {"augment": {"k": 8, "alpha": 0.0}},
        "both": {"augment": {"k": 8, "alpha": 3.0}, "expand": {"k": 8, "alpha": 3.0}},
        "whitening": {"whiten": {"dim": 64, "shrinkage": 1.0}},
        "k-reciprocal": {"rerank": {"k1": 12, "k2": 4}},
    },
}
PUBLISHED = {
    "market1501": {"map": 0.6577, "cmc@1": 0.8469},  # batch hard, soft margin
    "vehicle-id": {"cmc@1": 0.49, "cmc@5": 0.73},  # the small test list
}


def main():
    """Tell the story."""
    options, begin = arguments(), time.process_time()
    options.output.mkdir(parents=True, exist_ok=True)
    results = benchmark(options) if options.data else on_glyphs(options)
    record = {"seeds": options.seeds, "core_seconds": round(time.process_time() - begin, 1), "quick": options.quick}
    (options.output / "results.json").write_text(json.dumps({**results, **record, **tfdml.environment()}, indent=1))
    for name, runs in results["results"].items():
        cells = [f"{key} {mean_and_interval([run[key] for run in runs])}" for key in KEYS if key in runs[0]]
        print(f"{name:36}" + "   ".join(cells))
    print(f"{record['core_seconds']:.0f} processor seconds; see {options.output}")


def arguments():
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of the original files of --dataset")
    parser.add_argument("--dataset", choices=PUBLISHED, default="market1501")
    parser.add_argument("--weights", help='of ResNet-50: "imagenet" or a file; random by default')
    parser.add_argument("--output", type=Path, default=Path("runs/reidentification"))
    parser.add_argument("--quick", action="store_true", help="one seed, few classes, few steps of a small network")
    options = parser.parse_args()
    options.seeds = [1] if options.quick or options.data else [1, 2, 3, 4, 5]
    return options


def on_glyphs(options):
    """CMC and mAP of each seed, by training and refinement; the picture is that of batch hard, the first seed."""
    train, _, test = tfdml.datasets.glyphs(validation=True)
    if options.quick:
        train = train.select_classes(range(40))
        test = replace(test.select_classes(range(60)), protocol=f"{test.protocol}/first-60-classes")
    query, gallery = scene(test)
    results = {}
    for method, chosen in CHOSEN.items():
        for seed in options.seeds:
            print(f"Training: {method}, seed {seed}", flush=True)
            model = trained(method, train, rate=RATES[method], steps=10 if options.quick else 400, seed=seed)
            x, q, g = (tfdml.models.embed(model, images.images) for images in (train, query, gallery))
            for name, settings in chosen.items():
                values = measured(settings, x, query, q, gallery, g)
                results.setdefault(f"{method}, {name}", []).append(values)
            if method == "batch hard" and seed == options.seeds[0]:
                picture(query, q, gallery, g).savefig(options.output / "neighbors.png", dpi=100)
    return {"protocol": query.protocol, "results": results}


def scene(glyphs):
    """Queries and gallery of every second character, with type designs as cameras."""
    protocol = glyphs.protocol.replace("exact-cosine", "designs-as-cameras")
    data = glyphs.select_classes(range(0, len(glyphs.class_names), 2))
    data = replace(data, cameras=data.designs)
    order = np.random.default_rng(0).permutation(len(data))
    identity_and_camera = np.stack([data.labels, data.cameras], axis=1)[order]
    rows = np.sort(order[np.unique(identity_and_camera, axis=0, return_index=True)[1]])
    queries = rows[data.labels[rows] % 3 > 0]
    items = np.setdiff1d(np.arange(len(data)), queries)
    return tuple(replace(data.take(each), protocol=protocol) for each in (queries, items))


def trained(method, train, *, rate, steps, seed, loss=None, mined=None):
    """A network that returns embeddings, after training: of a classifier, or by a loss of P x K batches.

    `mined`, a `MinedPairs`, is for a loss of triplets, drawn from pairs of the whole set that are mined four times.
    """
    keras.utils.set_random_seed(seed)
    model, callbacks = network(), []
    if method == "softmax":
        sampler = tfdml.samplers.UniformSampler(batch_size=72, seed=seed)
        logits = keras.layers.Dense(len(train.class_names))(keras.ops.relu(model.output))
        whole, loss = keras.Model(model.input, logits), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    else:
        sampler = tfdml.samplers.PKSampler(classes_per_batch=18, examples_per_class=4, seed=seed)
        whole, loss = model, loss or tfdml.losses.BatchHardTripletLoss(soft=True)
    if mined is not None:
        sampler = tfdml.samplers.MinedSampler(anchors_per_batch=24, pairs=mined, seed=seed)
        callbacks = [tfdml.callbacks.RefreshMinedPairs(train, pairs=mined)]
    epochs = 4 if callbacks else 1
    warmup = steps // 10
    schedule = keras.optimizers.schedules.CosineDecay(0.0, steps - warmup, warmup_target=rate, warmup_steps=warmup)
    whole.compile(keras.optimizers.Adam(schedule), loss=loss, jit_compile=False)
    options = {"epochs": epochs, "callbacks": callbacks, "shuffle": False, "verbose": 0}
    whole.fit(sampler.batches(train), steps_per_epoch=steps // epochs, **options)
    return model


def network():
    """Features of an image, and a dense layer to 128 numbers."""
    images = keras.Input((32, 32, 1), dtype="uint8")
    return tfdml.models.EmbeddingModel(images, keras.layers.Dense(128)(features_of(images)))


def features_of(images):
    """Two convolutions of standardized images of 32 x 32 pixels, flat."""
    x = keras.ops.cast(images, "float32")
    x = keras.layers.LayerNormalization(axis=(1, 2, 3), center=False, scale=False)(x)
    x = keras.layers.Conv2D(16, 5, strides=2, padding="same", activation="relu")(x)
    x = keras.layers.Conv2D(32, 3, padding="same", activation="relu")(keras.layers.MaxPooling2D()(x))
    return keras.layers.Flatten()(keras.layers.MaxPooling2D()(x))


def measured(settings, x, query, q, gallery, g, metric="cosine"):
    """CMC and mAP after a refinement of the embeddings q and g of queries and gallery; x trained the network."""
    if "whiten" in settings:
        whitening = tfdml.search.Whitening.learn(x, **settings["whiten"])
        q, g = whitening(q), whitening(g)
    if "augment" in settings:
        g = tfdml.search.augment_database(g, **settings["augment"])
    if "expand" in settings:
        q = tfdml.search.expand_queries(q, g, **settings["expand"])
    rerank = tfdml.metrics.KReciprocalReranking(**settings["rerank"]) if "rerank" in settings else None
    items = {"gallery": g, "gallery_labels": gallery.labels, "gallery_cameras": gallery.cameras}
    return tfdml.metrics.reidentification(q, query.labels, query.cameras, **items, metric=metric, rerank=rerank)


def picture(query, q, gallery, g, number=8):
    """Some queries of one camera and their first ten neighbors, without their identities in that camera."""
    rows = np.random.default_rng(1).permutation(np.flatnonzero(query.cameras == 0))[:number]
    counts = (gallery.cameras != 0) | ~np.isin(gallery.labels, query.labels[rows])
    items = gallery.take(counts)
    return tfdml.visualize.retrieval_grid(
        q, query, queries=rows, gallery_embeddings=g[counts], gallery=items, k=10, names=True
    )


def mean_and_interval(values):
    """The mean in percent, and its interval over seeds."""
    if len(values) == 1:
        return f"{100 * values[0]:.1f}"
    low, high = tfdml.metrics.seed_interval(values)
    return f"{100 * np.mean(values):.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def benchmark(options):
    """The network and the loss of the paper on its original files, and the published numbers."""
    size, steps = ((256, 128), 25_000) if options.dataset == "market1501" else ((224, 224), 40_000)
    size, steps, batch = ((64, 32), 4, 2) if options.quick else (size, steps, 18)
    view = tfdml.datasets.Preprocessing(size=size, resize=tuple(side * 9 // 8 for side in size))
    readers = {"market1501": tfdml.datasets.public.market1501, "vehicle-id": tfdml.datasets.public.vehicle_id}
    train, *tests = readers[options.dataset](options.data, load=view)
    sampler = tfdml.samplers.PKSampler(classes_per_batch=batch, examples_per_class=4, short_classes="repeat")
    batches = sampler.batches(train, load=view.uncropped, augment=tfdml.datasets.RandomCrop(size, mirror=True))
    whole, model, loss, batches = persons(size, options, batches) if len(tests) > 1 else vehicles(size, train, batches)
    rate = keras.optimizers.schedules.PiecewiseConstantDecay([steps * 6 // 10, steps * 8 // 10], [3e-4, 3e-5, 3e-6])
    whole.compile(keras.optimizers.Adam(rate), loss=loss)
    whole.fit(batches, steps_per_epoch=steps, shuffle=False)
    x = [tfdml.models.embed(model, test) for test in tests]
    if len(tests) == 1:
        results = {"plain": [tfdml.metrics.random_gallery(x[0], tests[0].labels)]}
    else:
        both = {
            "plain": {},
            "k-reciprocal": {"rerank": {"k1": 20, "k2": 6} if not options.quick else {"k1": 2, "k2": 1}},
        }
        results = {
            name: [measured(each, None, tests[0], x[0], tests[1], x[1], "euclidean")] for name, each in both.items()
        }
    return {"protocol": tests[0].protocol, "results": {**results, "published": [PUBLISHED[options.dataset]]}}


def persons(size, options, batches):
    """ResNet-50 with a head of 1,024 and 128 numbers, and its loss."""
    head = keras.Sequential([keras.layers.Dense(1024), keras.layers.BatchNormalization(), keras.layers.ReLU()])
    model = tfdml.models.from_backbone(
        tiny(size) if options.quick else "ResNet50",
        head=lambda x: keras.layers.Dense(128)(head(x)),
        normalize=False,
        input_shape=(*size, 3),
        weights=options.weights,
    )
    return model, model, tfdml.losses.BatchHardTripletLoss(soft=True), batches


def vehicles(size, train, batches):
    """The two-branch network: all of it, and its embedding; its two losses, and batches with two targets."""
    images = keras.Input((*size, 3))
    outputs = vehicle_network(images, num_models=250, trunk=None if size[0] == 224 else tiny(size))
    whole, model = (tfdml.models.EmbeddingModel(images, output) for output in (outputs, outputs["embedding"]))
    return whole, model, *two_losses(train, batches, tfdml.losses.CoupledClustersLoss())


def two_losses(train, batches, loss):
    """The losses of the two outputs, softmax over models and `loss` of vehicles, and batches with both targets."""
    by_model = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    models = np.zeros(len(train.class_names), "int64")
    models[train.labels] = -1 if train.models is None else train.models  # -1 is ignored
    batches = batches.map(lambda x, y: (x, {"model": tf.gather(models, y), "embedding": y}))
    return {"model": by_model, "embedding": loss}, batches


def tiny(size):
    """A small network for smoke tests."""
    images = keras.Input((*size, 3))
    x = keras.layers.Conv2D(8, 3, strides=4, activation="relu")(keras.layers.Rescaling(1 / 255)(images))
    return keras.Model(images, keras.layers.GlobalAveragePooling2D()(x))


def vehicle_network(images, *, num_models, dim=1024, trunk=None):
    """Two outputs: scores of vehicle models, and an embedding of the vehicle that also sees the features of its model.

    Both branches share the trunk. Two vehicles of different models differ already in the features of the first branch;
    two of the same model are told apart by the second. Vehicles whose model is not known have the model -1.

    Args:
        images: `(batch, height, width, channels)` Keras tensor of pixels in [0, 255].
        num_models: number of vehicle models.
        dim: size of the features of each branch, and of the embedding.
        trunk: function from images to features `(batch, features)`; None for VGG-M, for images of 224 x 224.

    Returns:
        dict of tensors: "model", logits `(batch, num_models)`, and "embedding", unit vectors `(batch, dim)` float32.

    Source: Liu, Tian, Yang, Pang, Huang, Deep Relative Distance Learning: Tell the Difference Between Similar Vehicles,
    CVPR 2016, mixed difference network, as in Serrat, Deep Metric Learning, course slides. Unit vectors are ours.
    """
    features = (trunk or vgg_m)(images)
    model_features = keras.layers.Dense(dim, "relu", name="model_features")(features)
    vehicle_features = keras.layers.Dense(dim, "relu", name="vehicle_features")(features)
    joined = keras.layers.Dense(dim, name="joined")(keras.layers.Concatenate()([model_features, vehicle_features]))
    return {
        "model": keras.layers.Dense(num_models, dtype="float32", name="model")(model_features),
        "embedding": keras.layers.UnitNormalization(dtype="float32", name="embedding")(joined),
    }


def vgg_m(images):
    """VGG-M up to its first dense layer: five convolutions and 4,096 features, for images of 224 x 224.

    Batch normalization stands in for local response normalization after the first two convolutions.

    Source: Chatfield, Simonyan, Vedaldi, Zisserman, Return of the Devil in the Details, BMVC 2014, CNN-M.
    """
    x = keras.layers.Rescaling(1 / 127.5, offset=-1)(images)
    x = keras.layers.Activation("relu")(keras.layers.BatchNormalization()(keras.layers.Conv2D(96, 7, strides=2)(x)))
    x = keras.layers.ZeroPadding2D(1)(keras.layers.MaxPooling2D(3, 2)(x))
    x = keras.layers.Activation("relu")(keras.layers.BatchNormalization()(keras.layers.Conv2D(256, 5, strides=2)(x)))
    x = keras.layers.MaxPooling2D(3, 2, padding="same")(x)
    for _ in range(3):
        x = keras.layers.Conv2D(512, 3, padding="same", activation="relu")(x)
    x = keras.layers.Flatten()(keras.layers.MaxPooling2D(3, 2)(x))
    return keras.layers.Dropout(0.5)(keras.layers.Dense(4096, "relu")(x))


if __name__ == "__main__":
    main()
