"""What lets one test run on every Keras backend: gradients, compilation, shapes."""

import contextlib

import keras

BACKEND = keras.backend.backend()
XLA = BACKEND != "torch"  # for jit_compile=: PyTorch compiles a training step for a minute or more


def gradient_of(function, x):
    """d sum(function(x)) / dx as a tensor, inside compiled functions too."""
    if BACKEND == "jax":
        import jax

        return jax.grad(lambda v: keras.ops.sum(function(v)))(x)
    if BACKEND == "torch":
        return gradient_and_values(lambda v: (keras.ops.sum(function(v)), None), x)[1]
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(x)
        value = keras.ops.sum(function(x))
    return tape.gradient(value, x)


def gradient(function, x):
    """d sum(function(x)) / dx as an array."""
    return numbers(gradient_of(function, keras.ops.convert_to_tensor(x)))


def gradient_and_values(function, x):
    """Of `function`, which returns a scalar and values: the scalar, its gradient, and the values, in one pass."""
    if BACKEND == "jax":
        import jax

        (scalar, values), slope = jax.value_and_grad(function, has_aux=True)(x)
        return scalar, slope, values
    if BACKEND == "torch":
        import torch

        x = x.detach().requires_grad_()
        scalar, values = function(x)
        if not scalar.requires_grad:
            return scalar, torch.zeros_like(x), values
        (slope,) = torch.autograd.grad(scalar, [x], allow_unused=True, materialize_grads=True)
        return scalar, slope, values
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(x)
        scalar, values = function(x)
    return scalar, tape.gradient(scalar, x), values


def compiled(function):
    """`function` under XLA; on PyTorch as it is, since `torch.compile` takes seconds per function."""
    if BACKEND == "jax":
        import jax

        return jax.jit(function)
    if BACKEND == "torch":
        return function
    import tensorflow as tf

    return tf.function(function, jit_compile=True)


def traced(function):
    """`function` as `compiled`, and on PyTorch under `torch.compile`: where no value can be read to raise an error."""
    if BACKEND == "torch":
        import torch

        return torch.compile(function, backend="eager")
    return compiled(function)


def fast(function):
    """`function`, compiled on JAX, which otherwise compiles each of its operations separately."""
    return compiled(function) if BACKEND == "jax" else function


def graphed(function):
    """`function` in a graph of TensorFlow without XLA, for the shapes of its arguments; elsewhere as `fast`."""
    if BACKEND != "tensorflow":
        return fast(function)
    import tensorflow as tf

    return tf.function(function, jit_compile=False)


def spec(function, *arguments):
    """Shape and type of the tensor that `function` returns; JAX only traces it."""
    if BACKEND == "jax":
        import jax

        found = jax.eval_shape(function, *arguments)
    else:
        found = function(*arguments)
    return tuple(found.shape), keras.backend.standardize_dtype(found.dtype)


def float64():
    """A context in which JAX computes in float64, as TensorFlow does by itself."""
    if BACKEND == "jax":
        import jax

        return jax.enable_x64(True)
    return contextlib.nullcontext()


def fewer_on_jax(rows, number=1):
    """All rows of a table, or the first ones on JAX, which compiles each operation for each shape."""
    return rows if BACKEND == "tensorflow" else rows[:number]


def numbers(x):
    """A tensor as an array."""
    return keras.ops.convert_to_numpy(x)
