"""Operations that Keras lacks on some backends: gradients, sequential loops, gathering across replicas."""

from collections.abc import Callable, Sequence
from typing import Any

import keras


def vector_jacobian(function: Callable[..., Any], arguments: Sequence[Any], weights: Any) -> list[Any]:
    """The gradient of sum(weights * function(*arguments)) with respect to each argument.

    Args:
        function: returns a tensor or a list of tensors.
        arguments: float tensors.
        weights: tensors in the shape of what the function returns.

    Raises:
        NotImplementedError: a Keras backend other than TensorFlow and JAX.
    """
    if _on("jax"):
        import jax

        return list(jax.vjp(function, *arguments)[1](weights))
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(arguments)
        values = function(*arguments)
    return tape.gradient(values, arguments, output_gradients=weights, unconnected_gradients="zero")


def loop(count: Any, body: Callable[[Any, Any], Any], values: Any) -> Any:
    """`values` after `values = body(step, values)` for each step below `count`, one step after the other.

    `keras.ops.fori_loop` computes up to ten steps at the same time in graphs of TensorFlow, with the memory of all.

    Raises:
        NotImplementedError: as `vector_jacobian`.
    """
    if _on("jax"):
        return keras.ops.fori_loop(0, count, body, values)
    import tensorflow as tf

    def step(number, current):
        return number + 1, body(number, current)

    return tf.while_loop(lambda number, _: number < count, step, (0, values), parallel_iterations=1)[1]


def _on(backend):
    """Whether Keras runs on JAX or TensorFlow, or the error of other backends."""
    if keras.backend.backend() not in ("jax", "tensorflow"):
        raise NotImplementedError(
            f"Received the Keras backend {keras.backend.backend()!r}, expected tensorflow or jax."
        )
    return keras.backend.backend() == backend


def of_all_replicas(rows: Any) -> Any:
    """The rows of all replicas of `tf.distribute`, with gradients to each, for a tensor or a structure with None.

    The same rows on one device, on other backends, and outside of a replica. On JAX, arrays that `keras.distribution`
    divides are whole already.
    """
    if keras.backend.backend() != "tensorflow":
        return rows
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return rows

    def from_all(x):
        return None if x is None else tf.ensure_shape(context.all_gather(x, axis=0), [None, *x.shape[1:]])

    return keras.tree.map_structure(from_all, rows)
