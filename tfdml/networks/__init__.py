"""Architectures: small backbones, the networks of the papers, pooling, ensembles, pretrained weights."""

from tfdml.networks.backbones import plain_cnn, residual_cnn
from tfdml.networks.depth import freeze, unfreeze
from tfdml.networks.efficientnet_lite import efficientnet_lite0
from tfdml.networks.ensembles import attention_branches, ensemble
from tfdml.networks.inception import bn_inception
from tfdml.networks.lora import add_lora, merge_lora
from tfdml.networks.papers.conv4 import conv4
from tfdml.networks.papers.face_resnet import face_resnet
from tfdml.networks.papers.vehicle import vehicle_network
from tfdml.networks.pooling import GeM
from tfdml.networks.pytorch_weights import load_pytorch_weights

__all__ = [
    "GeM",
    "add_lora",
    "attention_branches",
    "bn_inception",
    "conv4",
    "efficientnet_lite0",
    "ensemble",
    "face_resnet",
    "freeze",
    "load_pytorch_weights",
    "merge_lora",
    "plain_cnn",
    "residual_cnn",
    "unfreeze",
    "vehicle_network",
]


def __dir__():
    return __all__
