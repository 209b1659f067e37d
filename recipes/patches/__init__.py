"""Patches and stereo: readers, networks of pairs and of pixels, the tasks of HPatches, and dense stereo."""

from recipes.patches.data.hpatches import HPatches, hpatches
from recipes.patches.data.phototour import PhotoTour, phototour
from recipes.patches.data.strips import StereoStrips, stereo_strips
from recipes.patches.hpatches_scores import hpatches_scores
from recipes.patches.networks.mc_cnn import mc_cnn
from recipes.patches.networks.patch_networks import PatchNetworks, patch_networks
from recipes.patches.stereo import (
    DenseErrors,
    StereoPair,
    dense_stereo_errors,
    match_features,
    match_windows,
    motorcycle_stereo,
    stereo_error,
)

__all__ = [
    "DenseErrors",
    "HPatches",
    "PatchNetworks",
    "PhotoTour",
    "StereoPair",
    "StereoStrips",
    "dense_stereo_errors",
    "hpatches",
    "hpatches_scores",
    "match_features",
    "match_windows",
    "mc_cnn",
    "motorcycle_stereo",
    "patch_networks",
    "phototour",
    "stereo_error",
    "stereo_strips",
]
