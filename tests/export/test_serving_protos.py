"""Requests in the protocol of TensorFlow Serving, with the definitions of the package tensorflow-serving-api."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import grpc
import keras
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2, prediction_service_pb2_grpc
from tensorflow_serving.config import model_server_config_pb2

from tfdml import datasets, export, models
from tfdml.export.warm_up import predict_request

pytestmark = pytest.mark.slow  # its export takes seconds


@pytest.fixture(scope="module")
def model():
    inputs = keras.Input((8, 8, 3))
    return models.EmbeddingModel(inputs, models.plain_cnn(inputs, dim=4, widths=(4,)))


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    images = np.random.default_rng(0).integers(0, 256, (9, 8, 8, 3), dtype="uint8")
    index = SimpleNamespace(vectors=model.predict(images, verbose=0), ids=np.arange(9), metric="cosine", metadata=None)
    path = export.next_version(tmp_path_factory.mktemp("served") / "products")
    view = datasets.Preprocessing(size=8, boxes=True)
    return export.saved_model(
        model, path, index=index, search=export.ExactSearch(k=2), threshold=0.9, preprocessing=view
    )


def answer_of(served, request):
    """What the server does: the tensors of a request go to its signature."""
    signature = served.signatures[request.model_spec.signature_name]
    return signature(**{name: tf.constant(tf.make_ndarray(value)) for name, value in request.inputs.items()})


def test_a_request_of_its_own_messages_is_one_of_the_package():
    inputs = {"images": tf.make_tensor_proto(np.zeros((2, 300), "uint8")), "boxes": tf.make_tensor_proto([1.0])}
    expected = predict_pb2.PredictRequest()
    expected.model_spec.signature_name = "search"
    for name, value in inputs.items():
        expected.inputs[name].CopyFrom(value)
    assert predict_pb2.PredictRequest.FromString(predict_request("search", inputs)) == expected


class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
    """The service of TensorFlow Serving for one model."""

    def __init__(self, served):
        self.served = served

    def Predict(self, request, context):  # noqa: N802, the name in the protocol
        answer = predict_pb2.PredictResponse()
        for name, value in answer_of(self.served, request).items():
            answer.outputs[name].CopyFrom(tf.make_tensor_proto(value))
        return answer


def test_the_grpc_client_of_the_page_asks_for_neighbors_of_files(model, tmp_path):
    images = np.random.default_rng(2).integers(0, 256, (6, 8, 8, 3), dtype="uint8")
    index = SimpleNamespace(vectors=model.predict(images, verbose=0), ids=np.arange(6), metric="cosine", metadata=None)
    path = export.saved_model(model, tmp_path / "model", index=index, search=export.ExactSearch(k=1), on_error="skip")
    server = grpc.server(ThreadPoolExecutor(1))
    service = Service(tf.saved_model.load(str(path)))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    page = (Path(__file__).parents[2] / "docs" / "serving.md").read_text()
    names = {"tf": tf}
    exec(re.search(r"^(import grpc\n.*?)^```", page, re.MULTILINE | re.DOTALL)[1], names)
    files = [tf.io.encode_png(images[4]).numpy(), b"no image"]
    answer = names["ask_by_grpc"](f"127.0.0.1:{port}", "products", "search_bytes", files)
    server.stop(None).wait()
    assert answer["ids"].tolist() == [[4], [-1]]
    assert [bool(error) for error in answer["error"]] == [False, True]


def test_every_signature_has_a_warm_up_request_that_it_answers(folder):
    served = tf.saved_model.load(str(folder))
    records = tf.data.TFRecordDataset(str(folder / "assets.extra" / "tf_serving_warmup_requests")).as_numpy_iterator()
    requests = [prediction_log_pb2.PredictionLog.FromString(record).predict_log.request for record in records]
    assert sorted(request.model_spec.signature_name for request in requests) == sorted(served.signatures)
    for request in requests:
        for value in answer_of(served, request).values():
            assert value.shape[0] == 1


def test_the_list_of_models_is_one_of_the_server(folder):
    export.write_serving_config(folder.parents[1])
    text = (folder.parents[1] / "models.config").read_text()
    found = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    (config,) = found.model_config_list.config
    assert (config.name, config.base_path, config.model_platform) == ("products", "/models/products", "tensorflow")
