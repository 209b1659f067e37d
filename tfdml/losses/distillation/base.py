"""Base class of the losses of a teacher, and checks of its embeddings."""

from collections.abc import Callable
from typing import Any

import keras

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml.losses.base import FunctionLoss
from tfdml.losses.reductions import propagate_non_finite
from tfdml.pairs import Pairs, all_pairs
from tfdml.pairs.base import Tensor
from tfdml.pairs.pairings import usable


class DistillationLoss(FunctionLoss):
    """Base class: a Keras loss over a function `(teacher, student) -> (batch,)`, with the teacher as labels."""

    def __init__(
        self,
        function: Callable[[Tensor, Tensor], Tensor],
        *,
        name: str | None = None,
        reduction: str | None = "sum_over_batch_size",
        dtype: Any = None,
    ) -> None:
        super().__init__(function, {}, name=name or function.__name__, reduction=reduction, dtype=dtype)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """One value per example, `(batch,)`, of the embeddings of the teacher and of the student."""
        values = self.function(y_true, y_pred)
        return propagate_non_finite(values, as_batch(ops.convert_to_tensor(y_pred)))


def teacher_and_student(teacher: Tensor, student: Tensor) -> tuple[Tensor, Tensor]:
    """The embeddings of a batch as tensors in float32, or float64 if the student's have that type.

    No gradient flows to the teacher's. Class ids in place of them are a ValueError.
    """
    teacher, student = map(ops.convert_to_tensor, usable(teacher, student))
    for name, x in (("teacher", teacher), ("student", student)):
        kind = keras.backend.standardize_dtype(x.dtype)
        require(
            len(x.shape) == 2 and keras.backend.is_float_dtype(kind),
            f"{name} embeddings of shape {tuple(x.shape)} and type {kind}",
            f"floats (batch, {'teacher_dim' if name == 'teacher' else 'dim'}). The labels of this loss are the "
            "teacher's embeddings of the batch; a loss of class ids needs its own output of the model",
        )
    rows = teacher.shape[0], student.shape[0]
    require(
        None in rows or rows[0] == rows[1],
        f"{rows[0]} teacher embeddings and {rows[1]} student embeddings",
        "one of each per example",
    )
    dtype = "float64" if keras.backend.standardize_dtype(student.dtype) == "float64" else "float32"
    return ops.stop_gradient(ops.cast(teacher, dtype)), ops.cast(student, dtype)


def as_batch(x: Tensor) -> Pairs:
    """The rows of a matrix against each other, each of its own class."""
    return all_pairs(ops.arange(ops.shape(x)[0]), x)


def huber(difference: Tensor) -> Tensor:
    """Half the square of a difference up to 1, and its absolute value minus 1/2 beyond."""
    size = ops.abs(difference)
    return ops.where(size <= 1.0, 0.5 * ops.square(difference), size - 0.5)
