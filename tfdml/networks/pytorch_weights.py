"""Weights of PyTorch networks, by name."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import layers

from tfdml._core.checks import require
from tfdml._core.optional import optional_import
from tfdml._core.stored import read_arrays
from tfdml.networks.pytorch_files import read_state_dict
from tfdml.typing import FilePath

# The order of axes that turns a tensor of PyTorch into one of Keras, by rank, and for depthwise kernels.
_AXES = {1: (0,), 2: (1, 0), 4: (2, 3, 1, 0)}
_MOST_INFLATED = 16  # times the length of a compressed file, of weights in half precision stored as float32, or zeros
_DEPTHWISE_AXES = (2, 3, 0, 1)


class _Entry(NamedTuple):
    """A variable of Keras, and the order of axes that makes it of a tensor of PyTorch."""

    variable: keras.Variable
    axes: tuple[int, ...]

    @property
    def shape(self):
        """The shape of the tensor of PyTorch."""
        return tuple(self.variable.shape[axis] for axis in np.argsort(self.axes))


def load_pytorch_weights(
    network: keras.Model, weights: FilePath | Mapping[str, Any], *, ignore: Sequence[str] = ()
) -> None:
    """Give a Keras network the weights of a PyTorch network with the same names of layers.

    Convolutions (depthwise, or without groups), dense layers and batch normalization are known. It transposes their
    tensors to the order of Keras. If an entry is missing, unknown or of another shape, it changes nothing, and a
    `ValueError` names all such entries.

    Example:

        >>> network = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="fc")])
        >>> weights = {"fc.weight": np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), "fc.bias": np.array([0.0, 1.0])}
        >>> tfdml.models.load_pytorch_weights(network, weights)
        >>> np.asarray(network(np.eye(3)[:1])).tolist()  # 1 + 0 and 4 + 1
        [[1.0, 5.0]]

    Args:
        network: a Keras model whose layers have the names of the PyTorch modules, "_" in place of ".", since Keras on
            PyTorch refuses names of layers with ".".
        weights: path of a state dict of `torch.save`, read without torch and without running its code, or of an `.npz`
            or `.safetensors` file; or a dict of names, such as "conv1.weight", to arrays or tensors.
        ignore: names of modules that the network does not have, such as the classifier.
    """
    entries = read_weights(weights).items()
    arrays = {_in_keras(name): _array(value) for name, value in entries if not _is_ignored(name, ignore)}
    expected = dict(entry for layer in network._flatten_layers(include_self=False) for entry in _entries(layer))
    _require_same(arrays, expected)
    for name, entry in expected.items():
        entry.variable.assign(arrays[name].reshape(entry.shape).transpose(entry.axes))


def read_weights(weights: FilePath | Mapping[str, Any]) -> Mapping[str, Any]:
    """Names and arrays or tensors of a PyTorch, `.safetensors` or `.npz` file, or of a dict."""
    if isinstance(weights, Mapping):
        return weights
    if Path(weights).suffix == ".npz":
        return read_arrays(weights, most_times=_MOST_INFLATED)
    if Path(weights).suffix == ".safetensors":
        return _read_safetensors(weights)
    return read_state_dict(weights)


def _read_safetensors(path):
    safetensors = optional_import("safetensors", feature=f"{path}", extra="pretrained")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118  # the file is no dict
                _require_dtype(path, name, file.get_slice(name).get_dtype())
        return optional_import("safetensors.numpy", feature=f"{path}", extra="pretrained").load_file(path)
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} is no safetensors file, or is cut: {error}.") from error


def _require_dtype(path, name, dtype):
    """Raise a ValueError for a quantized tensor of fewer than 16 bits: NumPy has no dtype for it."""
    expected = "F16, BF16, F32 or F64. Take the file of the network that is not quantized"
    require(not dtype.startswith(("F8", "F6", "F4")), f"{path} with {name!r} of dtype {dtype}", expected)


def _in_keras(name):
    """The name of an entry, with the name of a layer that every backend takes."""
    module, dot, entry = name.rpartition(".")
    return module.replace(".", "_") + dot + entry


def _is_ignored(name, ignore):
    module, _, entry = name.rpartition(".")
    return entry == "num_batches_tracked" or module in ignore


def _array(value):
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def _entries(layer):
    if isinstance(layer, layers.BatchNormalization):
        variables = {"weight": layer.gamma, "bias": layer.beta}
        variables |= {"running_mean": layer.moving_mean, "running_var": layer.moving_variance}
    elif isinstance(layer, (layers.Conv2D, layers.DepthwiseConv2D, layers.Dense)):
        variables = {"weight": layer.kernel, "bias": layer.bias}
    elif layer.weights and not layer._layers:
        raise ValueError(
            f"Received a network with {layer.name!r}, a layer {type(layer).__name__}, expected layers Conv2D, "
            "DepthwiseConv2D, Dense and BatchNormalization. Load the others by layer.set_weights."
        )
    else:
        variables = {}
    axes = _AXES | ({4: _DEPTHWISE_AXES} if isinstance(layer, layers.DepthwiseConv2D) else {})
    return [
        (_in_keras(f"{layer.name}.{name}"), _Entry(variable, axes[len(variable.shape)]))
        for name, variable in variables.items()
        if variable is not None
    ]


def _require_same(arrays, expected):
    shapes = {name: entry.shape for name, entry in expected.items()}
    problems = {
        "missing": sorted(shapes.keys() - arrays.keys()),
        "that the network does not have": sorted(arrays.keys() - shapes.keys()),
        "of other shapes": _wrong_shapes(arrays, shapes),
    }
    if any(problems.values()):
        said = [f"{len(names)} entries {kind}: {', '.join(names)}" for kind, names in problems.items() if names]
        raise ValueError(
            f"Received weights of another network: {'; '.join(said)}. Expected the {len(expected)} entries of this "
            "network. Pass its file, or a dict without the entries that it does not have."
        )


def _wrong_shapes(arrays, shapes):
    """Old files have batch statistics of shape (1, channels)."""
    return [
        f"{name} of shape {arrays[name].shape}, not {shape}"
        for name, shape in sorted(shapes.items())
        if name in arrays and arrays[name].shape not in (shape, (1, *shape))
    ]
