"""Models as OpenVINO IR."""

from pathlib import Path
from typing import Any, Unpack

import keras

from tfdml._core.optional import optional_import
from tfdml.export.runtimes.onnx import OPSETS, onnx_bytes
from tfdml.export.runtimes.pixel_model import RuntimeOptions, pixel_model, runtime_folder
from tfdml.typing import FilePath

FILE = "model.xml"


def openvino(model: keras.Model, path: FilePath, **options: Unpack[RuntimeOptions]) -> Path:
    """Write a model of images for OpenVINO, with an index if there is one: `model.xml` and `model.bin`.

    Input and outputs are as in `tfdml.export.onnx`, but whole numbers replace texts: OpenVINO (2026.4) damages its
    memory when it gathers texts, and its CPU computes in int32. So `id` is a number, -1 for "unknown", and there is no
    `payload`. An index whose ids are not int32 has the outputs `rows` in place of `ids` and `row` in place of `id`:
    rows of the index, whose ids `ids.json` lists.

    Equal scores keep the order of the index, although OpenVINO itself does not promise this.

    Example: a model that scales images of 1 x 2 pixels to norm 1.

        >>> import openvino
        >>> inputs = keras.Input((1, 2, 1))
        >>> model = keras.Model(inputs, keras.layers.UnitNormalization()(keras.layers.Flatten()(inputs)))
        >>> folder = tfdml.export.openvino(model, "served/products/1")
        >>> network = openvino.compile_model(folder / "model.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        >>> network([np.array([[[[3], [4]]]], "uint8")])["embedding"].round(4)
        array([[0.6, 0.8]], dtype=float32)

    Args:
        model, path: as for `tfdml.export.saved_model`, with its errors. OpenVINO Model Server serves a folder such as
            `products/1`.
        **options: its `preprocessing`, `class_names`, `threshold`, `calibration`, `index`, `search` and `other_model`;
            `boxes` of `tfdml.export.onnx`.

    Raises:
        ValueError: an operation that OpenVINO does not have, with its name, or an id -1 beside a threshold.
    """
    runtime = optional_import("openvino", feature="export.openvino", extra="openvino")
    pixels = pixel_model(model, texts=False, **options)
    network = _network(runtime, onnx_bytes(pixels, OPSETS[1]))
    facts = {"format": "openvino", "file": FILE}
    with runtime_folder(path, pixels, facts, ("openvino", "onnx", "tf2onnx")) as folder:
        runtime.save_model(network, folder / FILE, compress_to_fp16=False)
    return Path(path)


def _network(runtime: Any, content: bytes) -> Any:
    network = runtime.Core().read_model(content)
    for node in network.get_ordered_ops():
        if node.get_type_name() == "TopK":
            _make_stable(runtime, node)
    _require_compiles(runtime, network)
    return network


def _require_compiles(runtime, network):
    """Raise a ValueError for a network that OpenVINO reads and cannot run."""
    try:
        runtime.Core().compile_model(network, "CPU")
    except RuntimeError as error:
        reason = str(error).strip().rpartition("\n")[2]
        expected = "a network and a search (ExactSearch) that it has, or tfdml.export.onnx"
        raise ValueError(f"Received a model that OpenVINO cannot run ({reason}), expected {expected}.") from error


def _make_stable(runtime, node):
    data, k = (source.get_source_output() for source in node.inputs())
    settings = {name: node.get_attributes()[name] for name in ("axis", "mode", "index_element_type")}
    stable = runtime.opset11.topk(data, k, sort="value", stable=True, **settings)
    for old, new in zip(node.outputs(), stable.outputs(), strict=True):
        old.replace(new)
