"""Search across two domains with two heads: objects in scenes search a catalog of products.

Claim: with both heads and embeddings of norm 1 (D), 17.3% of scenes of unseen characters have their product among the
first ten (16.4 to 18.2 over five seeds), with the features of a classifier (A) 12.4%, by the contrastive loss alone (B)
13.3%. D is ahead of A by 1.6 points of Recall@1 (1.3 to 1.9 over classes). The networks are small and trained for 25
seconds each, so the level is low. 517 seconds of processor time in all (AMD EPYC, two cores).

    python -m recipes.product_search              # four architectures, five seeds each
    python -m recipes.product_search --choose     # the settings, on validation classes, with seed 0
    python -m recipes.product_search --quick      # smoke test, under a minute
    python -m recipes.product_search --data products.csv --image-size 224    # your own photos

Architectures of Bell and Bala, Learning visual similarity for product design with convolutional neural networks,
SIGGRAPH 2015. Both domains go through one network; they differ in its heads and losses:

    A  the category of an object by cross-entropy; the features before it are the embedding: what a classifier gives
    B  an embedding with the contrastive loss
    C  both heads and both losses
    D  as C, with embeddings of norm 1

Data: glyphs painted on photographs (scenes) against plain glyphs of other type designs (products), in classes that are
disjoint between the splits; a category is a script and a kind of letter, such as GREEK Lu. Scenes of the splits have
different photographs. `--data` takes a table with the columns path, label, domain (scene or product), category and
split (train, validation, test). Learning rate and margin have the best recall@10 of six settings on validation classes;
each model is tested once.
"""

import time
import unicodedata
from dataclasses import replace

import keras
import numpy as np
import tensorflow as tf

import tfdml
from recipes import product_search, two_domains

KS = (1, 10, "1%")
KEYS = [f"recall@{k}" for k in KS]
GRID = [{"rate": rate, "margin": margin} for rate in (3e-3, 1e-2, 3e-2) for margin in (0.5, 1.0)]
CHOSEN = {
    "A": {"rate": 1e-2, "margin": 1.0},
    "B": {"rate": 3e-2, "margin": 1.0},
    "C": {"rate": 3e-2, "margin": 1.0},
    "D": {"rate": 1e-2, "margin": 1.0},
}
CATEGORY_WEIGHT = 0.2


def main():
    """Tell the story."""
    options, begin = arguments(), time.process_time()
    options.output.mkdir(parents=True, exist_ok=True)
    splits = from_table(options) if options.data else embedded(options.quick)
    train, (scenes, products) = splits[0], splits[1 if options.choose else 2]
    results, values = {}, {}
    for kind, chosen in options.chosen.items():
        for settings in grid(kind) if options.choose else [chosen]:
            name = f"{kind} {settings}" if options.choose else kind
            heads = [trained(kind, settings, train, seed, options) for seed in options.seeds]
            values[name] = [measured(head, scenes, products) for head in heads]
            results[name] = [{key: float(np.nanmean(run[key])) for key in KEYS} for run in values[name]]
            print(name, results[name], flush=True)
    others = {}
    if not options.choose:
        others["D - A, recall@1"] = two_domains.difference(values["D"], values["A"], scenes.labels, "recall@1")
        draw(heads[0], scenes, products, options.output / "product-search.png")
    two_domains.write(options, scenes.protocol, time.process_time() - begin, results, others)


def grid(kind):
    """The settings to choose from; the classifier has no margin."""
    return [settings for settings in GRID if kind != "A" or settings["margin"] == 1.0]


def arguments():
    """The options of the command line."""
    columns, quick = "path, label, domain, category and split", "A and D, 40 classes, one seed, 5 training steps"
    options = two_domains.arguments(__doc__, "product-search", columns, quick)
    options.chosen = {kind: CHOSEN[kind] for kind in ("AD" if options.quick else CHOSEN)}
    options.steps, options.classes = (5, 8) if options.quick else (150, 32)
    return options


