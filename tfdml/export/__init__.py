"""Export of models as SavedModels and for other runtimes, and loading them to embed sets."""

from tfdml.export.graph_search.exact import ExactSearch
from tfdml.export.graph_search.partitioned import PartitionedSearch
from tfdml.export.graph_search.scann import ScannSearch
from tfdml.export.loaded_model import LoadedModel, load
from tfdml.export.runtimes.litert import litert
from tfdml.export.runtimes.onnx import onnx
from tfdml.export.runtimes.openvino import openvino
from tfdml.export.runtimes.web import web
from tfdml.export.saved_model import saved_model
from tfdml.export.serving_config import next_version, write_serving_config
from tfdml.export.texts import texts

__all__ = [
    "ExactSearch",
    "LoadedModel",
    "PartitionedSearch",
    "ScannSearch",
    "litert",
    "load",
    "next_version",
    "onnx",
    "openvino",
    "saved_model",
    "texts",
    "web",
    "write_serving_config",
]


def __dir__():
    return __all__
