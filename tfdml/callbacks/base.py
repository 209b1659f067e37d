"""Base classes of the callbacks, and checks of models and embeddings during training."""

import copy
import time
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from tfdml._core.checks import are_all_the_same, labels_of, require, require_number, require_whole
from tfdml.models.devices import variables_of
from tfdml.typing import Examples


class Callback(keras.callbacks.Callback):
    """A Keras callback whose copies share its data. Tuners make a copy for each trial."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "Callback":
        return copy.copy(self)


def one_label_per_example(data: Examples, labels: npt.ArrayLike | None) -> np.ndarray:
    """The labels of a labeled set, or `labels`, as an array of one per example."""
    labels = np.asarray(labels_of(data, labels))
    require(len(data) == len(labels), f"{len(data)} examples and {len(labels)} labels", "one label per example")
    return labels


class Scheduled(Callback):
    """Write the numbers of `_values_after(epoch)` into the logs, as often as `every` and `max_time_fraction` allow."""

    def __init__(self, *, every: int, max_time_fraction: float | None, prefix: str, at_sign: str) -> None:
        super().__init__()
        require_whole("every", every, 1)
        if max_time_fraction is not None:
            require_number("max_time_fraction", max_time_fraction)
        require(
            max_time_fraction is None or 0 < max_time_fraction < 1,
            f"max_time_fraction={max_time_fraction!r}",
            "a number above 0 and below 1, or None",
        )
        require(isinstance(at_sign, str), f"at_sign={at_sign!r}", "text in place of the @ of names, such as '_at_'")
        self.every, self.max_time_fraction, self.prefix, self.at_sign = every, max_time_fraction, prefix, at_sign

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Begin to measure time."""
        self._begin, self._durations = time.monotonic(), list[float]()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Evaluate after the epochs that `every` and `max_time_fraction` select."""
        if logs is None:
            return
        if self._is_due(epoch):
            begin = time.monotonic()
            values = self._values_after(epoch)
            self._durations.append(time.monotonic() - begin)
            logs.update({self.prefix + name.replace("@", self.at_sign): value for name, value in values.items()})
        if self.max_time_fraction is not None:
            logs[f"{self.prefix}time_fraction"] = self._time_fraction()

    def _is_due(self, epoch):
        if not self._durations or epoch + 1 == self.params.get("epochs"):
            return True
        limit = self.max_time_fraction
        has_time = limit is None or self._time_fraction(self._durations[-1]) <= limit
        return (epoch + 1) % self.every == 0 and has_time

    def _time_fraction(self, additional=0.0):
        """Fraction of the time since the run began that evaluations took, or will take after `additional` seconds."""
        total = sum(self._durations) + additional
        return total / max(time.monotonic() - self._begin + additional, 1e-9)

    def _values_after(self, epoch: int) -> dict[str, float]:
        """The numbers of the model in training, without the prefix."""
        raise NotImplementedError


def embedding_problem(embeddings: np.ndarray) -> str | None:
    """The reason why embeddings cannot be ranked, with likely causes; None if they can."""
    with np.errstate(over="ignore", invalid="ignore"):
        embeddings = np.asarray(embeddings, "float32")
    non_finite = 1.0 - np.isfinite(embeddings).all(axis=1).mean()
    if non_finite > 0:
        return (
            f"{non_finite:.1%} of the embeddings are not finite. Likely causes: a learning rate that is too high, half "
            "precision without loss scaling, inputs that are not finite."
        )
    if are_all_the_same(embeddings):
        return (
            "all embeddings are the same: the model has collapsed. Likely causes: averages of BatchNormalization that "
            "lag during the first hundreds of steps (wait, or lower their momentum to 0.9), a learning rate that is "
            "too high, inputs that do not reach the output."
        )
    return None


def non_finite_variable(model: keras.Model) -> str | None:
    """The path of the first variable of a model or its optimizer that is not finite; None if all are."""
    return next((variable.path for variable in variables_of(model) if not _is_finite(variable)), None)


def _is_finite(variable):
    if not keras.backend.is_float_dtype(variable.dtype):
        return True
    return bool(keras.ops.convert_to_numpy(keras.ops.all(keras.ops.isfinite(variable))))
