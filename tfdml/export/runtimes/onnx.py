"""Models as ONNX files, by tf2onnx, or by PyTorch where Keras runs on it."""

from pathlib import Path
from typing import Unpack

import keras
import numpy as np

from tfdml._core.checks import require, require_whole
from tfdml._core.optional import optional_import
from tfdml.export.runtimes.pixel_model import PixelModel, RuntimeOptions, pixel_model, runtime_folder
from tfdml.typing import FilePath

FILE = "model.onnx"
OPSETS = 15, 18  # the oldest with every operation of a search, and the newest that tf2onnx writes
_MAX_BYTES = 2**31 - 1  # of a message of protocol buffers


def onnx(model: keras.Model, path: FilePath, *, opset: int = OPSETS[1], **options: Unpack[RuntimeOptions]) -> Path:
    """Write a model of images as an ONNX file, with an index if there is one.

    The file has one input, `images`, `(batch, height, width, channels)` uint8 pixels of the size of the model, and the
    outputs of the signatures `serving_default`, `search` and `match` of `tfdml.export.saved_model`: `embedding`; with
    an index `ids`, `scores`, and `payload` if it has metadata; with a threshold `id` and `score`. They have the same
    meaning, shapes and types, and there are none for an empty batch. A model of pairs has the inputs `a` and `b` and
    the output `score`.

    Beside `model.onnx`, the folder has the JSON files of `assets.extra` of a SavedModel (the file holds them, too, as
    its metadata), and `runtime.json` with the opset, the inputs and outputs, and the packages that wrote it.

    On PyTorch, without TensorFlow, the file has opset 18 and the embedding or the score alone: index and boxes are
    operations of TensorFlow. A model on JAX is saved as a `.keras` file, and exported on PyTorch or TensorFlow.

    See also: `openvino` and `litert` for other runtimes, `web` for a page that searches in the browser.

    Example: a model that scales images of 1 x 2 pixels to norm 1, with an index of two vectors.

        >>> import onnxruntime
        >>> inputs = keras.Input((1, 2, 1))
        >>> model = keras.Model(inputs, keras.layers.UnitNormalization()(keras.layers.Flatten()(inputs)))
        >>> folder = tfdml.export.onnx(model, "export", index=tfdml.search.Exact(np.eye(2, dtype="float32")))
        >>> session = onnxruntime.InferenceSession(folder / "model.onnx")
        >>> ids, scores = session.run(["ids", "scores"], {"images": np.array([[[[3], [4]]]], "uint8")})
        >>> ids, scores.round(4)
        (array([[1, 0]], dtype=int64), array([[0.8, 0.6]], dtype=float32))

    Args:
        model, path: as for `tfdml.export.saved_model`, with its errors.
        opset: version of ONNX's operations, from 15 to 18. ONNX Runtime 1.13 and newer have all of them.
        **options: `preprocessing`, `class_names`, `threshold`, `calibration`, `index`, `search` and `other_model` of
            `saved_model`; or `boxes=True`: the inputs are `photograph`, upright uint8 `(height, width, 3)` of any size,
            and `boxes`, float32 `(n, 4)`, left, upper, right and lower border in pixels. The graph cuts each box with
            the `margin` of the preprocessing, and resizes it, to the pixels of a set with boxes within one gray level.
            The output `valid`, `(n,)` bool, is False for a box that is empty, looks like shares of the photograph, or
            exceeds it by more than a pixel: its other outputs are of the whole photograph.

    Raises:
        ValueError: an operation that ONNX does not have, with its name, or a file of 2 GiB or more.
    """
    require_whole("opset", opset, *OPSETS)
    pixels = pixel_model(model, torch=True, **options)
    content = onnx_bytes(pixels, opset)
    written_by = "onnx", "torch" if keras.backend.backend() == "torch" else "tf2onnx"
    with runtime_folder(path, pixels, {"format": "onnx", "file": FILE, "opset": opset}, written_by) as folder:
        (folder / FILE).write_bytes(content)
    return Path(path)


