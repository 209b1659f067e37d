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
from studies import characters, pages

PARTS = ("train", "validation", "test")
FOLDER = pages.ROOT / "runs" / "leaderboard" / "starts"
STARTS = ("random", "trained")
WIDTHS, STEPS, RATE = (32, 64, 128, 256), 2000, 2e-3  # of the network of glyphs


def data_of(data, start, classes=None, folder=FOLDER):
    """The parts of a set as a dict of name to `LabeledSet`: images for random weights, features for a trained start.

    Args:
        data: "glyphs" or "photo patches".
        start: "random" or "trained".
        classes: for a smoke test, the number of first classes of each part, whose features are those of a network of
            glyphs that is hardly trained; None for all, whose features are kept in `folder`.
        folder: where the features are.
    """
    if start == "random":
        return SETS[data]()
    return _features(data, folder) if classes is None else _quick_features(data, classes)


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
    """The parts of a set with features in the place of images, which are kept."""
    parts = _sources(data)
    return {name: _kept_features(part, _file(data, name, folder), data, folder) for name, part in parts.items()}


@functools.cache
def views_of_glyphs(per_class, classes=None, folder=FOLDER):
    """Features of the other training characters in four views, at random `per_class` images of each class."""
    part = images_of_glyphs(per_class, classes)
    if classes is not None:
        return _with_features(part, _quick_network("glyphs"))
    return _kept_features(part, folder / f"glyphs-{per_class}-views.npy", "glyphs", folder)


@functools.cache
def images_of_glyphs(per_class, classes=None):
    """The other training characters in four views, at random `per_class` images of each of the first classes."""
    train = _every_other(tfdml.datasets.glyphs(validation=True, views=4)[0], start=1)
    order = np.random.default_rng(0).permutation(len(train))
    order = order[np.argsort(train.labels[order], kind="stable")]
    first = np.unique(train.labels[order], return_index=True)[1]
    part = train.take(np.concatenate([rows[:per_class] for rows in np.split(order, first[1:])]))
    part = replace(part, protocol=train.protocol)
    return part if classes is None else characters.first_classes(part, classes)


@functools.cache
def _quick_features(data, classes):
    parts = {name: characters.first_classes(part, classes) for name, part in _sources(data).items()}
    return {name: _with_features(part, _quick_network(data)) for name, part in parts.items()}


def _kept_features(part, path, data, folder):
    """A part with its features from a file, which is written if it is missing."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        features = _with_features(part, _network(data, folder)).images
        partial = path.with_suffix(f".{np.random.SeedSequence().entropy}.npy")
        np.save(partial, features)
        partial.replace(path)
    return replace(part, images=np.load(path), protocol=f"{part.protocol}/features")


def _with_features(part, network):
    features = network.predict(part.images, batch_size=256, verbose=0)
    return replace(part, images=features, protocol=f"{part.protocol}/features")


def _file(data, name, folder):
    return folder / f"{data.replace(' ', '-')}-{name}.npy"


def _sources(data):
    """The parts of which features are made; of the training characters of glyphs every other one, from the second."""
    if data == "photo patches":
        return dict(zip(PARTS, tfdml.datasets.photo_patches(splits=PARTS), strict=True))
    parts = _glyphs()
    return {**parts, "train": _every_other(parts["train"], start=1)}


def _every_other(part, start):
    """Every other class of a set, from the first or the second."""
    of_classes = part.select_classes(np.arange(start, len(part.class_names), 2))
    return replace(of_classes, protocol=f"{part.protocol}/every-other-class-from-{start}")


@functools.cache
def _network(data, folder):
    """The network whose last feature map is the features; the one of glyphs is kept as a file."""
    if data == "photo patches":
        return _imagenet()
    return _up_to_last_map(kept_on_glyphs("glyphs", WIDTHS, folder=folder))


def kept_on_glyphs(name, widths, stem=(), folder=FOLDER):
    """A residual network trained on every other training character, from its file, which is written if missing."""
    path = folder / f"{name}.keras"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        trained_on_glyphs(widths, STEPS, stem).save(path)
    return keras.saving.load_model(path, compile=False)


@functools.cache
def _quick_network(data):
    return _imagenet() if data == "photo patches" else _up_to_last_map(trained_on_glyphs((4, 8, 8), 2))


def _up_to_last_map(model):
    """A residual network up to its last feature map, in means of 2 x 2 positions."""
    last_map = next(layer for layer in model.layers if isinstance(layer, keras.layers.Flatten)).input
    return keras.Model(model.input, keras.layers.Flatten()(keras.layers.AveragePooling2D(2)(last_map)))


def trained_on_glyphs(widths, steps, stem=()):
    """A residual network, trained on every other character from the first by multi-similarity, 64 images a step."""
    keras.utils.set_random_seed(0)
    train = _every_other(tfdml.datasets.glyphs(validation=True, views=4)[0], start=0)
    images = keras.Input((32, 32, 1), dtype="uint8")
    model = tfdml.models.EmbeddingModel(images, tfdml.models.residual_cnn(images, dim=64, widths=widths, stem=stem))
    warmup = max(1, steps // 10)
    rate = keras.optimizers.schedules.CosineDecay(0.0, steps - warmup, warmup_target=RATE, warmup_steps=warmup)
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
