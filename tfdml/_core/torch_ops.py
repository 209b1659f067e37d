"""The most frequent operations of `keras.ops` as operations of PyTorch; `backends` says why."""

import functools
import types
from typing import Any

import keras
import torch


def _cond(condition, when_true, when_false):
    """`keras.ops.cond`, which inspects the signatures of both functions; without values, the first."""
    return (when_true if condition.device.type == "meta" or condition else when_false)()


def _cast(x, dtype):
    return x.to(_TORCH_DTYPES[dtype]) if dtype in _TORCH_DTYPES else keras.ops.cast(x, dtype)


def _convert_to_tensor(x, *options, **named):
    is_in_place = _IS_ON_CPU and x.device.type == "cpu" and not (options or named)
    return x if is_in_place else keras.ops.convert_to_tensor(x, *options, **named)


def _with_bool(function):
    return lambda x, y: function(x, torch.as_tensor(y))


def _maximum(x, y):
    if isinstance(y, torch.Tensor):
        return torch.maximum(x, y)
    return torch.relu(x) if y == 0 else x.clamp(min=y)  # the gradient of relu takes one pass


def _minimum(x, y):
    return torch.minimum(x, y) if isinstance(y, torch.Tensor) else x.clamp(max=y)


def _transpose(x, axes=None):
    return x.t() if x.ndim == 2 and axes is None else keras.ops.transpose(x, axes)


def _like(function, fallback):
    return lambda x, dtype=None: function(x) if dtype is None else fallback(x, dtype)


def _pad(x, widths, **options):
    if options:
        return keras.ops.pad(x, widths, **options)
    return torch.nn.functional.pad(x, [width for sides in reversed(widths) for width in sides])


def _take(x, rows, axis=None):
    if isinstance(rows, torch.Tensor) and rows.ndim == 1 and axis == 0:
        return torch.index_select(x, 0, rows)
    return torch.take(x, rows.long()) if axis is None else keras.ops.take(x, rows, axis)


def _take_along_axis(x, columns, axis):
    if x.ndim == 2 and axis == 1 and x.shape[0] == columns.shape[0]:
        return torch.gather(x, 1, columns.long())
    return torch.take_along_dim(x, columns.long(), axis)


def _segment_sum(data, segments, num_segments):
    return data.new_zeros((num_segments, *data.shape[1:])).index_add(0, segments, data)


def _of_lists(function, fallback):
    """The operation of PyTorch on lists of tensors; that of Keras on other lists."""

    def operation(xs, axis=0):
        is_plain = all(isinstance(x, torch.Tensor) for x in xs)
        return (function if is_plain else fallback)(xs, axis)

    return operation


_TORCH_DTYPES = {name: getattr(torch, name) for name in ("bool", "int32", "int64", "float32", "float64")}
# Types of arguments that PyTorch takes as they are, besides tensors.
_PLAIN = {torch.Tensor, torch.nn.Parameter, bool, int, float, str, list, tuple, torch.dtype, types.FunctionType}
_IS_ON_CPU = keras.ops.zeros(()).device.type == "cpu"  # where Keras places tensors
_TORCH_DTYPES |= {dtype: dtype for dtype in _TORCH_DTYPES.values()}

# Types of the first argument, None for any, and the operations that PyTorch computes as Keras does.
_TORCH_OPS = {
    (torch.float32, torch.int32): {
        "amax": torch.amax,
        "amin": torch.amin,
        "clip": torch.clamp,
        "minimum": _minimum,
    },
    (torch.float32,): {
        "abs": torch.abs,
        "ceil": torch.ceil,
        "exp": torch.exp,
        "floor": torch.floor,
        "log": torch.log,
        "matmul": torch.matmul,
        "maximum": _maximum,
        "mean": torch.mean,
        "multiply": torch.mul,
        "ones_like": _like(torch.ones_like, keras.ops.ones_like),
        "pad": _pad,
        "relu": torch.relu,
        "round": torch.round,
        "rsqrt": torch.rsqrt,
        "segment_sum": _segment_sum,
        "sigmoid": torch.sigmoid,
        "sign": torch.sign,
        "softplus": torch.nn.functional.softplus,
        "sqrt": torch.sqrt,
        "square": torch.square,
        "sum": torch.sum,
        "take": _take,
        "take_along_axis": _take_along_axis,
        "zeros_like": _like(torch.zeros_like, keras.ops.zeros_like),
    },
    (torch.bool,): {
        "all": torch.all,
        "any": torch.any,
        "cond": _cond,
        "logical_and": _with_bool(torch.logical_and),
        "logical_not": torch.logical_not,
        "logical_xor": _with_bool(torch.logical_xor),
        "where": torch.where,
    },
    None: {
        "broadcast_to": torch.broadcast_to,
        "expand_dims": torch.unsqueeze,
        "cast": _cast,
        "convert_to_tensor": _convert_to_tensor,
        "equal": torch.eq,
        "isfinite": torch.isfinite,
        "shape": lambda x: tuple(x.shape),
        "reshape": torch.reshape,
        "squeeze": torch.squeeze,
        "stop_gradient": torch.Tensor.detach,
        "transpose": _transpose,
    },
}


def _for_tensors(function, dtypes, fallback):
    """The operation of PyTorch on tensors of some types, and of Keras on all other arguments."""

    @functools.wraps(fallback)
    def operation(x, *others, **options):
        is_tensor = isinstance(x, torch.Tensor) and (dtypes is None or x.dtype in dtypes)
        if is_tensor and (not others or _PLAIN.issuperset(map(type, others))):
            return function(x, *others, **options)
        return fallback(x, *others, **options)

    return operation


def operations() -> Any:
    """`keras.ops`, whose most frequent operations pass tensors to PyTorch directly."""
    module = types.ModuleType("ops")
    vars(module).update(vars(keras.ops))
    for dtypes, functions in _TORCH_OPS.items():
        for name, function in functions.items():
            setattr(module, name, _for_tensors(function, dtypes, getattr(keras.ops, name)))
    module.concatenate = _of_lists(torch.cat, keras.ops.concatenate)  # type: ignore[attr-defined]
    module.stack = _of_lists(torch.stack, keras.ops.stack)  # type: ignore[attr-defined]
    return module
