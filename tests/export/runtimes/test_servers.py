"""Folders of versions as servers read them, and requests of version 2 of KServe's protocol, answered by OpenVINO."""

import importlib
import json

import numpy as np
import pytest

from tests.test_documents import ROOT, blocks
from tfdml import export, search

pytestmark = pytest.mark.slow
# By the specification, https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol
DATATYPES = {"UINT8": np.uint8, "INT64": np.int64, "FP32": np.float32}


def infer(network, body):
    """The answer of a server to POST /v2/models/NAME/infer."""
    request = json.loads(body)
    inputs = {
        each["name"]: np.array(each["data"], DATATYPES[each["datatype"]]).reshape(each["shape"])
        for each in request["inputs"]
    }
    answer = network(inputs)
    wanted = [each["name"] for each in request["outputs"]]
    datatypes = {np.dtype(kind): name for name, kind in DATATYPES.items()}
    outputs = [
        {
            "name": name,
            "shape": list(answer[name].shape),
            "datatype": datatypes[answer[name].dtype],
            "data": answer[name].ravel().tolist(),
        }
        for name in wanted
    ]
    return json.dumps({"model_name": "products", "model_version": "2", "outputs": outputs})


@pytest.fixture(params=["onnx", "openvino"])
def network(request, model, images, index, tmp_path):
    """What OpenVINO Model Server loads: the one model file in the folder with the highest number."""
    gallery = search.Exact(index.vectors, index.ids)
    for _ in range(2):
        write = getattr(export, request.param)
        write(model, export.next_version(tmp_path / "models" / "products"), index=gallery)
    versions = sorted((tmp_path / "models" / "products").iterdir(), key=lambda path: int(path.name))
    assert [path.name for path in versions] == ["1", "2"]
    (file,) = [path for path in versions[-1].iterdir() if path.suffix in (".xml", ".onnx")]
    return importlib.import_module("openvino").compile_model(file, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})


def test_the_request_of_the_page_is_answered(network, images, index, model):
    page = {"np": np}
    (code,) = [block for block in blocks(ROOT / "docs" / "runtimes.md") if "def request" in block]
    exec(code.partition("\n\nbody = ")[0], page)
    body = json.dumps(page["request"](images[20:23], ["ids", "scores"]))
    answer = page["arrays"](json.loads(infer(network, body)))
    neighbors, scores = search.Exact(index.vectors, index.ids).search(model.predict(images[20:23], verbose=0), k=10)
    np.testing.assert_array_equal(answer["ids"], neighbors)
    np.testing.assert_allclose(answer["scores"], scores, atol=1e-4)
