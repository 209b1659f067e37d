"""Requests that TensorFlow Serving sends to a model while it loads, so that the first user does not wait.

The file is a TFRecord of `PredictionLog` messages of the package tensorflow-serving-api, written without its
definition. It has these fields, all of them messages or strings:

    PredictionLog.predict_log = 6, PredictLog.request = 1,
    PredictRequest.model_spec = 1, PredictRequest.inputs = 2 (a map: key = 1, value = 2, a TensorProto),
    ModelSpec.signature_name = 3
"""

from pathlib import Path
from typing import Any

from tfdml._core.optional import tf
from tfdml.datasets import Preprocessing

WARM_UP = "tf_serving_warmup_requests"


def predict_request(signature: str, inputs: dict[str, Any]) -> bytes:
    """A serialized `PredictRequest` without the name of a model, of a `TensorProto` by the name of each input."""
    entries = [_field(1, name.encode()) + _field(2, value.SerializeToString()) for name, value in inputs.items()]
    return _field(1, _field(3, signature.encode())) + b"".join(_field(2, entry) for entry in entries)


def write_warm_up(folder: Path, signatures: list[str], preprocessing: Preprocessing, inputs: dict[str, str]) -> None:
    """Write one request of one black image for each signature into a folder `assets.extra`.

    `inputs` has the type of each input of `embed`, or of `score`, by its name.
    """
    with tf.io.TFRecordWriter(str(folder / WARM_UP)) as file:
        for signature in signatures:
            request = predict_request(signature, _black(signature, preprocessing, inputs))
            file.write(_field(6, _field(1, request)))


def _black(signature, preprocessing, inputs):
    if not signature.endswith("_bytes"):
        kinds = inputs if signature in ("embed", "score") else dict.fromkeys(inputs, "uint8")
        return {name: tf.make_tensor_proto(0, kind, (1, *preprocessing.shape)) for name, kind in kinds.items()}
    file = tf.make_tensor_proto([tf.io.encode_png(tf.zeros((1, 1, 3), tf.uint8)).numpy()])
    boxes = {"boxes": tf.make_tensor_proto([[0.0, 0.0, 1.0, 1.0]], tf.float32)}
    return {**dict.fromkeys(inputs, file), **(boxes if preprocessing.boxes else {})}


def _field(number, content):
    """A field of bytes in the encoding of protocol buffers: its tag, its length and its content."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number):
    """Seven bits per byte, the lowest first; all bytes but the last have the high bit."""
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + _varint(rest) if rest else bytes([low])
