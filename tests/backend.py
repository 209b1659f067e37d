"""The same test on every Keras backend: gradients and compilation."""

import keras
import numpy as np

BACKEND = keras.backend.backend()


def gradient(function, x):
    """d function(x) / dx of a scalar function, as an array."""
    if BACKEND == "jax":
        import jax

        return np.asarray(jax.grad(lambda v: keras.ops.sum(function(v)))(keras.ops.convert_to_tensor(x)))
    import tensorflow as tf

    x = tf.convert_to_tensor(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = keras.ops.sum(function(x))
    return tape.gradient(value, x).numpy()


def compiled(function):
    """`function` under XLA."""
    if BACKEND == "jax":
        import jax

        return jax.jit(function)
    import tensorflow as tf

    return tf.function(function, jit_compile=True)


def numbers(x):
    return keras.ops.convert_to_numpy(x)