def onnx_bytes(pixels: PixelModel, opset: int) -> bytes:
    """The content of an ONNX file; the errors of `onnx`."""
    onnx = optional_import("onnx", feature="export.onnx", extra="onnx")
    graph = (_by_torch if keras.backend.backend() == "torch" else _by_tf2onnx)(pixels, opset)
    lacking = {node.op_type for node in graph.graph.node if not onnx.defs.has(node.op_type, opset, node.domain)}
    require_operations(lacking, f"ONNX, opset {opset}")
    size = graph.ByteSize()
    expected = "less than 2 GiB. Store the vectors as ExactSearch(dtype='int8'), or serve the index beside the model"
    require(size <= _MAX_BYTES, f"a model and an index of {size:,} bytes", expected)
    onnx.helper.set_model_props(graph, {name: content.decode() for name, content in pixels.contents.items()})
    return graph.SerializeToString()


def _by_tf2onnx(pixels, opset):
    convert = optional_import("tf2onnx.convert", feature="export.onnx", extra="onnx")
    graph, _ = convert.from_function(pixels.function, list(pixels.inputs.values()), opset=opset)
    _store_once(graph.graph)
    return graph


def _by_torch(pixels, opset):
    import torch

    optional_import("onnxscript", feature="export.onnx on PyTorch", extra="onnx")
    require(opset == OPSETS[1], f"opset={opset} on PyTorch", f"{OPSETS[1]}")
    network, batch = pixels.function, torch.export.Dim("batch")

    class Pixels(torch.nn.Module):
        def forward(self, images, others=None):
            rows = [images] if others is None else [images, others]
            rows = [keras.ops.cast(x, spec.dtype) for x, spec in zip(rows, network.inputs, strict=True)]
            output = network(rows, training=False)
            return keras.ops.cast(output[0] if isinstance(output, list) else output, "float32")

    examples = tuple(keras.ops.zeros((2, *spec.shape[1:]), spec.dtype) for spec in pixels.inputs.values())
    names = {"input_names": list(pixels.inputs), "output_names": pixels.outputs}
    sizes = tuple({0: batch} for _ in examples)
    program = torch.onnx.export(
        Pixels(), examples, opset_version=opset, dynamo=True, dynamic_shapes=sizes, verbose=False, **names
    )
    return program.model_proto


def _store_once(graph):
    """Replace float32 matrices that are another matrix, transposed, by operations on that one.

    tf2onnx computes what depends on constants alone, and so would store the vectors of an index once for the products
    and once for the scores. A runtime computes it when it reads the file.
    """
    onnx = optional_import("onnx", feature="export.onnx", extra="onnx")
    stored = {tensor.name: tensor for tensor in graph.initializer if len(tensor.dims) == 2}
    matrices = {name: onnx.numpy_helper.to_array(tensor) for name, tensor in stored.items()}
    for name, tensor in stored.items():
        source = next((other for other in matrices if _is_transposed(matrices, name, other)), None)
        if source is not None:
            del matrices[name]
            graph.initializer.remove(tensor)
            floats = onnx.helper.make_node("Cast", [source], [f"{name}/float"], to=onnx.TensorProto.FLOAT)
            transposed = onnx.helper.make_node("Transpose", [f"{name}/float"], [name], perm=[1, 0])
            graph.node.insert(0, transposed)
            graph.node.insert(0, floats)


def _is_transposed(matrices, name, other):
    matrix, transposed = matrices[name], matrices[other].T
    same_type = matrix.dtype == np.float32 and matrix.shape == transposed.shape
    return name != other and same_type and np.array_equal(matrix, transposed)


def require_operations(lacking: set[str], runtime: str) -> None:
    """Raise a ValueError that names the operations that a runtime does not have."""
    expected = (
        "a network of other layers, or a runtime that has them: every TensorFlow does (tfdml.export.saved_model). Of "
        "searches, ScannSearch runs in TensorFlow alone, PartitionedSearch also in ONNX Runtime, ExactSearch everywhere"
    )
    require(not lacking, f"a model with {', '.join(sorted(lacking))}, which {runtime} does not have", expected)
