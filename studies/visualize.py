"""Pictures of embeddings: those of docs/visualize.md.

python -m studies.visualize    # draws docs/images/visualize-*.png and visualize-training.gif, two minutes of one core
"""

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import layers

import tfdml
from studies import pages


def grid(path, photos):
    """Nearest photo patches by centered pixels, eight queries."""
    figure = tfdml.visualize.retrieval_grid(pixels(photos), photos, queries=6, names=True, scores=True)
    figure.savefig(path, dpi=100)


def thumbnails(path, photos):
    """A map of 1,000 photo patches by centered pixels."""
    some = photos.take(np.random.default_rng(0).permutation(len(photos))[:1000])
    tfdml.visualize.embedding_map(pixels(some), some).savefig(path, dpi=80)


def shares(path, photos):
    """Two views of each of four places, with the shares of their places in the similarity."""
    model = tfdml.zoo.load("photo-patches-imagenet")
    figure, axes = plt.subplots(2, 4, figsize=(8, 4), layout="constrained")
    for column, label in zip(axes.T, (5, 20, 40, 60), strict=True):
        rows = np.flatnonzero(photos.labels == label)[:2]
        maps = tfdml.visualize.similarity_map(model, *photos.images[rows])
        column[0].set_title(f"cosine {maps[0].sum():.2f}", fontsize=9)
        most = max(abs(each).max() for each in maps)
        for axis, row, each in zip(column, rows, maps, strict=True):
            axis.imshow(photos.images[row])
            axis.imshow(each, "coolwarm", alpha=0.5, vmin=-most, vmax=most, extent=(0, 64, 64, 0))
            axis.axis("off")
    figure.savefig(path, dpi=80)
    plt.close(figure)


def domains(path):
    """Outlines and filled characters of twenty classes by the zoo's two towers, with a marker for each domain."""
    towers = tfdml.zoo.load("glyphs-sketches").towers
    parts = tfdml.datasets.sketches(tfdml.datasets.glyphs()[1].select_classes(range(40, 60)))
    embedded = [tfdml.models.embed(tower, part) for tower, part in zip(towers, parts, strict=True)]
    images, sizes = np.concatenate([part.images for part in parts]), [len(part) for part in parts]
    both = tfdml.datasets.LabeledSet(images=images, labels=np.repeat([0, 1], sizes), class_names=("outline", "filled"))
    tfdml.visualize.embedding_map(np.concatenate(embedded), both, cells=0).savefig(path, dpi=80)


def movie(path, glyphs, *, epochs):
    """Eight characters in two dimensions while a small network trains on them."""
    keras.utils.set_random_seed(0)
    history = tfdml.callbacks.EmbeddingHistory(glyphs)
    model = plane()
    batches = tfdml.samplers.GroupSampler(classes_per_batch=8, examples_per_class=4, seed=0).batches(glyphs)
    model.fit(batches, steps_per_epoch=10, epochs=epochs, shuffle=False, verbose=0, callbacks=[history])
    frames = [x - x.mean(axis=0) for x in history.frames]  # the loss depends on distances alone
    captions = [f"step {10 * epoch}" for epoch in history.epochs]
    tfdml.visualize.animation(path, frames, history.data, captions=captions)


def plane():
    """A network of two outputs that are not normalized."""
    images = keras.Input((32, 32, 1), dtype="uint8")
    x = layers.Rescaling(1 / 255)(images)
    for width in (16, 32, 64):
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    model = tfdml.models.EmbeddingModel(images, layers.Dense(2)(layers.Flatten()(x)))
    model.compile(keras.optimizers.Adam(1e-3), loss=tfdml.losses.ContrastiveLoss())
    return model


def pixels(part):
    """Every fourth pixel minus the mean of the image."""
    x = part.images[:, ::4, ::4].reshape(len(part), -1).astype("float32")
    return x - x.mean(axis=1, keepdims=True)


def main():
    """Draw all pictures."""
    photos = tfdml.datasets.photo_patches(splits=("validation",))[0]
    grid(pages.IMAGES / "visualize-grid.png", photos)
    thumbnails(pages.IMAGES / "visualize-map.png", photos)
    shares(pages.IMAGES / "visualize-shares.png", photos)
    domains(pages.IMAGES / "visualize-domains.png")
    movie(pages.IMAGES / "visualize-training.gif", tfdml.datasets.glyphs()[0].select_classes(range(8)), epochs=60)


if __name__ == "__main__":
    main()
