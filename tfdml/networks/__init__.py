"""Parts of a network that train; architectures are in `tfdml.models`."""

from tfdml.networks.depth import freeze, unfreeze
from tfdml.networks.feature_maps import feature_map
from tfdml.networks.lora import add_lora, merge_lora

__all__ = [
    "add_lora",
    "feature_map",
    "freeze",
    "merge_lora",
    "unfreeze",
]


def __dir__():
    return __all__
