"""What training starts from: random weights and images, or features of a network that was trained before.

* glyphs: a residual network, trained on every other training character. Runs from it see the others.
* photo patches: the first blocks of EfficientNet-Lite0 with the weights of ImageNet.

The features are the last feature map of the network. They are computed once and kept in a folder, so that a run trains
a head of them in a second. A folder that is copied to a machine without TensorFlow brings them along.

    python -m studies.leaderboard.starts    # trains the network of glyphs, ten minutes of one core, and keeps both
"""

import argparse
import functools
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np

import tfdml
from studies import pages

PARTS = ("train", "validation", "test")
FOLDER = pages.ROOT / "runs" / "leaderboard" / "starts"
STARTS = ("random", "trained")
WIDTHS, STEPS, RATE = (32, 64, 128, 256), 2000, 2e-3  # of the network of glyphs


def data_of(data, start, folder=FOLDER):
    """The parts of a set as a dict of name to `LabeledSet`: images for random weights, features for a trained start."""
    return SETS[data]() if start == "random" else _features(data, folder)


@functools.cache
def _glyphs():
    return dict(zip(PARTS, tfdml.datasets.glyphs(validation=True), strict=True))


@functools.cache
def _photo_patches():
    return dict(zip(PARTS, map(small_and_gray, tfdml.datasets.photo_patches(splits=PARTS)), strict=True))


SETS = {"glyphs": _glyphs, "photo patches": _photo_patches}


def small_and_gray(patches):
    """Photo patches in gray, of half the width and height: means of 2 x 2 pixels and three colors."""
    count, height, width, colors = patches.images.shape
    squares = patches.images.reshape(count, height // 2, 2, width // 2, 2 * colors)
    gray = np.round(squares.mean(axis=(2, 4), dtype="float32")).astype("uint8")[..., None]
    return replace(patches, images=gray, protocol=f"{patches.protocol}/gray-32x32")


@functools.cache
def _features(data, folder):
    """The parts of a set with features in the place of images."""
    if not all(_file(data, name, folder).exists() for name in PARTS):
        keep_features(data, folder)
    parts = _sources(data)
    return {
        name: replace(
            parts[name], images=np.load(_file(data, name, folder)), protocol=f"{parts[name].protocol}/features"
        )
        for name in PARTS
    }


def _file(data, name, folder):
    return folder / f"{data.replace(' ', '-')}-{name}.npy"


def keep_features(data, folder, *, steps=STEPS, classes=None):
    """Compute and keep the features of all parts of a set.

    Args:
        data: "glyphs" or "photo patches".
        folder: where they are kept.
        steps: training steps of the network of glyphs.
        classes: the largest number of classes that it is trained on; None for all.
    """
    network = {"glyphs": functools.partial(_network_of_glyphs, folder, steps, classes), "photo patches": _imagenet}[
        data
    ]()
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in _sources(data).items():
        _keep(_file(data, name, folder), network.predict(part.images, batch_size=256, verbose=0))


def _keep(path, array):
    partial = path.with_suffix(".partial.npy")
    np.save(partial, array)
    partial.replace(path)


@functools.cache
def views_of_glyphs(per_class, folder=FOLDER):
    """Features of the other training characters in four views, at random `per_class` images of each class."""
    train = _every_other(tfdml.datasets.glyphs(validation=True, views=4)[0], start=1)
    order = np.random.default_rng(0).permutation(len(train))
    order = order[np.argsort(train.labels[order], kind="stable")]
    first = np.unique(train.labels[order], return_index=True)[1]
    part = train.take(np.concatenate([rows[:per_class] for rows in np.split(order, first[1:])]))
    path = folder / f"glyphs-{per_class}-views.npy"
    if not path.exists():
        _keep(path, _network_of_glyphs(folder, STEPS, None).predict(part.images, batch_size=256, verbose=0))
    return replace(part, images=np.load(path), protocol=f"{train.protocol}/features")


def _sources(data):
    """The parts of which features are kept; of the training characters of glyphs every other one, from the second."""
    if data == "photo patches":
        return dict(zip(PARTS, tfdml.datasets.photo_patches(splits=PARTS), strict=True))
    parts = _glyphs()
    return {**parts, "train": _every_other(parts["train"], start=1)}


def _network_of_glyphs(folder, steps, classes):
    """The trained residual network up to its last feature map, in means of 2 x 2 positions, kept as a file."""
    path = folder / "glyphs.keras"
    if path.exists():
        model = keras.saving.load_model(path, compile=False)
    else:
        model = _trained_on_glyphs(steps, classes)
        folder.mkdir(parents=True, exist_ok=True)
        model.save(path)
    last_map = next(layer for layer in model.layers if isinstance(layer, keras.layers.Flatten)).input
    return keras.Model(model.input, keras.layers.Flatten()(keras.layers.AveragePooling2D(2)(last_map)))


def _every_other(part, start):
    """Every other class of a set, from the first or the second."""
    of_classes = part.select_classes(np.arange(start, len(part.class_names), 2))
    return replace(of_classes, protocol=f"{part.protocol}/every-other-class-from-{start}")


def _trained_on_glyphs(steps, classes):
    """A residual network, trained on every other character from the first by multi-similarity, 64 images a step."""
    keras.utils.set_random_seed(0)
    train = _every_other(tfdml.datasets.glyphs(validation=True, views=4)[0], start=0)
    train = train.select_classes(np.arange(len(train.class_names))[:classes])
    images = keras.Input((32, 32, 1), dtype="uint8")
    model = tfdml.models.EmbeddingModel(images, tfdml.models.residual_cnn(images, dim=64, widths=WIDTHS))
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, steps - steps // 10, warmup_target=RATE, warmup_steps=steps // 10
    )
    model.compile(keras.optimizers.Adam(rate), loss=tfdml.losses.MultiSimilarityLoss(), jit_compile=False)
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=16, examples_per_class=4, seed=0)
    model.fit(sampler.batches(train), steps_per_epoch=steps, shuffle=False, verbose=0)
    return model


def _imagenet():
    """The first blocks of EfficientNet-Lite0 with the weights of ImageNet, of standardized images of 64 x 64."""
    from recipes import zoo
    from studies import photo_starts

    return zoo.pretrained(photo_starts.IMAGENET).get_layer("backbone")


def main():
    """Keep the features of both sets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=FOLDER)
    options = parser.parse_args()
    for data in SETS:
        for name, part in _features(data, options.output).items():
            print(f"{data}, {name}: {part.images.shape}", flush=True)


if __name__ == "__main__":
    main()
