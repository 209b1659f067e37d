"""Parts of a network that train, and the networks of papers; the other architectures are in `tfdml.models`."""

from tfdml.networks.depth import freeze, unfreeze
from tfdml.networks.lora import add_lora, merge_lora
from tfdml.networks.papers.conv4 import conv4
from tfdml.networks.papers.face_resnet import face_resnet
from tfdml.networks.papers.vehicle import vehicle_network

__all__ = [
    "add_lora",
    "conv4",
    "face_resnet",
    "freeze",
    "merge_lora",
    "unfreeze",
    "vehicle_network",
]


def __dir__():
    return __all__
