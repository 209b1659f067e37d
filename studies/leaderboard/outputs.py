"""Embeddings of 64 dimensions from the feature maps of the network: one vector, or those of several learners."""

import keras
from keras import layers

from tfdml import losses, models

TWO, THREE, FOUR = (32, 32), (11, 21, 32), (16, 16, 16, 16)  # dimensions of learners


def unit_vectors(maps):
    """One learner, scaled to norm 1."""
    return layers.UnitNormalization()(vectors(maps))


def vectors(maps):
    """One learner, for losses that use the norm."""
    return layers.Dense(64)(layers.Flatten()(maps[-1]))


def cascade(maps):
    """Learners of growing depth."""
    return models.ensemble([layers.Flatten()(x) for x in maps], dims=TWO)


def boosted(maps):
    """Learners over the same features, with the shares of their loss."""
    return models.ensemble(layers.Flatten()(maps[-1]), dims=THREE, shares=losses.BoostedLoss(dims=THREE).shares)


def attention(maps):
    """Learners with attention masks over the first feature map, which share the second convolution."""
    inputs = keras.Input(maps[0].shape[1:])
    trunk = keras.Model(inputs, layers.Flatten()(second_convolution(inputs)))
    return models.ensemble(models.attention_branches(maps[0], trunk, learners=len(FOUR)), dims=FOUR)


def first_convolution(x):
    """The first feature map of standardized images."""
    return layers.MaxPooling2D()(layers.Conv2D(16, 5, strides=2, padding="same", activation="relu")(x))


def second_convolution(x):
    """The second feature map of the first one."""
    return layers.MaxPooling2D()(layers.Conv2D(32, 3, padding="same", activation="relu")(x))
