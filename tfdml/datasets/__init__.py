"""Labeled image sets: the embedded glyphs, and folders of image files."""

from tfdml.datasets.augmentation import RandomCrop, RandomResizedCrop, chain
from tfdml.datasets.benchmarks import cars196, cub200, in_shop, stanford_online_products
from tfdml.datasets.glyph_set import Glyphs, glyphs
from tfdml.datasets.image_folder import folder
from tfdml.datasets.pair_lists import PairList, lfw_pairs
from tfdml.datasets.photo_patch_set import PhotoPatches, photo_patches
from tfdml.datasets.preprocessing import Preprocessing
from tfdml.datasets.records import LabeledSet
from tfdml.datasets.sketches import outlines, sketches
from tfdml.datasets.splits import require_disjoint
from tfdml.datasets.stereo import StereoPair, motorcycle_stereo, stereo_error
from tfdml.datasets.tables import table
from tfdml.datasets.tfds_set import tfds

__all__ = [
    "Glyphs",
    "LabeledSet",
    "PairList",
    "PhotoPatches",
    "Preprocessing",
    "RandomCrop",
    "RandomResizedCrop",
    "StereoPair",
    "cars196",
    "chain",
    "cub200",
    "folder",
    "glyphs",
    "in_shop",
    "lfw_pairs",
    "motorcycle_stereo",
    "outlines",
    "photo_patches",
    "require_disjoint",
    "sketches",
    "stanford_online_products",
    "stereo_error",
    "table",
    "tfds",
]


def __dir__():
    return __all__
