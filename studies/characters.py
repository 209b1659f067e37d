"""Data, network and evaluation of the studies: retrieval of characters, at a size that two cores train."""

import functools
from dataclasses import replace

import keras
import numpy as np
from keras import layers

import tfdml


@functools.cache
def parts(classes, per_class):
    """(images, labels) of the training, validation and test classes.

    Training images come in four views, at random `per_class` of each class, or all if None; validation and test
    images in one view. Of each part, only the first `classes` classes are kept.
    """
    train, *held_out = tfdml.datasets.glyphs(validation=True, views=4)
    rows = np.flatnonzero(train.labels < classes)
    if per_class is not None:
        rows = _first_of_each_class(np.random.default_rng(0).permutation(rows), train.labels, per_class)
    return [(train.images[rows], train.labels[rows]), *(_first_view(part, classes) for part in held_out)]


def first_classes(part, classes):
    """The first classes of a part, under another protocol if there are more."""
    if len(part.class_names) <= classes:
        return part
    return replace(part.select_classes(np.arange(classes)), protocol=f"{part.protocol}/first-{classes}")


def network(*, normalize, dim=64):
    """A network of two convolutions with `dim` outputs, normalized to length 1 if asked for."""
    images = keras.Input((32, 32, 1), dtype="uint8")
    x = layers.Rescaling(1 / 255)(images)
    x = layers.Conv2D(16, 5, strides=2, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D(2)(x)
    x = layers.Conv2D(32, 3, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D(2)(x)
    x = layers.Dense(dim)(layers.Flatten()(x))
    return tfdml.models.EmbeddingModel(images, layers.UnitNormalization()(x) if normalize else x)


def retrieval(model, images, labels, *, k, metric):
    """`scores` of the embeddings of images."""
    return scores(embedded(model, images), labels, k=k, metric=metric)


def scores(embeddings, labels, *, k, metric):
    """Recall@k and MAP@R; all 0 if the embeddings are not finite, or under cosine if they are all alike."""
    finite = np.isfinite(embeddings).all()
    if not finite or (metric == "cosine" and np.ptp(embeddings, axis=0).max() < 1e-4):
        return dict.fromkeys([*(f"recall@{number}" for number in k), "map@r"], 0.0)
    found = tfdml.metrics.retrieval(embeddings, labels, k=k, metric=metric, full_map=False)
    return {key: found[key] for key in (*(f"recall@{number}" for number in k), "map@r")}


def embedded(model, images):
    """The embeddings of images."""
    return model.predict(images, batch_size=512, verbose=0)


def _first_of_each_class(rows, labels, per_class):
    """The first `per_class` of the rows of each class, class after class."""
    rows = rows[np.argsort(labels[rows], kind="stable")]
    starts = np.unique(labels[rows], return_index=True)[1]
    return np.concatenate([of_class[:per_class] for of_class in np.split(rows, starts[1:])])


def _first_view(part, classes):
    rows = np.flatnonzero(part.labels[: len(part.labels) // 4] < classes)
    return part.images[rows], part.labels[rows]
