"""Weights that float16 holds exactly: files have them in half of the bytes, and networks compute with float32."""

import io
import zipfile
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np

from tfdml._core.optional import tf


def are_exact_in_half(arrays: Iterable[np.ndarray]) -> bool:
    """Whether there are float32 arrays, and float16 holds each value of them exactly."""
    floats = [array for array in arrays if array.dtype == "float32"]
    with np.errstate(over="ignore"):
        return bool(floats) and all(np.array_equal(x, x.astype("float16").astype("float32")) for x in floats)


def shared_graph(network: keras.Model) -> Callable[..., Any]:
    """The network without training, one tensor per input, as one graph for several signatures.

    Where float16 holds all float32 weights of the network exactly, the graph has them in float16, and casts them.
    """
    weights = [variable for variable in network.variables if variable.dtype == "float32"]
    exact = are_exact_in_half(variable.numpy() for variable in weights)
    halves = [tf.Variable(tf.cast(each, "float16"), trainable=each.trainable) for each in weights] if exact else []

    def answer(*inputs):
        values = [(weight, tf.cast(half, "float32")) for weight, half in zip(weights, halves, strict=False)]
        with keras.StatelessScope(state_mapping=values) if exact else nullcontext():
            return network(list(inputs), training=False)

    inputs = [tf.TensorSpec((None, *x.shape[1:]), x.dtype) for x in network.inputs]
    return tf.function(answer, input_signature=inputs, autograph=False)


def halve_weights(path: Path) -> None:
    """Write a file of `model.save` again, compressed, in float16 if all weights are exact; Keras casts them on load."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    halved = io.BytesIO()
    with h5py.File(io.BytesIO(contents["model.weights.h5"])) as weights, h5py.File(halved, "w") as target:
        arrays: list[np.ndarray] = []
        weights.visititems(lambda _, item: arrays.append(item[()]) if isinstance(item, h5py.Dataset) else None)
        if not are_exact_in_half(arrays):
            return
        _copy_halved(weights, target)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (contents | {"model.weights.h5": halved.getvalue()}).items():
            archive.writestr(name, content)


def _copy_halved(source, target):
    """Copy a group with its attributes; datasets of float32 become float16."""
    target.attrs.update(source.attrs)
    for name, item in source.items():
        if isinstance(item, h5py.Group):
            _copy_halved(item, target.create_group(name))
        elif item.dtype == "float32":
            target.create_dataset(name, data=item[()].astype("float16")).attrs.update(item.attrs)
        else:
            source.copy(name, target)
