"""Images in two dimensions: the pictures of docs/visualize.md on losses in the plane and on the circle.

    python -m studies.plane                  # draws plane-losses.png and plane-circle.png, a minute of one core
    python -m studies.plane --data FOLDER    # draws plane-margins.png from Fashion-MNIST, five minutes

The digits 0 to 7 of scikit-learn, 8 x 8 pixels, by a network of two hidden layers and two outputs; Fashion-MNIST by the
network of https://github.com/adambielski/siamese-triplet with PReLU and two outputs. One seed, nothing tuned. Drawn
are examples that were not trained on. The pictures are in docs/images.
"""

import argparse
from pathlib import Path

import keras
import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from keras import layers
from sklearn import datasets, model_selection, neighbors

import tfdml
from studies import pages
from tfdml import losses

CLASSES = 8
# Okabe and Ito, which readers who are color-blind can tell apart, and two grays.
COLORS = (
    "#000000", "#e69f00", "#56b4e9", "#009e73", "#b3a000", "#0072b2", "#d55e00", "#cc79a7", "#999999", "#663300"
)  # fmt: skip
PLANE = {
    "cross-entropy": losses.LargeMarginSoftmaxLoss(classes=CLASSES, margin=1),
    "contrastive": losses.ContrastiveLoss(negative_margin=4.0),
    "triplet": losses.TripletLoss(margin=1.0, distance="euclidean", normalize="active"),
    "centroid triplet": losses.CentroidTripletLoss(margin=4.0),
}
CIRCLE = {
    "normalized softmax": losses.NormalizedSoftmaxLoss(classes=CLASSES, scale=8.0),
    "CosFace, margin 0.2": losses.CosFaceLoss(classes=CLASSES, margin=0.2, scale=8.0),
    "ArcFace, margin 0.3": losses.ArcFaceLoss(classes=CLASSES, margin=0.3, scale=8.0),
    "margin loss": losses.MarginLoss(margin=0.1, boundary=0.4),
}
DIGITS = tuple("01234567")
FASHION = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
MARGINS = {
    "cross-entropy": losses.LargeMarginSoftmaxLoss(classes=10, margin=1),
    **{f"contrastive, margin {margin:g}": losses.ContrastiveLoss(negative_margin=margin) for margin in (0.5, 1, 2, 4)},
}


def digits():
    """Pixels from 0 to 1 and labels of the two parts: `(train, test, train_labels, test_labels)`."""
    x, y = datasets.load_digits(n_class=CLASSES, return_X_y=True)
    x = (x / 16).astype("float32")
    return model_selection.train_test_split(x, y, test_size=0.4, stratify=y, random_state=0)


def fashion(root):
    """Pixels from 0 to 1 and labels of Fashion-MNIST, the first images of both parts: as `digits`."""
    parts = tfdml.datasets.idx(root, class_names=FASHION)
    train, test = (part.take(np.arange(count)) for part, count in zip(parts, (10_000, 2_000), strict=True))
    x, z = ((each.images / 255).astype("float32") for each in (train, test))
    return x, z, train.labels, test.labels


def hidden(inputs):
    """The features below the two outputs: of 64 pixels by dense layers, of images by convolutions."""
    if len(inputs.shape) == 2:
        return layers.Dense(128, activation="relu")(layers.Dense(128, activation="relu")(inputs))
    x = inputs
    for channels in (32, 64):
        x = layers.MaxPooling2D(2)(layers.PReLU(shared_axes=(1, 2, 3))(layers.Conv2D(channels, 5)(x)))
    x = layers.Flatten()(x)
    for _ in range(2):
        x = layers.PReLU(shared_axes=(1,))(layers.Dense(256)(x))
    return x


