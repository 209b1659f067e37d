"""Distillation of single embeddings: the student's points in the direction of the teacher's."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.losses.base import LossOptions
from tfdml.losses.distillation.base import DistillationLoss, teacher_and_student
from tfdml.pairs.base import Tensor
from tfdml.pairs.products import normalized_rows


def cosine_distillation(teacher: Tensor, student: Tensor) -> Tensor:
    """Values of `CosineDistillationLoss`, one per example.

    1 - cos(t_i, s_i)
    """
    teacher, student = teacher_and_student(teacher, student)
    require(
        teacher.shape[1] == student.shape[1],
        f"teacher embeddings of dimension {teacher.shape[1]} and student embeddings of dimension {student.shape[1]}",
        "the same dimension. End the student with a layer of the teacher's size, or take SimilarityPreservingLoss, "
        "RelationalDistanceLoss or RelationalAngleLoss, for which they may differ",
    )
    return 1.0 - ops.sum(normalized_rows(teacher) * normalized_rows(student), axis=1)


@serializable
class CosineDistillationLoss(DistillationLoss):
    """Cosine distance of the student's embedding of an example from the teacher's.

    1 - cos(t_i, s_i)

    `loss(teacher, student)`: the labels of Keras are the teacher's embeddings, in the dimension of the student's.
    Neither need be normalized. A zero vector has similarity 0: it gives 1, with gradient 0.

    Also called: embedding regression; between unit vectors, half of feature distillation by squared error.

    Example:

        >>> teacher, student = [[1.0, 0.0], [0.0, 2.0]], [[0.6, 0.8], [0.0, 1.0]]  # cosines 0.6 and 1
        >>> loss = tfdml.losses.CosineDistillationLoss()
        >>> round(float(loss(teacher, student)), 4)  # (0.4 + 0) / 2
        0.2

    See also: `RelationalDistanceLoss` and `SimilarityPreservingLoss`, for a student of another dimension.

    Source: Sanh, Debut, Chaumond, Wolf, DistilBERT, a Distilled Version of BERT, 2019, the cosine term of its loss.
    """

    def __init__(self, **options: Unpack[LossOptions]) -> None:
        super().__init__(cosine_distillation, **options)
