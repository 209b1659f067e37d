"""Distillation of similarities: examples that are similar for the teacher are similar for the student."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.serialization import serializable
from tfdml.losses.base import LossOptions
from tfdml.losses.distillation.base import DistillationLoss, as_batch, teacher_and_student
from tfdml.pairs import dot
from tfdml.pairs.base import Tensor
from tfdml.pairs.products import normalized_rows


def similarity_preserving(teacher: Tensor, student: Tensor) -> Tensor:
    """Values of `SimilarityPreservingLoss`, one per example.

    (1/B) |G_T,i - G_S,i|^2,  G_i = (x_i . x_1, ..., x_i . x_B) / |(x_i . x_1, ..., x_i . x_B)|
    """
    teacher, student = teacher_and_student(teacher, student)
    rows = normalized_rows(dot(as_batch(teacher))), normalized_rows(dot(as_batch(student)))
    return ops.mean(ops.square(rows[0] - rows[1]), axis=1)


@serializable
class SimilarityPreservingLoss(DistillationLoss):
    """Similarity-preserving loss: rows of similarities of teacher and student are alike.

    (1/B) |G_T,i - G_S,i|^2,  G_i = (x_i . x_1, ..., x_i . x_B) / |(x_i . x_1, ..., x_i . x_B)|

    The mean over the B examples is the paper's |G_T - G_S|_F^2 / B^2. `loss(teacher, student)`: the labels of Keras are
    the teacher's embeddings, of any dimension. Embeddings are not normalized, and each row has the product of an
    example with itself. Values are at most 4 / B. A zero vector has a zero row. A batch of one example gives 0.

    Also called: SP, similarity-preserving knowledge distillation.

    Example:

        >>> teacher, student = [[1.0, 0.0], [0.0, 1.0]], [[2.0], [2.0]]  # rows (1, 0), (0, 1) and (1, 1) / sqrt(2)
        >>> loss = tfdml.losses.SimilarityPreservingLoss()
        >>> round(float(loss(teacher, student)), 4)  # (0.2929^2 + 0.7071^2) / 2
        0.2929

    See also: `RelationalDistanceLoss`, on distances. `CosineDistillationLoss`, which needs equal dimensions.

    Source: Tung, Mori, Similarity-Preserving Knowledge Distillation, ICCV 2019, eq. 4.
    """

    def __init__(self, **options: Unpack[LossOptions]) -> None:
        super().__init__(similarity_preserving, **options)
