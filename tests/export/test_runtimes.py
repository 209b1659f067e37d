"""Exported networks in runtimes that are not TensorFlow."""

import importlib
import sys

import keras
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from tfdml import export, models

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model():
    inputs = keras.Input((16, 16, 1))
    return models.EmbeddingModel(inputs, models.plain_cnn(inputs, dim=6, widths=(4, 8)))


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (5, 16, 16, 1), dtype="uint8")


@pytest.fixture
def openvino(monkeypatch):
    """OpenVINO without its telemetry: that one sends messages to a server, from processes that it forks."""
    monkeypatch.setitem(sys.modules, "openvino_telemetry", None)
    return importlib.import_module("openvino")


def test_openvino_embeds_what_the_exported_folder_embeds(openvino, model, images, tmp_path):
    folder = export.saved_model(model, tmp_path / "model")
    precise = {"INFERENCE_PRECISION_HINT": "f32"}
    network = openvino.compile_model(openvino.convert_model(str(folder)), "CPU", precise)
    expected = model.predict(images, verbose=0)
    for _ in range(2):
        np.testing.assert_allclose(network([images])[network.output("embedding")], expected, atol=1e-5)


def test_litert_embeds_what_the_model_embeds(model, images, tmp_path):
    network = keras.Model(model.inputs, model.outputs)
    network.export(str(tmp_path / "model.tflite"), format="litert", verbose=False)
    runner = Interpreter(str(tmp_path / "model.tflite")).get_signature_runner()
    (name,) = runner.get_input_details()
    (found,) = runner(**{name: images[:1].astype("float32")}).values()
    np.testing.assert_allclose(found, model.predict(images[:1], verbose=0), atol=1e-5)
