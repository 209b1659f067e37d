"""Export of models as SavedModels for serving, and loading them to embed sets."""

from tfdml.export.loaded_model import LoadedModel, load
from tfdml.export.saved_model import load_threshold, saved_model

__all__ = ["LoadedModel", "load", "load_threshold", "saved_model"]


def __dir__():
    return __all__
