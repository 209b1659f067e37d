"""Relational distillation: distances and angles between the student's embeddings are those of the teacher's."""

from typing import Unpack

from tfdml._core.backends import custom_gradient, loop, ops, vector_jacobian
from tfdml._core.serialization import serializable
from tfdml.losses.base import LossOptions
from tfdml.losses.distillation.base import DistillationLoss, as_batch, huber, teacher_and_student
from tfdml.pairs import dot, euclidean
from tfdml.pairs.base import Tensor
from tfdml.pairs.products import normalized_rows

_ZERO = 1e-15  # A mean distance up to this is that of duplicates.


def relational_distance(teacher: Tensor, student: Tensor) -> Tensor:
    """Values of `RelationalDistanceLoss`, one per example.

    mean over j != i of h(|t_i - t_j| / mu_T - |s_i - s_j| / mu_S)
    """
    teacher, student = teacher_and_student(teacher, student)
    values = huber(_relative_distances(student) - _relative_distances(teacher))
    return ops.sum(values, axis=1) / ops.maximum(ops.cast(ops.shape(values)[1], values.dtype) - 1.0, 1.0)


def _relative_distances(x):
    """Distances in units of their mean over pairs of different rows, `(rows, rows)`; 0 between duplicates."""
    d = euclidean(as_batch(x))
    d = ops.where(d <= _ZERO, 0.0, d)  # NaN stays NaN
    rows = ops.cast(ops.shape(d)[0], d.dtype)
    mean = ops.sum(d) / ops.maximum(rows * (rows - 1.0), 1.0)
    return d / ops.where(mean <= 0, 1.0, mean)


def relational_angle(teacher: Tensor, student: Tensor) -> Tensor:
    """Values of `RelationalAngleLoss`, one per example.

    mean over i != k, both != j, of h(cos(t_i t_j t_k) - cos(s_i s_j s_k)),  one value for each vertex j
    """
    return _over_vertices(*teacher_and_student(teacher, student))


@custom_gradient
def _over_vertices(teacher, student):
    """The loss at each vertex, `(batch,)`. The gradient visits the vertices again, so no cube of triplets is kept."""

    def grad(upstream):
        def add(vertex, total):
            weight = ops.take(upstream, vertex)
            (slope,) = vector_jacobian(lambda x: _at_vertex(teacher, x, vertex), [student], weight)
            return total + slope

        return None, loop(ops.shape(student)[0], add, ops.zeros_like(student))

    return ops.map(lambda vertex: _at_vertex(teacher, student, vertex), ops.arange(ops.shape(student)[0])), grad


def _at_vertex(teacher, student, vertex):
    """The mean over pairs of different rows, of which none is the vertex; a scalar."""
    values = huber(_angles(student, vertex) - _angles(teacher, vertex))
    rows = ops.arange(ops.shape(values)[0])
    others = ops.cast(ops.shape(values)[0], values.dtype) - 1.0
    total = ops.sum(ops.where(rows[:, None] == rows, 0.0, values))
    return total / ops.maximum(others * (others - 1.0), 1.0)


def _angles(x, vertex):
    """Cosines of the angles at a vertex between all pairs of rows, `(rows, rows)`; 0 if a row equals the vertex."""
    return dot(as_batch(normalized_rows(x - ops.take(x, vertex, axis=0))))


@serializable
class RelationalDistanceLoss(DistillationLoss):
    """Relational distance loss: the relative distances of an example to the others are the teacher's.

    mean over j != i of h(|t_i - t_j| / mu_T - |s_i - s_j| / mu_S)

    mu is the mean distance of the pairs of the batch, and h the Huber loss: h(x) = x^2 / 2 for |x| <= 1, |x| - 1/2
    beyond. `loss(teacher, student)`: the labels of Keras are the teacher's embeddings, of any dimension. Both are used
    as they are. A batch of one example gives 0; equal embeddings have relative distances of 0, with gradient 0.

    Also called: RKD-D, distance-wise distillation.

    Example:

        >>> teacher, student = [[0.0], [1.0], [3.0]], [[0.0, 0.0], [0.0, 1.0], [0.0, 2.0]]
        >>> # relative distances 1/2, 3/2 and 1 of the teacher, 3/4, 3/2 and 3/4 of the student
        >>> loss = tfdml.losses.RelationalDistanceLoss()
        >>> round(float(loss(teacher, student)), 4)  # the mean of 1 / 64, 1 / 32 and 1 / 64
        0.0208

    See also: `RelationalAngleLoss`, to which the paper adds this loss by a `WeightedSumLoss`.

    Source: Park, Kim, Lu, Cho, Relational Knowledge Distillation, CVPR 2019, section 3.2.1; here a mean over pairs.
    """

    def __init__(self, **options: Unpack[LossOptions]) -> None:
        super().__init__(relational_distance, **options)


@serializable
class RelationalAngleLoss(DistillationLoss):
    """Relational angle loss: the angles at an example, between the others, are the teacher's.

    mean over i != k, both != j, of h(cos(t_i t_j t_k) - cos(s_i s_j s_k)),  one value for each vertex j

    cos(x_i x_j x_k) is the cosine of the angle at x_j between the directions to x_i and x_k, and h the Huber loss, here
    half the square up to a difference of 1. `loss(teacher, student)`: the labels of Keras are the teacher's embeddings,
    of any dimension. Values are between 0 and 1.5. A batch of fewer than three examples gives 0. A direction between
    duplicates has cosines of 0, with gradient 0. Time grows with batch^3 x dim, memory with batch^2.

    Also called: RKD-A, angle-wise distillation.

    Example:

        >>> teacher = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]  # angles of 90, 45 and 45 degrees
        >>> student = [[0.0], [1.0], [2.0]]  # angles of 0, 180 and 0 degrees
        >>> loss = tfdml.losses.RelationalAngleLoss()
        >>> round(float(loss(teacher, student)), 4)  # the mean of 1^2 / 2, 1.7071 - 0.5 and 0.2929^2 / 2
        0.5833

    See also: `RelationalDistanceLoss`, whose time grows with the square of the batch instead of the cube.

    Source: Park, Kim, Lu, Cho, Relational Knowledge Distillation, CVPR 2019, section 3.2.2; here a mean over triplets.
    """

    def __init__(self, **options: Unpack[LossOptions]) -> None:
        super().__init__(relational_angle, **options)
