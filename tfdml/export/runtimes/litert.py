"""Models for LiteRT, formerly TensorFlow Lite."""

import re
import tempfile
from pathlib import Path
from typing import Unpack

import keras

from tfdml._core.checks import require
from tfdml._core.optional import tf
from tfdml.export.runtimes.onnx import require_operations
from tfdml.export.runtimes.pixel_model import PixelModel, RuntimeOptions, pixel_model, runtime_folder
from tfdml.typing import FilePath

FILE = "model.tflite"


def litert(model: keras.Model, path: FilePath, **options: Unpack[RuntimeOptions]) -> Path:
    """Write a model of images for LiteRT, with an index if there is one: `model.tflite`, for phones and small devices.

    The signature `search` has the input and the outputs of `tfdml.export.onnx`; texts are bytes. A batch has at least
    one image. All operations are LiteRT's own, without the Flex delegate.

    Example: a model that scales images of 1 x 2 pixels to norm 1.

        >>> from ai_edge_litert.interpreter import Interpreter
        >>> inputs = keras.Input((1, 2, 1))
        >>> model = keras.Model(inputs, keras.layers.UnitNormalization()(keras.layers.Flatten()(inputs)))
        >>> folder = tfdml.export.litert(model, "export")
        >>> runner = Interpreter(str(folder / "model.tflite")).get_signature_runner()
        >>> runner(images=np.array([[[[3], [4]]]], "uint8"))["embedding"].round(4)
        array([[0.6, 0.8]], dtype=float32)

    Args:
        model, path: as for `tfdml.export.saved_model`, with its errors.
        **options: its `preprocessing`, `class_names`, `threshold`, `calibration`, `index`, `search` and `other_model`;
            `boxes` of `tfdml.export.onnx`.

    Raises:
        ValueError: an operation that LiteRT does not have, by name, or vectors in bfloat16.
    """
    dtype = getattr(options.get("search"), "dtype", "float32")
    require(dtype != "bfloat16", f"dtype={dtype!r}, which LiteRT does not have", "'float32' or 'int8'")
    pixels = pixel_model(model, allow_empty=False, **options)
    content = _litert_bytes(pixels)
    with runtime_folder(path, pixels, {"format": "litert", "file": FILE}, ("tensorflow",)) as folder:
        (folder / FILE).write_bytes(content)
    return Path(path)


def _litert_bytes(pixels: PixelModel) -> bytes:
    """The content of a file of LiteRT. Only the converter of a SavedModel keeps the names of inputs and outputs."""
    module = tf.Module()
    module.function, module.used = pixels.function, pixels.function.get_concrete_function().variables
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures={"search": pixels.function})
        converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=["search"])
        try:
            return converter.convert()
        except Exception as error:  # the error of the converter is not public
            listed = re.findall(r"^(?:TF Select|Custom) ops: (.*)$", str(error), flags=re.MULTILINE)
            require_operations({name for line in listed for name in line.split(", ")}, "LiteRT")
            reason = str(error).partition("\n")[0]
            raise ValueError(
                f"Received a model that the converter of LiteRT refuses ({reason}), expected operations of LiteRT. "
                "Search by ExactSearch; quantize weights without activations; export other layers by tfdml.export.onnx."
            ) from error
