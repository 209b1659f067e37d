"""Export of models as SavedModels for serving, and loading them to embed sets."""

from tfdml.export.graph_search.exact import ExactSearch
from tfdml.export.graph_search.partitioned import PartitionedSearch
from tfdml.export.graph_search.scann import ScannSearch
from tfdml.export.loaded_model import LoadedModel, LoadedPairModel, load
from tfdml.export.saved_model import load_threshold, saved_model
from tfdml.export.serving_config import next_version, write_serving_config

__all__ = [
    "ExactSearch",
    "LoadedModel",
    "LoadedPairModel",
    "PartitionedSearch",
    "ScannSearch",
    "load",
    "load_threshold",
    "next_version",
    "saved_model",
    "write_serving_config",
]


def __dir__():
    return __all__