def trained(loss, x, y, *, on_circle, steps):
    """A network of two outputs after `steps` batches."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input(x.shape[1:])
    outputs = layers.Dense(2)(hidden(inputs))
    if on_circle:
        outputs = layers.UnitNormalization()(outputs)
    model = tfdml.models.EmbeddingModel(inputs, outputs)
    rate = keras.optimizers.schedules.CosineDecay(1e-2 if x.ndim == 2 else 1e-3, steps)
    model.compile(keras.optimizers.Adam(rate), loss=loss, jit_compile=x.ndim == 2)
    sampler = tfdml.samplers.GroupSampler(
        classes_per_batch=y.max() + 1, examples_per_class=16 if x.ndim == 2 else 8, seed=0
    )
    model.fit(sampler.batches(x, y), steps_per_epoch=steps, shuffle=False, verbose=0)
    return model


def draw(path, panels, data, *, on_circle, steps, names=DIGITS):
    """One panel per loss, with the name of each class."""
    train, test, y, z = data
    figure, axes = plt.subplots(1, len(panels), figsize=(3.1 * len(panels), 3.5))
    for axis, (title, loss) in zip(axes, panels.items(), strict=True):
        model = trained(loss, train, y, on_circle=on_circle, steps=steps)
        found, tested = (model.predict(x, batch_size=256, verbose=0) for x in (train, test))
        accuracy = neighbors.KNeighborsClassifier(3).fit(found, y).score(tested, z)
        line = f"{title}\n{100 * accuracy:.1f}% by 3 neighbors"
        (around if on_circle else scatter)(axis, tested, z, names)
        axis.set_title(line + (f", spread {spread(tested, z):.1f}°" if on_circle else ""), fontsize=9)
        axis.set_aspect("equal", adjustable="datalim")
        axis.set_xticks([])
        axis.set_yticks([])
    figure.tight_layout()
    figure.savefig(path, dpi=80)
    plt.close(figure)


def scatter(axis, x, labels, names):
    """Points, and the name of each class at its median."""
    for label, (name, color) in enumerate(zip(names, COLORS, strict=False)):
        members = x[labels == label]
        axis.plot(*members.T, ".", color=color, markersize=4, alpha=0.6)
        text(axis, np.median(members, axis=0), name, color)
    axis.plot(0, 0, "+", color="0.4", markersize=8)


def around(axis, x, labels, names):
    """A histogram of the angles of each class outside of the circle, and the name of each class."""
    angle = np.linspace(0, 2 * np.pi, 361)
    axis.plot(np.cos(angle), np.sin(angle), color="0.8", linewidth=1)
    for label, (name, color) in enumerate(zip(names, COLORS, strict=False)):
        members = x[labels == label]
        counts, edges = np.histogram(np.arctan2(members[:, 1], members[:, 0]), 180, (-np.pi, np.pi))
        middle, radius = (edges[1:] + edges[:-1]) / 2, 1 + 0.5 * np.sqrt(counts / len(members))
        for each in np.flatnonzero(counts):
            direction = np.array([np.cos(middle[each]), np.sin(middle[each])])
            axis.plot(*np.stack([direction, radius[each] * direction]).T, color=color, linewidth=2.2)
        text(axis, 0.8 * center(members), name, color)


def text(axis, position, name, color):
    """The name of a class in a box."""
    box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": color, "alpha": 0.85}
    axis.text(*position, name, color=color, fontsize=9 if len(name) == 1 else 7, ha="center", va="center", bbox=box)


def center(x):
    """The direction of the mean of unit vectors."""
    mean = x.mean(axis=0)
    return mean / np.linalg.norm(mean)


def spread(x, labels):
    """The median angle between an example and the center of its class, in degrees."""
    cosines = [x[labels == label] @ center(x[labels == label]) for label in range(CLASSES)]
    return np.degrees(np.median(np.arccos(np.clip(np.concatenate(cosines), -1, 1))))


def main(arguments=None):
    """Draw both pictures of digits, or the one of Fashion-MNIST."""
    parser = argparse.ArgumentParser(prog="python -m studies.plane", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="the folder of the four files of Fashion-MNIST")
    given = parser.parse_args(arguments)
    if given.data:
        draw(
            pages.IMAGES / "plane-margins.png", MARGINS, fashion(given.data), on_circle=False, steps=400, names=FASHION
        )
        return
    draw(pages.IMAGES / "plane-losses.png", PLANE, digits(), on_circle=False, steps=400)
    draw(pages.IMAGES / "plane-circle.png", CIRCLE, digits(), on_circle=True, steps=400)


if __name__ == "__main__":
    main()
