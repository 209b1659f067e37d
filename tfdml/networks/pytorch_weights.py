"""Weights of PyTorch networks, by name."""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers

# The order of axes that turns a tensor of PyTorch into one of Keras, by rank.
_AXES = {1: (0,), 2: (1, 0), 4: (2, 3, 1, 0)}


def load_pytorch_weights(
    network: keras.Model, weights: str | PathLike[str] | Mapping[str, Any], *, ignore: Sequence[str] = ()
) -> None:
    """Give a Keras network the weights of a PyTorch network with the same names of layers.

    Convolutions (without groups), dense layers and batch normalization are known. Their tensors are transposed as Keras
    has them. Nothing is changed where an entry is missing, unknown or of another shape.

    Args:
        network: a Keras model whose layers have the names of the PyTorch modules.
        weights: path of a file of `torch.save` with a state dict, read by torch with `weights_only=True`; path of an
            `.npz` file of arrays; or a dict of names, such as "conv1.weight", to arrays or tensors.
        ignore: names of modules that the network does not have, such as the classifier.

    Raises:
        ValueError: entries that are missing, unknown or of another shape, all named, or a layer of another kind.
        ImportError: a PyTorch file without torch.
    """
    arrays = {name: _array(value) for name, value in _state(weights).items() if not _is_ignored(name, ignore)}
    expected = dict(entry for layer in network._flatten_layers(include_self=False) for entry in _entries(layer))
    _require_same(arrays, expected)
    for name, variable in expected.items():
        variable.assign(_as_keras(arrays[name], variable))


def _state(weights):
    if isinstance(weights, Mapping):
        return weights
    path = Path(weights)
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return dict(arrays)
    return _torch(path).load(path, map_location="cpu", weights_only=True)


def _torch(path):
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"Received weights={str(path)!r}, a file of PyTorch, without torch to read it. Install torch, or convert "
            f"the file where torch is installed, by numpy.savez({path.stem + '.npz'!r}, **{{name: value.numpy() for "
            f"name, value in torch.load({path.name!r}).items()}}), and pass weights={path.stem + '.npz'!r}."
        ) from error
    return torch


def _is_ignored(name, ignore):
    module, _, entry = name.rpartition(".")
    return entry == "num_batches_tracked" or module in ignore


def _array(value):
    """An array, or a tensor of PyTorch as an array."""
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def _entries(layer):
    """The names and variables of a layer, as PyTorch calls them."""
    if isinstance(layer, layers.BatchNormalization):
        names = {"weight": layer.gamma, "bias": layer.beta}
        names |= {"running_mean": layer.moving_mean, "running_var": layer.moving_variance}
    elif isinstance(layer, (layers.Conv2D, layers.Dense)):
        names = {"weight": layer.kernel, "bias": layer.bias}
    elif layer.weights and not layer._layers:
        raise ValueError(
            f"Received a network with {layer.name!r}, a layer {type(layer).__name__}, expected layers Conv2D, Dense "
            "and BatchNormalization. Load the others by layer.set_weights."
        )
    else:
        names = {}
    return [(f"{layer.name}.{name}", variable) for name, variable in names.items() if variable is not None]


def _require_same(arrays, expected):
    """Raise a ValueError that names every entry that differs."""
    shapes = {name: _pytorch_shape(variable) for name, variable in expected.items()}
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


def _pytorch_shape(variable):
    axes = np.argsort(_AXES[len(variable.shape)])
    return tuple(variable.shape[axis] for axis in axes)


def _as_keras(array, variable):
    rank = len(variable.shape)
    return array.reshape(_pytorch_shape(variable)).transpose(_AXES[rank])
