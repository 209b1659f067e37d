"""Learned boundaries of the margin loss."""

from typing import Any

import keras
import numpy as np
from numpy.typing import ArrayLike

from tfdml._core.backends import ops
from tfdml._core.checks import as_whole, require
from tfdml._core.serialization import serializable
from tfdml.layers.base import LossLayer
from tfdml.pairs import Pairs
from tfdml.pairs.base import Tensor
from tfdml.pairs.class_values import look_up


@serializable
class Boundaries(LossLayer):
    """Learned boundaries of the margin loss: beta_i = beta_0 + beta_class(i) + beta_example(i).

    A function `Pairs -> (anchors,)`. beta_0 starts at `initial` and the others at 0, as in the paper.

    Example: two classes; the first one has learned a boundary 0.1 above the common one.

        >>> boundaries = tfdml.layers.Boundaries(initial=1.2, class_ids=[7, 9])
        >>> loss = tfdml.losses.MarginLoss(boundary=boundaries)  # EmbeddingModel trains them
        >>> _ = boundaries.weights[1].assign([0.1, 0.0])
        >>> pairs = tfdml.pairs.all_pairs(np.array([7, 7, 9]), np.eye(3, dtype="float32"))
        >>> ops.convert_to_numpy(boundaries(pairs)).round(4)
        array([1.3, 1.3, 1.2], dtype=float32)

    Args:
        initial: initial value of all boundaries, in [0, 2].
        class_ids: class ids, in any order, with repetitions, each with its own boundary; None for none per class. Later
            labels outside of them are a ValueError; a compiled function cannot raise, and its loss is NaN.
        examples: number of training examples, each with its own boundary; 0 for none. Labels are then `(batch, 2)`: the
            class id and the index of the example, 0 to examples - 1.

    Source: Wu, Manmatha, Smola, Kraehenbuehl, Sampling Matters in Deep Embedding Learning, ICCV 2017, section 4.
    """

    saved_arguments = ("initial", "examples")

    def __init__(
        self, initial: float = 1.2, class_ids: ArrayLike | None = None, examples: int = 0, **options: Any
    ) -> None:
        super().__init__(**options)
        require(0 <= initial <= 2, f"initial={initial}", "a distance of normalized embeddings, in [0, 2]")
        examples = as_whole("examples", examples, 0)
        self.initial, self.examples = initial, examples
        self.class_ids = None if class_ids is None else np.unique(np.asarray(class_ids, dtype="int64"))
        start = keras.initializers.Constant(initial)
        self.base = self.add_weight(shape=(), initializer=start, dtype="float32", name="base")
        if self.class_ids is not None:
            shape = (len(self.class_ids),)
            self.of_classes = self.add_weight(shape=shape, initializer="zeros", dtype="float32", name="of_classes")
        if examples:
            self.of_examples = self.add_weight(shape=(examples,), initializer="zeros", dtype="float32", name="examples")

    def call(self, pairs: Pairs) -> Tensor:
        """The boundary of each anchor, `(anchors,)`."""
        labels = pairs.anchor_labels
        if self.examples:
            _require_examples(labels)
            labels, examples = labels[:, 0], labels[:, 1]
        beta = self.base + ops.zeros(ops.shape(labels), dtype="float32")
        if self.class_ids is not None:
            beta = beta + look_up(self.class_ids, self.of_classes, labels, source="class_ids")
        if self.examples:
            beta = beta + look_up(np.arange(self.examples), self.of_examples, examples, source="examples")
        return beta

    def get_config(self) -> dict[str, Any]:
        """The constructor arguments."""
        class_ids = None if self.class_ids is None else self.class_ids.tolist()
        return {**super().get_config(), "class_ids": class_ids}


@serializable
def same_class(labels: Tensor, reference_labels: Tensor) -> Tensor:
    """Whether class ids are equal, the first columns of labels `(A, 2)` and `(R, 2)`: `(A, R)`."""
    _require_examples(labels)
    return ops.equal(labels[:, None, 0], reference_labels[None, :, 0])


def _require_examples(labels):
    require(
        len(labels.shape) == 2 and labels.shape[1] == 2,
        f"labels of shape {tuple(labels.shape)}",
        "(batch, 2), class ids and indices of examples: there is a boundary per example",
    )