def embedded(quick):
    """Training, validation and test part: pairs `(scenes, products)`; the first one with the categories of classes."""
    patches = tfdml.datasets.photo_patches()
    parts = tfdml.datasets.glyphs(validation=True)
    if quick:
        parts = [replace(part.select_classes(range(40)), protocol=f"{part.protocol}/quick") for part in parts]
    pairs = [product_search.scenes(glyphs, photos) for glyphs, photos in zip(parts, patches, strict=True)]
    names = [f"{unicodedata.name(name[0]).split()[0]} {unicodedata.category(name[0])}" for name in parts[0].class_names]
    return (pairs[0], np.unique(names, return_inverse=True)[1]), pairs[1], pairs[2]


def from_table(options):
    """The same from a table: one row per photo of either domain."""
    load = tfdml.datasets.Preprocessing(size=options.image_size)
    parts = tfdml.datasets.table(options.data, splits=("train", "validation", "test"), group="domain", load=load)
    rows = tfdml.datasets.table(options.data, label="category", splits=("train",), load=load)[0]
    categories = np.zeros(len(parts[0].class_names), np.int64)
    categories[parts[0].labels] = rows.labels
    # Groups are numbered in the order of their names: product, scene.
    pairs = [(part.take(part.groups == 1), part.take(part.groups == 0)) for part in parts]
    return (pairs[0], categories), pairs[1], pairs[2]


def trained(kind, settings, train, seed, options):
    """The head that embeds, after training on both domains in one table."""
    (scenes, products), categories = train
    keras.utils.set_random_seed(seed)
    images = np.concatenate([scenes.examples(), products.examples()])
    labels = np.concatenate([scenes.labels, products.labels])
    inputs = keras.Input(images.shape[1:], dtype="uint8")
    features = (
        keras.Model(inputs, tfdml.models.residual_cnn(inputs, stem=(16,), widths=(16, 32, 64))).layers[-2].output
    )  # before normalization
    features = keras.layers.ReLU(name="features")(features)
    vectors = keras.layers.Dense(64, name="vectors")(features)
    embedding = keras.layers.UnitNormalization(name="unit")(vectors) if kind == "D" else vectors
    category = keras.layers.Dense(int(categories.max()) + 1, name="category")(features)
    heads = {"embedding": embedding, "category": category}
    losses = {
        "embedding": tfdml.losses.ContrastiveLoss(negative_margin=settings["margin"]),
        "category": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    }
    used = {"A": ["category"], "B": ["embedding"]}.get(kind, list(heads))
    model = tfdml.models.EmbeddingModel(inputs, {name: heads[name] for name in used})
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, options.steps * 9 // 10, warmup_target=settings["rate"], warmup_steps=options.steps // 10
    )
    weights = {"embedding": 1.0, "category": 1.0 if kind == "A" else CATEGORY_WEIGHT}
    model.compile(
        keras.optimizers.Adam(rate),
        loss={name: losses[name] for name in used},
        loss_weights={name: weights[name] for name in used},
    )
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=options.classes, examples_per_class=4, seed=seed)

    def targets(images, labels):
        both = {"embedding": labels, "category": tf.gather(categories, labels)}
        return images, {name: both[name] for name in used}

    batches = sampler.batches(images, labels).map(targets)
    model.fit(batches, steps_per_epoch=options.steps, shuffle=False, verbose=0)
    return keras.Model(inputs, features if kind == "A" else embedding)


def measured(head, scenes, products):
    """Metrics of each scene as a query among the products."""
    queries, gallery = (tfdml.models.embed(head, part) for part in (scenes, products))
    options = {"gallery": gallery, "gallery_labels": products.labels, "metric": "euclidean", "full_map": False}
    return tfdml.metrics.retrieval(queries, scenes.labels, k=KS, per_query=True, **options)


def draw(head, scenes, products, path):
    """A picture of scenes and the first eight products of each."""
    vectors = [tfdml.models.embed(head, part) for part in (scenes, products)]
    grid = tfdml.visualize.retrieval_grid(
        vectors[0], scenes, gallery_embeddings=vectors[1], gallery=products, names=True, title="Scenes search products"
    )
    grid.savefig(path, dpi=100)


if __name__ == "__main__":
    main()
