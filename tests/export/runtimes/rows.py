"""Runtimes of exports: how each runs its file. `texts`: whether it has texts. `empty`: whether a batch may be empty."""

import importlib
from collections import namedtuple

import numpy as np

from tfdml import export

Runtime = namedtuple("Runtime", "write run texts empty")


def run_onnx(folder, **inputs):
    """Every output by its name."""
    runtime = importlib.import_module("onnxruntime")
    session = runtime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, inputs), strict=True))


def run_openvino(folder, **inputs):
    openvino = importlib.import_module("openvino")
    network = openvino.compile_model(str(folder / "model.xml"), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    answer = network(inputs)
    return {output.get_any_name(): np.array(answer[output]) for output in network.outputs}


def run_litert(folder, **inputs):
    interpreter = importlib.import_module("ai_edge_litert.interpreter").Interpreter(str(folder / "model.tflite"))
    return interpreter.get_signature_runner("search")(**inputs)


RUNTIMES = {
    "onnx": Runtime(export.onnx, run_onnx, texts=True, empty=True),
    "openvino": Runtime(export.openvino, run_openvino, texts=False, empty=True),
    "litert": Runtime(export.litert, run_litert, texts=True, empty=False),
}
