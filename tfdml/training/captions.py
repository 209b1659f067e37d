"""Captions of a run: their sentence vectors, batches of images with a caption each, and retrieval of both."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import keras
import numpy as np

from tfdml import metrics
from tfdml._core.checks import require
from tfdml.callbacks.base import Scheduled, embedding_problem
from tfdml.datasets import LabeledSet
from tfdml.embedding.in_memory import embedder
from tfdml.evaluation.report.records import Measured
from tfdml.models import EmbeddingModel, SentenceEncoder

if TYPE_CHECKING:
    import tensorflow as tf

NO_ENCODER, LOSS = "none", "clip"
TEXT = "text"  # the folder of the text model in a run
_DROPPED = 0.2  # of the sentence vectors, in training
_METRICS = ("recall@1", "map@r")
_OPTIONS: dict[str, Any] = {"k": 1, "per_query": True, "full_map": False, "ties": "expected"}  # equal words tie
_OF_IMAGES, _OF_TEXTS = "text to image", "image to text"

Captions: TypeAlias = dict[str, dict[str, Measured]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Texts:
    """The different captions of some images, as vectors of a sentence encoder.

    `vectors` is `(texts, n)`; `numbers` `(images, most)` has the rows of the captions of an image, then -1.
    """

    encoder: SentenceEncoder
    vectors: np.ndarray
    numbers: np.ndarray

    def take(self, rows: np.ndarray) -> "Texts":
        """The captions of some images."""
        used = np.unique(self.numbers[rows][self.numbers[rows] >= 0])
        numbers = np.where(self.numbers[rows] < 0, -1, np.searchsorted(used, self.numbers[rows]))
        return replace(self, vectors=self.vectors[used], numbers=numbers)


def texts_of(images: LabeledSet, encoder: str) -> Texts | None:
    """The captions of a set, in vectors of the sentence encoder in a folder; None for a set without captions."""
    if images.captions is None:
        return None
    sentences, texts = SentenceEncoder(encoder), sorted(set(chain(*images.captions)))
    numbers = np.full((len(images), max(map(len, images.captions))), -1)
    for row, each in enumerate(images.captions):
        numbers[row, : len(each)] = np.searchsorted(texts, each)
    return Texts(encoder=sentences, vectors=sentences(texts), numbers=numbers)


def require_captions(has_captions: bool, options: Mapping[str, Any]) -> None:
    """Raise a ValueError unless captions, a sentence encoder and the loss of both come together, or none of them."""
    encoder, loss = (options.get(name, NO_ENCODER) for name in ("text_encoder", "loss"))
    received = f"{'a set with' if has_captions else 'no'} captions, and text_encoder={encoder!r}"
    expected = "both or neither: tfdml.datasets.with_captions (--captions), and text_encoder (--text-encoder)"
    require(has_captions == (encoder != NO_ENCODER), received, expected)
    is_loss = loss == NO_ENCODER or (loss == LOSS) == has_captions
    require(is_loss, f"loss={loss!r}", f"{LOSS!r} with captions, and another loss without")


def new_head(texts: Texts, dim: int) -> EmbeddingModel:
    """The network from vectors of the encoder, scaled by those of these texts, to unit vectors `(texts, dim)`."""
    scale = keras.layers.Normalization()
    scale.adapt(texts.vectors)
    inputs = keras.Input(texts.vectors.shape[1:], name="sentences")
    x = keras.layers.Dense(dim)(keras.layers.Dropout(_DROPPED)(scale(inputs)))
    return EmbeddingModel(inputs, keras.layers.UnitNormalization()(x))


def with_texts(batches: "tf.data.Dataset", texts: Texts, *, seed: int, start: int) -> "tf.data.Dataset":
    """Batches of images and their rows, from the step `start` on, as `((images, vectors), numbers of the captions)`.

    Each image has one of its captions, drawn by the seed and the step.
    """
    import tensorflow as tf

    vectors, numbers = tf.constant(texts.vectors), tf.constant(texts.numbers)
    counts = tf.constant((texts.numbers >= 0).sum(axis=1), tf.float32)

    def with_text(step, batch):
        images, rows = batch
        draws = tf.random.stateless_uniform(tf.shape(rows), (seed, step))
        columns = tf.cast(draws * tf.gather(counts, rows), rows.dtype)
        chosen = tf.gather_nd(numbers, tf.stack([rows, columns], axis=1))
        return (images, tf.gather(vectors, chosen)), chosen

    return batches.enumerate(start).map(with_text)


def images_for_texts(images: np.ndarray, texts: np.ndarray, numbers: np.ndarray) -> dict[str, np.ndarray]:
    """Retrieval metrics of each text, whose images are relevant.

    `images` is `(images, dim)` and `texts` `(texts, dim)`; `numbers` are the texts of each image, as of `Texts`.
    """
    rows = np.arange(len(texts))
    return metrics.retrieval(texts, rows, gallery=images, gallery_labels=numbers, match=_are_pairs, **_OPTIONS)


def texts_for_images(images: np.ndarray, texts: np.ndarray, numbers: np.ndarray) -> dict[str, np.ndarray]:
    """Retrieval metrics of each image, whose texts are relevant; see `images_for_texts`."""
    rows = np.arange(len(texts))
    options = {"gallery": texts, "gallery_labels": rows, "match": lambda a, b: _are_pairs(b, a).T, **_OPTIONS}
    return metrics.retrieval(images, numbers, **options)


def _are_pairs(texts, numbers):
    """Whether texts `(T,)` are among those of images `(I, most)`: `(T, I)`."""
    return (numbers[None] == texts[:, None, None]).any(axis=2)


def measured(images: np.ndarray, head: keras.Model, texts: Texts, labels: np.ndarray) -> Captions:
    """Recall@1 and MAP@R by the direction, with intervals over the classes of the images, a text's first one."""
    found = images, head.predict(texts.vectors, verbose=0), texts.numbers
    values = {_OF_IMAGES: images_for_texts(*found), _OF_TEXTS: texts_for_images(*found)}
    first = [int(np.argmax((texts.numbers == text).any(axis=1))) for text in range(len(texts.vectors))]
    classes = {_OF_IMAGES: labels[first], _OF_TEXTS: labels}

    def mean(direction, name):
        x = values[direction][name]
        return Measured(float(x.mean()), *metrics.bootstrap_interval(x, classes[direction]))

    return {direction: {name: mean(direction, name) for name in _METRICS} for direction in values}


class CaptionEvaluation(Scheduled):
    """Write `val_recall@1` and `val_map@r` of the images of a part for its captions into the logs of each epoch."""

    def __init__(self, part: LabeledSet, texts: Texts):
        super().__init__(every=1, max_time_fraction=None, prefix="val_", at_sign="@")
        self._embed, self._texts = embedder(part, 256), texts

    def _values_after(self, epoch):
        image, text = self.model.towers
        images = self._embed(image).embeddings
        problem = embedding_problem(images)
        if problem is not None:
            warnings.warn(f"After epoch {epoch + 1} {problem} All val_* metrics are 0.", stacklevel=2)
            return dict.fromkeys(_METRICS, 0.0)
        texts = text.predict(self._texts.vectors, verbose=0)
        values = images_for_texts(images, texts, self._texts.numbers)
        return {name: float(values[name].mean()) for name in _METRICS}
