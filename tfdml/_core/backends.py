"""Operations that differ between Keras backends: gradients, sequential loops, devices, gathering across replicas.

`ops` is `keras.ops`, but for the most frequent operations on PyTorch. Keras converts and checks every argument of an
operation, which takes longer than the operation itself on a small batch, so tensors go to PyTorch directly.
"""

import contextlib
import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import keras
import numpy as np

if keras.backend.backend() == "torch":
    import torch

    class _CustomGradient(torch.autograd.Function):
        """A function `(function, *arguments)` of PyTorch's autograd, with the gradient that `function` returns."""

        @staticmethod
        def forward(ctx, function, *arguments):
            values, gradient = function(*arguments)
            if torch.compiler.is_compiling():  # where a gradient cannot be stored, and common operations are merged
                ctx.save_for_backward(*arguments)
                ctx.function = function
                return tuple(values) if isinstance(values, list) else values
            ctx.gradient = gradient
            # The gradient may hold the values, which must not hold the gradient in turn: they would never be freed.
            return tuple(x.detach() for x in values) if isinstance(values, list) else values.detach()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, *upstream):
            gradient = ctx.function(*ctx.saved_tensors)[1] if torch.compiler.is_compiling() else ctx.gradient
            gradients = gradient(*upstream)
            gradients = gradients if isinstance(gradients, list | tuple) else [gradients]
            needed = zip(gradients, ctx.needs_input_grad[1:], strict=True)
            return None, *(_computed(x) if is_needed else None for x, is_needed in needed)


def _operations():
    if keras.backend.backend() != "torch":
        return keras.ops
    from tfdml._core.torch_ops import operations

    return operations()


ops: Any = _operations()


def custom_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """`keras.ops.custom_gradient` with one form of the gradient on every backend.

    `function(*arguments)` returns a tensor or a list of tensors, and `gradient(*upstream)`, which returns one gradient
    per argument, None, or a function that returns it, which PyTorch calls where it needs it. Keras calls `gradient` so
    on TensorFlow, as `gradient(upstream)` on JAX, and as `gradient(*arguments, upstream=...)` on PyTorch.
    """
    if keras.backend.backend() == "torch":
        return functools.wraps(function)(lambda *arguments: _CustomGradient.apply(function, *arguments))

    def with_flat_gradient(*arguments):
        values, gradient = function(*arguments)

        def flat_gradient(*upstream):
            gradients = gradient(*keras.tree.flatten(upstream))
            return [_computed(x) for x in gradients] if isinstance(gradients, list | tuple) else gradients

        return values, flat_gradient

    return keras.ops.custom_gradient(functools.wraps(function)(with_flat_gradient))


def _computed(gradient):
    return gradient() if callable(gradient) else gradient


def vector_jacobian(function: Callable[..., Any], arguments: Sequence[Any], weights: Any) -> list[Any]:
    """The gradient of sum(weights * function(*arguments)) with respect to each argument, 0 for one that is not used."""
    gradients = value_and_vector_jacobian(function, arguments, weights)[1]
    return [ops.zeros_like(x) if y is None else y for x, y in zip(arguments, gradients, strict=True)]


def value_and_vector_jacobian(
    function: Callable[..., Any], arguments: Sequence[Any], weights: Any
) -> tuple[Any, list[Any]]:
    """The values of a function, and its `vector_jacobian`, or None on some backends for an argument without use."""
    if keras.backend.backend() == "jax":
        import jax

        values, pull_back = jax.vjp(function, *arguments)
        return values, list(pull_back(weights))
    if keras.backend.backend() == "torch":
        return _torch_vector_jacobian(function, arguments, weights)
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(arguments)
        values = function(*arguments)
    gradients = tape.gradient(values, arguments, output_gradients=weights)
    return values, [None if x is None else tf.convert_to_tensor(x) for x in gradients]


