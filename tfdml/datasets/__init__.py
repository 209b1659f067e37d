"""Labeled image sets: the embedded glyphs, and folders of image files."""

from tfdml.datasets.clips.clip import Clip
from tfdml.datasets.clips.clip_set import clips
from tfdml.datasets.glyphs.glyph_set import Glyphs, glyphs
from tfdml.datasets.glyphs.sketches import outlines, sketches
from tfdml.datasets.images.augmentation import RandomCrop, RandomResizedCrop, compose
from tfdml.datasets.labeled_set import LabeledSet
from tfdml.datasets.photo_patches.patches import PhotoPatches, photo_patches
from tfdml.datasets.photo_patches.stereo import StereoPair, motorcycle_stereo, stereo_error
from tfdml.datasets.preprocessing import Preprocessing
from tfdml.datasets.readers.image_folder import folder
from tfdml.datasets.readers.pair_lists import PairList, lfw_pairs
from tfdml.datasets.readers.public.retrieval import cars196, cub200, in_shop, stanford_online_products
from tfdml.datasets.readers.public.tracking import got10k, otb
from tfdml.datasets.readers.table import table
from tfdml.datasets.readers.tfds import tfds
from tfdml.datasets.splits import require_disjoint

__all__ = [
    "Clip",
    "Glyphs",
    "LabeledSet",
    "PairList",
    "PhotoPatches",
    "Preprocessing",
    "RandomCrop",
    "RandomResizedCrop",
    "StereoPair",
    "cars196",
    "clips",
    "compose",
    "cub200",
    "folder",
    "glyphs",
    "got10k",
    "in_shop",
    "lfw_pairs",
    "motorcycle_stereo",
    "otb",
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
