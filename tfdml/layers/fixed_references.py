"""Given references that never change, such as the embeddings of an older model."""

from typing import Any, Self

import keras
import numpy as np
import numpy.typing as npt

from tfdml._core.backends import ops
from tfdml._core.checks import as_ids, as_vectors
from tfdml._core.serialization import serializable
from tfdml.layers.base import References
from tfdml.pairs.pairings import compare


@serializable
class FixedReferences(References):
    """Given references, never learned: a pairing of any loss.

    A function `(labels, embeddings, match=None) -> Pairs` of every row of a batch against every reference. A loss over
    the class centers of an older model keeps a new model compatible with an index of the old one: added to the loss of
    the new model, it is the influence loss of backward-compatible training.

    Example: the class centers of an old model; the class of the first row has its center at (1, 0).

        >>> old, labels = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([3, 3, 5])
        >>> centers = tfdml.layers.FixedReferences.centers(old, labels)
        >>> pairs = centers(np.array([3, 5]), np.array([[0.6, 0.8], [0.0, 1.0]], "float32"))
        >>> ops.convert_to_numpy(pairs.positive)
        array([[1., 0.],
               [0., 1.]], dtype=float32)

    Args:
        vectors: `(references, dim)` floats, not normalized; losses over cosine similarities normalize them. They are
            weights: `.keras` files keep them, a config does not. A layer of a config has NaN references, and so a NaN
            loss, until its weights are loaded.
        labels: `(references,)` integer class ids. An anchor of another class has no positive reference.

    Source: Shen, Xiong, Xia, Soatto, Towards Backward-Compatible Representation Learning, CVPR 2020: the influence loss
    with a synthesized classifier.
    """

    def __init__(self, vectors: npt.ArrayLike, labels: npt.ArrayLike, **options: Any) -> None:
        super().__init__(**options)
        matrix = as_vectors(vectors, "vectors")
        self.labels = as_ids(labels, "labels", len(matrix))
        self.build((None,), (None, matrix.shape[1]))
        self.vectors.assign(matrix)

    @classmethod
    def centers(cls, embeddings: npt.ArrayLike, labels: npt.ArrayLike, **options: Any) -> Self:
        """One reference for each class: the mean of its normalized embeddings."""
        x = as_vectors(embeddings, "embeddings")
        classes, rows = np.unique(as_ids(labels, "labels", len(x)), return_inverse=True)
        sums = np.zeros((len(classes), x.shape[1]))
        np.add.at(sums, rows, x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.finfo(np.float32).tiny))
        return cls(sums / np.bincount(rows)[:, None], classes, **options)

    def build(self, labels_shape: Any, embeddings_shape: Any) -> None:
        """Make the variable of the references, unless the constructor did."""
        if self.vectors is None:
            shape = (len(self.labels), embeddings_shape[-1])
            self.vectors = self.add_weight(shape=shape, initializer="zeros", trainable=False, name="vectors")
            self.built = True

    def _comparison(self, labels, embeddings, match):
        embeddings = ops.convert_to_tensor(embeddings)
        dtype = "float64" if keras.backend.standardize_dtype(embeddings.dtype) == "float64" else "float32"
        ids = self.labels.astype("int32") if np.abs(self.labels).max() <= np.iinfo("int32").max else self.labels
        return compare(labels, embeddings, ids, ops.cast(self.vectors, dtype), match)

    def get_config(self) -> dict[str, Any]:
        """The labels and the dimension; the vectors are weights."""
        return {**super().get_config(), "labels": self.labels.tolist(), "dim": self.vectors.shape[1]}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The layer of a config, whose references are NaN until its weights are loaded."""
        options = {name: value for name, value in config.items() if name not in ("labels", "dim")}
        shape = (len(config["labels"]), config["dim"])
        layer = cls(np.zeros(shape), config["labels"], **options)
        layer.vectors.assign(np.full(shape, np.nan))
        return layer