def _torch_vector_jacobian(function, arguments, weights):
    import torch

    with torch.enable_grad():
        arguments = [x.detach().requires_grad_() for x in arguments]
        values = function(*arguments)
        flat = zip(keras.tree.flatten(values), keras.tree.flatten(weights), strict=True)
        used = [(x, w) for x, w in flat if x.requires_grad]
        gradients = [None] * len(arguments)
        if used:
            outputs, weights = zip(*used, strict=True)
            gradients = torch.autograd.grad(outputs, arguments, weights, allow_unused=True)
    return keras.tree.map_structure(lambda x: x.detach(), values), list(gradients)


def scatter(indices: Any, values: Any, shape: Sequence[Any]) -> Any:
    """`keras.ops.scatter`, sums of values at places `(n, axes)` of zeros, which Keras adds one by one on PyTorch."""
    if keras.backend.backend() != "torch":
        return keras.ops.scatter(indices, values, shape)
    return values.new_zeros(shape).index_put(tuple(indices.long().unbind(1)), values, accumulate=True)


def repeatable_draws() -> Callable[[Any], AbstractContextManager[Any]]:
    """A function from the number of a step to a context in which that step always draws the same random numbers.

    On PyTorch, whose layers without a seed draw from one global generator; elsewhere the context does nothing.
    """
    if keras.backend.backend() != "torch":
        return lambda step: contextlib.nullcontext()
    seed = int(torch.randint(2**62, ()))

    @contextlib.contextmanager
    def draws_of(step):
        with torch.random.fork_rng():
            torch.manual_seed(seed + int(step))
            yield

    return draws_of


def loop(count: Any, body: Callable[[Any, Any], Any], values: Any) -> Any:
    """`values` after `values = body(step, values)` for each step below `count`, one step after the other.

    `keras.ops.fori_loop` computes up to ten steps at the same time in graphs of TensorFlow, with the memory of all.
    """
    if keras.backend.backend() != "tensorflow":
        return keras.ops.fori_loop(0, count, body, values)
    import tensorflow as tf

    def step(number, current):
        return number + 1, body(number, current)

    return tf.while_loop(lambda number, _: number < count, step, (0, values), parallel_iterations=1)[1]


def while_loop(condition: Callable[..., Any], body: Callable[..., Any], values: Any) -> Any:
    """`keras.ops.while_loop`, also in `torch.compile`; where Keras infers shapes on PyTorch, one step."""
    if keras.backend.backend() != "torch":
        return keras.ops.while_loop(condition, body, values)
    if values[0].device.type == "meta":
        return tuple(body(*values))
    if torch.compiler.is_compiling():
        from torch._higher_order_ops import while_loop

        return while_loop(condition, body, tuple(x.clone() for x in values))  # it refuses the same tensor twice
    while condition(*values):
        values = tuple(body(*values))
    return values


def can_read(x: Any) -> bool:
    """Whether reading numbers of this tensor takes no time: PyTorch, eager, on a CPU, and not empty."""
    is_readable = keras.backend.backend() == "torch" and x.device.type == "cpu" and x.numel() > 0
    return is_readable and not torch.compiler.is_compiling()


def are_small(*tensors: Any) -> bool:
    """Whether all norms are far below overflow, for tensors of `can_read`.

    False elsewhere, and where a number is not finite.
    """
    return can_read(tensors[0]) and all(float(torch.linalg.vector_norm(x.detach())) < 1e18 for x in tensors)


def is_float64(x: Any) -> bool:
    """Whether a tensor has the type float64."""
    if keras.backend.backend() == "torch":
        return x.dtype is torch.float64
    return keras.backend.standardize_dtype(x.dtype) == "float64"


def are_plain(labels: Any, embeddings: Any) -> bool:
    """Whether these are one int64 class id and one row of float32 numbers per example, on a CPU, of PyTorch."""
    return (
        keras.backend.backend() == "torch"
        and isinstance(labels, torch.Tensor)
        and isinstance(embeddings, torch.Tensor)
        and labels.dtype is torch.int64
        and embeddings.dtype is torch.float32
        and labels.shape == embeddings.shape[:1]
        and embeddings.ndim == 2
        and ops.convert_to_tensor(embeddings) is embeddings
    )


