"""Export of models as SavedModels for serving."""

from tfdml.export.saved_model import load_threshold, saved_model

__all__ = ["load_threshold", "saved_model"]


def __dir__():
    return __all__
