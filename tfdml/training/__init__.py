"""Training from a labeled set to a folder that is served: one function, and the settings of a run."""

from tfdml.training.settings_file import read_settings
from tfdml.training.train import train

__all__ = ["read_settings", "train"]


def __dir__():
    return __all__