def has_plain_mean(values: Any) -> bool:
    """Whether Keras would reduce values without weights by `values.mean()`, after many checks: on PyTorch."""
    return keras.backend.backend() == "torch" and isinstance(values, torch.Tensor) and values.numel() > 0


def squared_distances(x: Any, norms: Any) -> Any:
    """Squared distances between rows of PyTorch with these squared norms, `(rows, 1)`; without gradient."""
    return (norms + norms.t()).addmm_(x, x.t(), alpha=-2.0)


def plus_transpose(x: Any) -> Any:
    """A matrix of PyTorch plus its transpose, copied first where sums by columns are slow; without gradient."""
    if x.shape[0] <= 128:
        return x.detach() + x.detach().t()
    return x.detach().t().clone(memory_format=torch.contiguous_format).add_(x.detach())


def row_dots(x: Any, y: Any) -> Any:
    """The sum of the products in each row of two matrices, `(rows,)`; PyTorch stores no product."""
    if keras.backend.backend() == "torch" and x.dtype == y.dtype:
        return torch.linalg.vecdot(x, y)
    return keras.ops.sum(x * y, axis=1)


def row_counts(x: Any) -> Any:
    """The number of entries above 0 in each row of a matrix without negative ones, `(rows,)`, as floats."""
    if keras.backend.backend() == "torch":
        return torch.linalg.vector_norm(x, ord=0, dim=1)
    return keras.ops.sum(keras.ops.sign(x), axis=1)


def add_at(x: Any, columns: Any, values: Any) -> Any:
    """A matrix plus one of the values `(rows, 1)` in one column of each row."""
    if keras.backend.backend() == "torch":
        return x.scatter_add(1, columns.long()[:, None], values)
    all_columns = keras.ops.arange(keras.ops.shape(x)[1], dtype=columns.dtype)
    return keras.ops.where(all_columns == columns[:, None], x + values, x)


def nonzero_columns(x: Any) -> Any:
    """The columns of the nonzero entries of each row, `(rows, most)`, then the number of columns; of `can_read`."""
    rows, columns = x.nonzero(as_tuple=True)
    number = torch.bincount(rows, minlength=x.shape[0])
    rank = torch.arange(len(rows)) - (number.cumsum(0) - number)[rows]
    padded = columns.new_full((x.shape[0], int(number.max())), x.shape[1])
    return padded.index_put_((rows, rank), columns)


def with_diagonal(x: Any, number: float) -> Any:
    """A square matrix with a number on its diagonal, without gradient: on PyTorch x itself, changed in place."""
    if keras.backend.backend() == "torch":
        return x.fill_diagonal_(number)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.linalg.set_diag(x, tf.fill(tf.shape(x)[:1], tf.cast(number, x.dtype)))
    rows = keras.ops.arange(x.shape[0])
    return keras.ops.where(rows[:, None] == rows, number, x)


def next_power_of_two(x: Any) -> Any:
    """The power of two above each entry, or twice the entry if it is one, of positive floats of PyTorch; exact."""
    mantissa, _ = torch.frexp(x)
    return x / mantissa


def _only_shapes():
    """Whether tensors of PyTorch have shapes alone, as where Keras infers them."""
    return keras.backend.backend() == "torch" and keras.ops.zeros(()).device.type == "meta"


def has_values() -> bool:
    """False where a tensor of PyTorch has no value to read: in `torch.compile`, and where Keras infers shapes.

    True on other backends, where the type of such a tensor says so.
    """
    if keras.backend.backend() != "torch":
        return True
    return not torch.compiler.is_compiling() and not _only_shapes()


def is_in_xla() -> bool:
    """Whether operations are compiled by XLA: on JAX, and in graphs of TensorFlow for `jit_compile=True`."""
    if keras.backend.backend() != "tensorflow":
        return keras.backend.backend() == "jax"
    import tensorflow as tf
    from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext

    return bool(GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()))


