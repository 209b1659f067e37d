"""Pictures of embeddings: those of docs/visualize.md.

python -m studies.visualize    # draws docs/images/visualize-*.png, a minute of one core
"""

import matplotlib.pyplot as plt
import numpy as np

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


if __name__ == "__main__":
    main()
