"""Training as one compiled loop over row numbers that a sampler drew: for networks whose steps are short.

`fit` gives the weights of `model.fit` on the same batches. On JAX, all steps of an epoch are one compiled program, for
several seeds at once, and the examples stay on the device. On other backends it calls `model.fit`. The row numbers of a
run are kept as a file, so that a machine with JAX and without TensorFlow, which samplers need, trains it.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import keras
import numpy as np


def drawn_rows(path: Path, make_sampler: Callable, labels: np.ndarray, steps: int) -> np.ndarray:
    """The row numbers of the first batches of a sampler, from their file, which is written if it is missing.

    Args:
        path: the `.npy` file.
        make_sampler: function without arguments that returns the sampler.
        labels: `(examples,)` class ids.
        steps: number of batches.

    Returns:
        int32 `(steps, batch)`.

    Raises:
        ValueError: the file has another number of batches.
    """
    if not path.exists():
        _draw(path, make_sampler, labels, steps)
    rows = np.load(path)
    if len(rows) != steps:
        raise ValueError(f"Received {path} with {len(rows)} batches, expected {steps}. Delete it to draw them again.")
    return rows


def _draw(path, make_sampler, labels, steps):
    rows = make_sampler().index_batches(labels)[:steps]
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{np.random.SeedSequence().entropy}.npy")
    np.save(partial, rows.astype(np.int32))
    partial.replace(path)


def forget() -> None:
    """Forget earlier models and what was compiled for them, which would stay in memory."""
    keras.backend.clear_session()
    if keras.backend.backend() == "jax":
        import jax

        jax.clear_caches()


def fit(
    models: Sequence[keras.Model],
    examples: np.ndarray,
    labels: np.ndarray,
    rows: np.ndarray,
    *,
    epochs: int = 1,
    callbacks: Sequence[Sequence[keras.callbacks.Callback]] = (),
) -> None:
    """Train compiled models that differ in their weights alone, each on its own batches.

    Args:
        models: compiled models of one architecture, loss and optimizer; their random states may differ.
        examples: `(examples, ...)` inputs.
        labels: `(examples,)` class ids.
        rows: `(models, steps, batch)` row numbers.
        epochs: number of epochs, which divides the steps; callbacks are called between them.
        callbacks: for each model, callbacks of which `on_epoch_begin` is called.

    Raises:
        ValueError: epochs that do not divide the steps, or row numbers for another number of models.
    """
    if len(rows) != len(models) or rows.shape[1] % epochs:
        raise ValueError(
            f"Received row numbers {rows.shape} for {len(models)} models and {epochs} epochs, expected one group of "
            "batches per model, a multiple of the epochs."
        )
    train = _train_in_loop if keras.backend.backend() == "jax" else _train_by_fit
    train(models, examples, labels, rows.reshape(len(models), epochs, -1, rows.shape[-1]), callbacks)


def _train_by_fit(models, examples, labels, rows, callbacks):
    import tensorflow as tf

    for number, model in enumerate(models):
        epochs, steps = rows.shape[1:3]
        batches = tf.data.Dataset.from_tensor_slices(rows[number].reshape(-1, rows.shape[-1]))
        batches = batches.map(lambda batch: (tf.gather(examples, batch), tf.gather(labels, batch)))
        own = callbacks[number] if callbacks else []
        model.fit(batches.prefetch(4), steps_per_epoch=steps, epochs=epochs, shuffle=False, verbose=0, callbacks=own)


def _train_in_loop(models, examples, labels, rows, callbacks):
    """As `_train_by_fit`: `model.train_step` in a scan over the batches, mapped over the models."""
    import jax
    import jax.numpy as jnp

    first, data = models[0], (jnp.asarray(examples), jnp.asarray(labels))
    for model in models:
        model._symbolic_build(data_batch=(examples[: rows.shape[-1]], labels[: rows.shape[-1]]))

    def epoch(states, data, batches):
        def step(state, batch):
            logs, state = first.train_step(state, tuple(array[batch] for array in data))
            return state, logs["loss"]

        return jax.lax.scan(jax.vmap(step), states, jnp.swapaxes(batches, 0, 1))[0]

    compiled = jax.jit(epoch, donate_argnums=0)
    for number in range(rows.shape[1]):
        for model, own in zip(models, callbacks, strict=False):
            for callback in own:
                callback.set_model(model)
                callback.on_epoch_begin(number)
        states = jax.tree.map(lambda *values: jnp.stack(values), *map(_state, models))
        states = jax.device_get(compiled(states, data, jnp.asarray(rows[:, number])))
        for index, model in enumerate(models):
            _assign(model, jax.tree.map(lambda values, i=index: values[i], states))


def _state(model):
    """The variables of a model in the order of `train_step`: trainable, others, of the optimizer, of the metrics."""
    groups = (model.trainable_variables, model.non_trainable_variables, model.optimizer.variables)
    return tuple([variable.value for variable in group] for group in (*groups, model.metrics_variables))


def _assign(model, state):
    groups = (model.trainable_variables, model.non_trainable_variables, model.optimizer.variables)
    for group, values in zip((*groups, model.metrics_variables), state, strict=True):
        for variable, value in zip(group, values, strict=True):
            variable.assign(value)
