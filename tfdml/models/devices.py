"""Runs over several devices and processes: batches that can be divided, and the same run in every process."""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import keras
import numpy as np

from tfdml._core.backends import mean_of_all_replicas, num_replicas
from tfdml._core.optional import version
from tfdml.pairs.base import Tensor

_PACKAGES = ("tfdml", "tensorflow", "keras", "jax", "jaxlib")
_KERAS_BATCH_SIZE = 32  # of arrays


def process() -> tuple[int, int]:
    """The number of this process, and of all over which `keras.distribution` divides a run; 0 and 1 without one."""
    count = getattr(keras.distribution.distribution(), "num_processes", 1)
    if count == 1:
        return 0, 1
    import jax

    return jax.process_index(), count


def require_same_run(steps: int, arguments: Mapping[str, Any]) -> None:
    """Raise a ValueError in all processes, before the first batch, if their packages, steps or epochs differ."""
    if process()[1] == 1:
        return
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    require_equal(_of_all_processes(versions), "the same versions. Install the same packages for all processes")
    numbers = {name: arguments.get(name) for name in ("initial_epoch", "epochs", "steps_per_epoch")}
    run = ", ".join(f"{name}={number}" for name, number in {"model.steps": steps, **numbers}.items())
    advice = "the same numbers. Let all processes load the same file, and call fit with the same arguments"
    require_equal(_of_all_processes(run), advice)


def require_equal(texts: list[str], expected: str) -> None:
    """Raise a ValueError that names the first process whose text differs from that of process 0."""
    other = next((number for number, text in enumerate(texts) if text != texts[0]), None)
    if other is not None:
        received = f"{texts[0]} in process 0 and {texts[other]} in process {other}"
        raise ValueError(f"Received {received} of {len(texts)}, expected {expected}.")


def once_for_all_replicas(loss: Any) -> Any:
    """Losses, as `compile` takes them, of rows that every replica of `tf.distribute` has: divided by the replicas."""
    return keras.tree.map_structure(_once_for_all_replicas, loss)


def _once_for_all_replicas(loss):
    if isinstance(loss, keras.losses.Loss):
        return _OnceForAllReplicas(loss)
    if loss is None or str(loss).lower() in ("crossentropy", "ce"):  # of which Keras selects one by the labels
        return loss
    return _of_vectors(keras.losses.get(loss))


class _OnceForAllReplicas(keras.losses.Loss):
    """A loss whose sum over the replicas is its value on the rows that all of them have."""

    def __init__(self, loss: keras.losses.Loss) -> None:
        super().__init__(name=loss.name, reduction=loss.reduction, dtype=loss.dtype)
        self.loss, self.is_mean = loss, loss.reduction not in (None, "none", "sum")
        self.values = _of_vectors(loss.call)

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        if type(self.loss).__call__ is keras.losses.Loss.__call__:
            loss = super().__call__(y_true, y_pred, sample_weight)
        else:  # it reduces its own values, as the losses of tfdml do
            loss = self.loss(y_true, y_pred, sample_weight)
        return loss if self.is_mean else loss / num_replicas()

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return self.values(y_true, y_pred) if self.is_mean else self.loss.call(y_true, y_pred)


