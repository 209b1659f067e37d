"""Weights of PyTorch by name: their axes, files, and what does not fit."""

import json
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.networks.state_dicts import FILES, MATRIX
from tfdml.models import load_pytorch_weights
from tfdml.networks.pytorch_weights import read_weights

pytestmark = pytest.mark.backends

SHAPES = {
    "conv.weight": (4, 3, 2, 5),
    "conv.bias": (4,),
    "norm.weight": (4,),
    "norm.bias": (4,),
    "norm.running_mean": (4,),
    "norm.running_var": (4,),
    "fc.weight": (6, 4),
    "fc.bias": (6,),
}
rng = np.random.default_rng(0)
STATE = {name: rng.uniform(0.5, 1.5, shape).astype("float32") for name, shape in SHAPES.items()}
X = rng.uniform(size=(2, 2, 5, 3)).astype("float32")


def network():
    """A convolution over the whole image, batch normalization and a dense layer."""
    inner = keras.Sequential([keras.layers.Conv2D(4, (2, 5), name="conv")], name="inner")
    inputs = keras.Input((2, 5, 3))
    x = keras.layers.BatchNormalization(epsilon=1e-5, name="norm")(inner(inputs))
    return keras.Model(inputs, keras.layers.Dense(6, name="fc")(keras.layers.Flatten()(x)))


def features(state):
    """What PyTorch computes with such a state dict, which has channels before height and width."""
    x = np.einsum("nhwi,oihw->no", X, state["conv.weight"]) + state["conv.bias"]
    x = (x - state["norm.running_mean"]) / np.sqrt(state["norm.running_var"] + 1e-5)
    x = x * state["norm.weight"] + state["norm.bias"]
    return x @ state["fc.weight"].T + state["fc.bias"]


class Tensor:
    """As much of a tensor of PyTorch as is used: it becomes an array after `detach` and `cpu`."""

    def __init__(self, value):
        self.value = value

    def detach(self):
        return SimpleNamespace(cpu=lambda: self.value)


def saved(folder):
    np.savez(folder / "state.npz", **STATE)
    return folder / "state.npz"


SOURCES = {
    "a dict of arrays": lambda folder: STATE,
    "a dict of tensors": lambda folder: {name: Tensor(value) for name, value in STATE.items()},
    "a file of arrays": saved,
    "the name of a file": lambda folder: str(saved(folder)),
    "batch statistics of old files": lambda folder: STATE | {"norm.running_mean": STATE["norm.running_mean"][None]},
    "counters of batches": lambda folder: STATE | {"norm.num_batches_tracked": np.array(3)},
}


@pytest.mark.parametrize("source", SOURCES)
def test_a_network_computes_what_pytorch_computes(source, tmp_path):
    model = network()
    load_pytorch_weights(model, SOURCES[source](tmp_path))
    np.testing.assert_allclose(model.predict(X, verbose=0), features(STATE), rtol=1e-5)


@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
def test_a_file_of_pytorch_is_read_without_torch(file):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, use_bias=False, name="a")])
    with pytest.raises(ValueError, match=r"10 entries that the network does not have: a.column, a.transposed, bfl"):
        load_pytorch_weights(model, file)
    state = read_weights(file)
    load_pytorch_weights(model, {"a.weight": state["a.weight"]})
    np.testing.assert_array_equal(model(np.eye(3)), MATRIX.T)


def test_depthwise_convolutions_have_a_kernel_per_channel():
    kernel = np.random.default_rng(1).normal(size=(3, 1, 2, 5)).astype("float32")
    model = keras.Sequential([keras.Input((2, 5, 3)), keras.layers.DepthwiseConv2D((2, 5), use_bias=False, name="d")])
    load_pytorch_weights(model, {"d.weight": kernel})
    np.testing.assert_allclose(model(X)[:, 0, 0], np.einsum("nhwc,cohw->nc", X, kernel), rtol=1e-5)


def test_all_entries_that_do_not_fit_are_named_and_nothing_is_changed():
    model = network()
    before = [weight.numpy() if hasattr(weight, "numpy") else np.asarray(weight) for weight in model.weights]
    wrong = {name: value for name, value in STATE.items() if name not in ("conv.bias", "norm.weight")}
    wrong |= {"fc.weight": np.zeros((7, 4)), "head.weight": np.zeros(3), "aux.weight": np.zeros(3)}
    message = (
        r"Received weights of another network: 2 entries missing: conv.bias, norm.weight; 2 entries that the network "
        r"does not have: aux.weight, head.weight; 1 entries of other shapes: fc.weight of shape \(7, 4\), not \(6, 4\)."
    )
    with pytest.raises(ValueError, match=message):
        load_pytorch_weights(model, wrong)
    for weight, old in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(weight, old)


def test_modules_that_the_network_does_not_have_can_be_ignored():
    load_pytorch_weights(network(), STATE | {"head.weight": np.zeros(3)}, ignore=["head"])


def test_a_layer_without_a_counterpart_is_refused():
    images = keras.Input((4, 4, 3))
    model = keras.Model(images, keras.layers.PReLU(name="act")(images))
    with pytest.raises(ValueError, match="network with 'act', a layer PReLU, expected layers Conv2D, DepthwiseConv2D,"):
        load_pytorch_weights(model, {})


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E5M2"])
def test_a_quantized_tensor_of_a_safetensors_file_is_named(tmp_path, dtype):
    header = json.dumps({"conv.weight": {"dtype": dtype, "shape": [4], "data_offsets": [0, 4]}}).encode()
    path = tmp_path / "network.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(ValueError, match=rf"network\.safetensors with 'conv\.weight' of dtype {dtype}, expected F16"):
        load_pytorch_weights(network(), path)


def test_a_safetensors_file_that_is_cut_is_an_error(tmp_path):
    path = tmp_path / "network.safetensors"
    save_file(STATE, path)
    load_pytorch_weights(network(), path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"network\.safetensors is no safetensors file, or is cut"):
        load_pytorch_weights(network(), path)
