"""Export of models as SavedModels for serving."""

from tfdml.export.saved_model import saved_model

__all__ = ["saved_model"]


def __dir__():
    return __all__
