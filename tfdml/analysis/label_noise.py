"""Examples with probably wrong labels."""

import math
from typing import NamedTuple

import numpy as np
from keras import ops
from numpy.typing import ArrayLike

from tfdml._core.checks import require
from tfdml.losses import SubCenterArcFaceLoss


class LabelNoise(NamedTuple):
    """The result of `label_noise`."""

    rows: np.ndarray
    dominant: np.ndarray


def label_noise(
    loss: SubCenterArcFaceLoss, embeddings: ArrayLike, labels: ArrayLike, *, angle_degrees: float = 75.0
) -> LabelNoise:
    """Find examples with probably wrong labels: far from the dominant center of their class.

    The dominant center of a class is the nearest center of most of its examples. Noise gathers around the others.
    The paper trains a second time, without these examples and with one center per class.

    Example: a class has the centers (1, 0) and (0, 1). Most of its examples are near the first, the last one is not.

        >>> loss = tfdml.losses.SubCenterArcFaceLoss(classes=1, per_class=2)
        >>> loss.proxies.build((None,), (None, 2))
        >>> _ = loss.proxies.vectors.assign([[1.0, 0.0], [0.0, 1.0]])
        >>> x = np.array([[1.0, 0.1], [1.0, -0.1], [0.9, 0.2], [0.1, 1.0]])
        >>> tfdml.analysis.label_noise(loss, x, np.zeros(4, "int64"))
        LabelNoise(rows=array([3]), dominant=array([0]))

    Args:
        loss: a trained `SubCenterArcFaceLoss`.
        embeddings: `(examples, dim)` embeddings of a trained model, such as `model.predict(images)`.
        labels: `(examples,)` class ids of the proxies.
        angle_degrees: the result lists examples at a larger angle to the dominant center.

    Returns:
        A record: `rows`, the numbers of the examples that are far from the dominant center of their class, ascending;
        and `dominant`, `(classes,)`, the number of the dominant center of each class, -1 for a class without examples.

    Source: Deng, Guo, Liu, Gong, Zafeiriou, Sub-center ArcFace: Boosting Face Recognition by Large-Scale Noisy Web
    Faces, ECCV 2020.
    """
    proxies = loss.proxies
    require(proxies.built, "a loss without proxies yet", "a trained one: compile an EmbeddingModel with it")
    x, labels = np.asarray(embeddings, "float32"), np.asarray(labels).reshape(-1)
    is_class = bool(np.isin(labels, proxies.ids).all())
    require(is_class, "labels outside the classes of the proxies", f"one of the ids of {proxies.classes} classes")
    classes = np.searchsorted(proxies.ids, labels)
    cosines = _cosines_to_centers(x, classes, ops.convert_to_numpy(proxies.vectors), proxies.per_class)
    votes = np.zeros((proxies.classes, proxies.per_class), "int64")
    np.add.at(votes, (classes, cosines.argmax(axis=1)), 1)
    dominant = np.where(votes.any(axis=1), votes.argmax(axis=1), -1)
    is_far = cosines[np.arange(len(x)), dominant[classes]] < math.cos(math.radians(angle_degrees))
    return LabelNoise(np.flatnonzero(is_far), dominant)


def _cosines_to_centers(x, classes, vectors, per_class):
    """The cosines of each example and the centers of its class, `(examples, per_class)`."""
    unit, w = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-15) for rows in (x, vectors))
    return np.stack([np.einsum("nd,nd->n", unit, w[classes * per_class + k]) for k in range(per_class)], axis=1)
