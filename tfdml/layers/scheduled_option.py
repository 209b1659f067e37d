"""Settings that change during training."""

from collections.abc import Callable
from typing import Any

import keras

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.layers.base import LossLayer
from tfdml.pairs import Pairs
from tfdml.pairs.base import Tensor


@serializable
class ScheduledOption(LossLayer):
    """A number that follows a schedule of training steps, such as a margin that grows.

    A function `Pairs -> ()`. `EmbeddingModel` counts the training steps in a variable of the layer and saves it, so a
    resumed run continues the schedule. `evaluate` takes the value of the last step.

    See also: `LearnedScalar` for a trained number.

    Example: a margin that grows to 0.5 in two steps.

        >>> growing = keras.optimizers.schedules.PolynomialDecay(0.0, decay_steps=2, end_learning_rate=0.5)
        >>> margin = tfdml.layers.ScheduledOption(growing)
        >>> loss = tfdml.losses.ArcFaceLoss(classes=870, margin=margin)
        >>> labels, x = np.array([0, 0]), np.eye(2, dtype="float32")
        >>> pairs = tfdml.pairs.all_pairs(labels, x)
        >>> for step in range(3):
        ...     print(float(margin(pairs)))
        ...     margin.update(labels, x)  # EmbeddingModel does it after each training step
        0.0
        0.25
        0.5

    Args:
        schedule: a `keras.optimizers.schedules.LearningRateSchedule`, or a function of the step, an integer tensor;
            it returns a scalar tensor. Register a function with Keras to save the loss.
    """

    def __init__(self, schedule: Callable[[Tensor], Tensor], **options: Any) -> None:
        super().__init__(**options)
        expected = "a function of the step, such as keras.optimizers.schedules.PolynomialDecay"
        require(callable(schedule), f"schedule={schedule!r}", expected)
        self.schedule = schedule
        self.step = self.add_state("step", (), "int32")

    def call(self, pairs: Pairs) -> Tensor:
        """The value at the current step, a scalar."""
        return ops.cast(self.schedule(ops.convert_to_tensor(self.step)), "float32")

    def update(self, labels: Tensor, embeddings: Tensor) -> None:
        """Count a training step."""
        self.step.assign_add(1)

    def get_config(self) -> dict[str, Any]:
        """The constructor arguments."""
        return {**super().get_config(), "schedule": keras.saving.serialize_keras_object(self.schedule)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "ScheduledOption":
        """The layer that `get_config` describes."""
        return cls(**{**config, "schedule": keras.saving.deserialize_keras_object(config["schedule"])})
