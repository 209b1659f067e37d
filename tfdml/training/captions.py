"""Captions of a run: their sentence vectors and subjects, the head of the texts, and retrieval in both directions."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import keras
import numpy as np

from tfdml._core.checks import require
from tfdml.datasets import LabeledSet
from tfdml.evaluation import Evaluation, evaluate
from tfdml.models import EmbeddingModel, TextModel

TEXT = "text"  # the folder of the text model in a run
NO_ENCODER, LOSS = "none", "clip"
_DROPPED = 0.2  # of the sentence vectors, in training


class Captions(NamedTuple):
    """The images of a part, whose labels are their subjects, and its different captions.

    `texts` is `(texts, n)`, with subjects `labels` `(texts,)`; `pairs` `(pairs, 2)` are rows of images and of texts.
    """

    images: LabeledSet
    texts: np.ndarray
    labels: np.ndarray
    pairs: np.ndarray


@lru_cache(maxsize=3)  # the parts of a run: many captions take minutes
def captions_of(images: LabeledSet, encoder: str) -> Captions | None:
    """The captions of a part, in vectors of the sentence encoder in a folder; None for a part without captions.

    Images that share a caption, directly or through others, are of one subject with all of their captions.
    """
    if images.captions is None:
        return None
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    texts, numbers = np.unique(list(chain(*images.captions)), return_inverse=True)
    rows = np.repeat(np.arange(len(images)), [len(each) for each in images.captions])
    nodes = len(images) + len(texts)
    shared = coo_array((np.ones(len(rows)), (rows, len(images) + numbers)), shape=(nodes, nodes))
    count, subjects = connected_components(shared, directed=False)
    expected = "two or more: captions that tell images apart, and larger parts"
    require(count > 1, "captions that join all images of a part into one subject", expected)
    labeled = replace(images, labels=subjects[: len(images)], class_names=tuple(map(str, range(count))))
    vectors = TextModel(encoder)(texts.tolist())
    return Captions(labeled, vectors, subjects[len(images) :], np.stack([rows, numbers], axis=1))


def require_captions(has_captions: bool, options: Mapping[str, Any]) -> None:
    """Raise a ValueError unless captions, a sentence encoder and the loss of both come together, or none of them."""
    encoder, loss = options.get("text_encoder", NO_ENCODER), options.get("loss", LOSS if has_captions else None)
    received = f"{'a set with' if has_captions else 'no'} captions, text_encoder={encoder!r} and loss={loss!r}"
    expected = f"--captions (tfdml.datasets.with_captions), text_encoder and loss={LOSS!r}, or none of them"
    require(has_captions == (encoder != NO_ENCODER) == (loss == LOSS), received, expected)


def new_head(texts: np.ndarray, dim: int) -> EmbeddingModel:
    """The network from sentence vectors, scaled by the vectors `texts` `(texts, n)`, to unit vectors `(texts, dim)`."""
    scale = keras.layers.Normalization()
    scale.adapt(texts)
    inputs = keras.Input(texts.shape[1:], name="sentences")
    x = keras.layers.Dense(dim)(keras.layers.Dropout(_DROPPED)(scale(inputs)))
    return EmbeddingModel(inputs, keras.layers.UnitNormalization()(x))


def evaluations_of_captions(captions: Captions, head: keras.Model, images: np.ndarray) -> dict[str, Evaluation]:
    """Retrieval of images `(images, dim)` by captions, and the other way around, by the direction."""
    texts = head.predict(captions.texts, verbose=0)
    text_labels, image_labels = captions.labels, captions.images.labels
    return {
        "text to image": evaluate(texts, text_labels, gallery=image_labels, gallery_embeddings=images),
        "image to text": evaluate(images, image_labels, gallery=text_labels, gallery_embeddings=texts),
    }