def _of_vectors(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function of labels and predictions with a vector of one value in place of a scalar."""

    @functools.wraps(function)
    def values(y_true, y_pred):
        result = keras.ops.convert_to_tensor(function(y_true, y_pred))
        return result if len(result.shape) else keras.ops.reshape(result, (1,))

    return values


def clip_after_the_sum(optimizer: Any) -> None:
    """Let an optimizer clip the sum of the gradients of all replicas of `tf.distribute`, and look there for overflow.

    Keras clips, and looks, before it sums, which is another training than on one device.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if inner is optimizer and not (inner.clipnorm or inner.global_clipnorm or inner.clipvalue):
        return

    def apply(gradients, variables=None):
        type(optimizer).apply(optimizer, mean_of_all_replicas(gradients), variables)

    def clipped(gradients):
        """Clipped sums, divided by the replicas, as Keras sums next."""
        sums = type(inner)._clip_gradients(inner, _times(gradients, num_replicas()))
        return _times(sums, 1 / num_replicas())

    optimizer.apply, inner._clip_gradients = apply, clipped


def _times(gradients, factor):
    return [None if gradient is None else gradient * factor for gradient in gradients]


def build_layer(layer: keras.layers.Layer, *shapes: Any) -> None:
    """Build a layer of a loss; a ValueError for a layout of `keras.distribution` that cannot divide its variables."""
    try:
        layer.build(*shapes)
    except ValueError as error:
        if keras.distribution.distribution() is None:
            raise
        raise ValueError(
            f"Received a layout that does not divide the variables of {layer.name}, expected a number of rows that is "
            f"a multiple of the devices of its axis. Pass a larger number of classes, or change the mesh: {error}."
        ) from error


def require_divisible(x: Any, batch_size: int | None = None, *, validation_split: float = 0.0) -> None:
    """Raise a ValueError for batches, as far as known, whose rows `keras.distribution` cannot divide over devices."""
    distribution = keras.distribution.distribution()
    if distribution is None:
        return
    devices = distribution.num_model_replicas
    divided = 1 if distribution.auto_shard_dataset else min(process()[1], devices)  # each process has its own rows
    sizes = [divided * rows for rows in _batch_sizes(x, batch_size, validation_split)]
    rows = next((rows for rows in sizes if rows % devices), None)
    if rows is not None:
        raise ValueError(
            f"Received a batch of {rows} rows for {devices} devices, expected a multiple of {devices}. Change the "
            "batch size, leave out the rows of a short last batch, or use fewer devices. tfdml.models.embed takes "
            "any number of rows."
        )


def _batch_sizes(x, batch_size, validation_split):
    """The numbers of rows that the batches of data have, as far as they are known."""
    if hasattr(x, "element_spec"):
        shapes = [spec.shape for spec in keras.tree.flatten(x.element_spec)]
        return [shape[0] for shape in shapes[:1] if shape.rank and shape[0] is not None]
    arrays = keras.tree.flatten(x)[:1]
    if not arrays or not (isinstance(arrays[0], np.ndarray) or keras.ops.is_tensor(arrays[0])):
        return []
    total, size = arrays[0].shape[0], batch_size or _KERAS_BATCH_SIZE
    train = int(total * (1.0 - validation_split))
    return [number for rows in (train, total - train) for number in (min(rows, size), rows % size)]


def _of_all_processes(text):
    """The text that each process passes, in the order of the processes."""
    from jax.experimental.multihost_utils import process_allgather

    code = text.encode()
    length = int(np.max(process_allgather(np.array(len(code), "int32"))))
    codes = process_allgather(np.frombuffer(code.ljust(length), "uint8"))
    return [bytes(code).decode().rstrip() for code in np.asarray(codes)]


def wait_for_all_processes() -> None:
    """Return when every process has called this function; at once where there is one process."""
    if process()[1] > 1:
        from jax.experimental.multihost_utils import sync_global_devices

        sync_global_devices("tfdml")


def variables_of(model: keras.Model) -> list[Any]:
    """The variables of a model and of its optimizer, if it has one."""
    return [*model.variables, *getattr(getattr(model, "optimizer", None), "variables", ())]


def require_readable(variables: Iterable[Any]) -> None:
    """Raise a ValueError for a variable of which this process does not have all parts, and cannot save it."""
    for variable in variables:
        if not _is_readable(variable.value):
            _whole(variable)


@contextlib.contextmanager
def in_one_process(variables: Iterable[Any]) -> Iterator[None]:
    """Within the block, this process alone may read the variables, divided ones as arrays, and make new ones."""
    values = [(variable, variable.value) for variable in variables if not _is_readable(variable.value)]
    distribution = keras.distribution.distribution()
    try:
        keras.distribution.set_distribution(None)  # in it, all processes would have to make a variable
        for variable, _ in values:
            variable._value = _whole(variable)
        yield
    finally:
        keras.distribution.set_distribution(distribution)
        for variable, value in values:
            variable._value = value


def _is_readable(value):
    return getattr(value, "is_fully_addressable", True) or value.is_fully_replicated


def _whole(variable):
    shards = {str(shard.index): shard for shard in variable.value.addressable_shards}
    if sum(shard.data.size for shard in shards.values()) < variable.value.size:
        raise ValueError(
            f"Received {variable.path}, of which process {process()[0]} has {len(shards)} parts and other processes "
            "the rest, expected all parts in every process. Give the mesh one row of devices per process, "
            "keras.distribution.DeviceMesh((processes, devices_per_process), ('batch', 'model')), or save with "
            "keras.callbacks.OrbaxCheckpoint."
        )
    whole = np.empty(variable.shape, variable.dtype)
    for shard in shards.values():
        whole[shard.index] = shard.data
    return whole
