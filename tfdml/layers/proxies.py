"""Learned references of the classes."""

from typing import Any

import keras
import numpy as np
from keras import ops

from tfdml._checks import require
from tfdml._serialization import serializable
from tfdml.layers.base import References
from tfdml.pairs import Pairs, pairs_with
from tfdml.pairs.base import Match, Tensor, value_of


@serializable
class Proxies(References):
    """Learned references, `per_class` vectors for each of the classes 0 to classes - 1: a pairing of any loss.

    A function `(labels, embeddings, match=None) -> Pairs` of every row of a batch against every proxy. The proxies have
    the dimension of the embeddings: `EmbeddingModel` builds them at `compile`, other code at the first call, which must
    not be inside a function that JAX compiles. They are used as they are; losses over cosine similarities normalize
    them.

    Example:

        loss = tfdml.losses.NTXentLoss(pairing=tfdml.layers.Proxies(classes=10))

    Args:
        classes: number of classes; labels are 0 to classes - 1.
        per_class: number of proxies for each class. Rows k * per_class to (k + 1) * per_class - 1 belong to class k.
        initializer: a Keras initializer of `(classes * per_class, dim)` weights; None for normal random numbers with
            variance 1 / dim, so that norms are about 1.
        seed: seed of the default initializer.

    Attributes:
        vectors: the variable `(classes * per_class, dim)`; None before the layer is built.

    Raises:
        ValueError: fewer than one class or proxy, or a seed beside an initializer; when called, embeddings of another
            dimension, or a label outside the classes, where labels can be read. In a compiled function, where no error
            can be raised, the embedding of such a label is NaN, and so is the loss.

    Source: Movshovitz-Attias, Toshev, Leung, Ioffe, Singh, No Fuss Distance Metric Learning using Proxies, ICCV 2017.
    """

    def __init__(
        self, classes: int, *, per_class: int = 1, initializer: Any = None, seed: int | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        require(int(classes) == classes >= 1, f"classes={classes}", "the number of classes, 1 or more")
        require(int(per_class) == per_class >= 1, f"per_class={per_class}", "the number of proxies per class")
        require(
            initializer is None or seed is None, f"seed={seed} and an initializer", "one of them: seed the initializer"
        )
        self.classes, self.per_class, self.seed = int(classes), int(per_class), seed
        self.initializer = None if initializer is None else keras.initializers.get(initializer)

    def build(self, labels_shape: Any, embeddings_shape: Any) -> None:
        """Make the proxies for embeddings of shape `(batch, dim)`."""
        self.vectors = self.add_weight(
            shape=(self.classes * self.per_class, embeddings_shape[-1]),
            initializer=self.initializer or _unit_variance_of_norms(self.seed),
            dtype="float32",
            name="vectors",
        )

    def call(self, labels: Tensor, embeddings: Tensor, match: Match | None = None) -> Pairs:
        """The `Pairs` of a batch against the proxies; with `match`, labels are compared with class ids by it."""
        pairs = pairs_with(labels, embeddings, self.labels, ops.convert_to_tensor(self.vectors), match)
        return pairs if match is not None else self._nan_outside(pairs)

    @property
    def labels(self) -> np.ndarray:
        """The class id of each proxy, `(classes * per_class,)`."""
        return np.repeat(np.arange(self.classes, dtype="int32"), self.per_class)

    def _nan_outside(self, pairs):
        """The same pairs, with NaN for anchors whose label is outside the classes, or a ValueError if it is known."""
        labels = pairs.anchor_labels
        known = ops.logical_and(labels >= 0, ops.less(labels, np.array(self.classes, "int32")))
        _raise_for_unknown(value_of(labels), value_of(known), self.classes)
        return pairs._replace(anchors=pairs.anchors + _zero_or_nan(known, pairs.anchors.dtype)[:, None])

    def get_config(self) -> dict[str, Any]:
        """The constructor arguments."""
        initializer = self.initializer and keras.initializers.serialize(self.initializer)
        own = {"classes": self.classes, "per_class": self.per_class, "initializer": initializer, "seed": self.seed}
        return {**super().get_config(), **own}


def _unit_variance_of_norms(seed):
    return keras.initializers.VarianceScaling(mode="fan_out", distribution="untruncated_normal", seed=seed)


def _zero_or_nan(known, dtype):
    return ops.cast(ops.where(known, 0.0, float("nan")), dtype)


def _raise_for_unknown(labels, known, classes):
    if known is not None and not known.all():
        raise ValueError(
            f"Received label {labels[~known].ravel()[0]} for the proxies of {classes} classes, expected class ids 0 to "
            f"{classes - 1}. Renumber the classes (numpy.unique(labels, return_inverse=True)), or make more proxies."
        )