def reading_values(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors whose steps depend on their values, as one operation in `torch.compile`, without gradient.

    It returns a tensor in the shape of the first.
    """
    if keras.backend.backend() != "torch":
        return function

    def copied(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        value = function(*tensors)
        return value.clone() if any(value is x for x in tensors) else value

    operation = torch.library.custom_op(f"tfdml::{function.__name__}", copied, mutates_args=())
    operation.register_fake(lambda tensors: torch.empty_like(tensors[0]))

    @functools.wraps(function)
    def called(*tensors):
        return operation(list(tensors)) if torch.compiler.is_compiling() else function(*tensors)

    return called


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that `torch.compile` calls as it is, because it differentiates inside; it breaks the graph."""
    if keras.backend.backend() != "torch":
        return function
    return torch.compiler.disable(function, reason="it computes gradients itself; losses in blocks are not compiled")


def list_devices() -> list[str]:
    """The devices of the default type, as "cpu:0", which Keras does not list on PyTorch."""
    if keras.backend.backend() != "torch":
        return keras.distribution.list_devices()
    kind = keras.ops.zeros(()).device.type
    return [f"{kind.replace('cuda', 'gpu')}:0"]


def of_all_replicas(rows: Any) -> Any:
    """The rows of all replicas of `tf.distribute`, with gradients to each, for a tensor or a structure with None.

    Elsewhere the same rows. On JAX, arrays that `keras.distribution` divides are whole already.
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


def mean_of_all_replicas(gradients: Sequence[Any]) -> list[Any]:
    """The mean over the replicas of `tf.distribute` of each gradient, a dense tensor or None."""
    import tensorflow as tf

    dense = [None if x is None else tf.convert_to_tensor(x) for x in gradients]
    means = iter(tf.distribute.get_replica_context().all_reduce("mean", [x for x in dense if x is not None]))
    return [None if x is None else next(means) for x in dense]


def num_replicas() -> int:
    """The number of replicas of `tf.distribute` that compute together; 1 on other backends."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    return tf.distribute.get_strategy().num_replicas_in_sync


def looked_at(dataset: Any, look: Callable[[list[Any], list[Any]], None], by_output: Callable[[Any], list[Any]]) -> Any:
    """A `tf.data.Dataset` of the same batches, each of which a function of Python sees when it is drawn.

    `look` gets the first example of each input, and all labels of each output, as arrays; `by_output` takes `y` and
    returns the labels of each output. Ragged and sparse tensors are None, and so are the examples beside them.
    """
    import tensorflow as tf

    @tf.autograph.experimental.do_not_convert
    def seen(x, y, *weights):
        examples, labels = keras.tree.flatten(x), by_output(y)
        examples = [values[:1] for values in examples] if all(map(_is_dense, examples)) else []
        readable = [number for number, values in enumerate(labels) if _is_dense(values)]

        def look_at(*arrays):
            by_number = dict(zip(readable, arrays[len(examples) :], strict=True))
            look(list(arrays[: len(examples)]), [by_number.get(number) for number in range(len(labels))])
            return np.int32(0)

        tensors = [*examples, *(labels[number] for number in readable)]
        with tf.control_dependencies([tf.numpy_function(look_at, tensors, tf.int32)]):
            return (x, keras.tree.map_structure(tf.identity, y), *weights)

    return dataset.map(seen)


def _is_dense(x):
    import tensorflow as tf

    return isinstance(x, tf.Tensor)


def set_float32_products(precision: str) -> None:
    """Switch TensorFlow or PyTorch, for the whole program, to products in full float32, or in TF32 if "fast".

    They have no products of three bfloat16 passes, so "high" is full float32 there. JAX has a context instead.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.config.experimental.enable_tensor_float_32_execution(precision == "fast")
    elif keras.backend.backend() == "torch":
        torch.set_float32_matmul_precision("high" if precision == "fast" else "highest")


def products_in(precision: str) -> AbstractContextManager[Any]:
    """A context in which JAX computes float32 products in a precision of its own names; other backends ignore it."""
    if keras.backend.backend() != "jax":
        return contextlib.nullcontext()
    import jax

    return jax.default_matmul_precision(precision)
