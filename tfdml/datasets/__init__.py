"""Labeled sets: readers of image files, preprocessing, and two embedded sets; published ones are in `public`."""

from tfdml.datasets import public
from tfdml.datasets.glyphs.glyph_set import glyphs
from tfdml.datasets.glyphs.sketches import outlines, sketches
from tfdml.datasets.images.augmentation import RandomCrop, RandomResizedCrop, compose, rotated_classes
from tfdml.datasets.images.preprocessing import Preprocessing
from tfdml.datasets.labeled_set import LabeledSet
from tfdml.datasets.photo_patches.patches import photo_patches
from tfdml.datasets.photo_patches.photographs import photograph
from tfdml.datasets.readers.huggingface import huggingface
from tfdml.datasets.readers.idx_files import idx
from tfdml.datasets.readers.image_folder import folder
from tfdml.datasets.readers.item_files import items
from tfdml.datasets.readers.pair_lists import PairList, judged_pairs, verification_pairs
from tfdml.datasets.readers.table import table
from tfdml.datasets.readers.tfds import tfds
from tfdml.datasets.splits import require_disjoint

__all__ = [
    "LabeledSet",
    "PairList",
    "Preprocessing",
    "RandomCrop",
    "RandomResizedCrop",
    "compose",
    "folder",
    "glyphs",
    "huggingface",
    "idx",
    "items",
    "judged_pairs",
    "outlines",
    "photo_patches",
    "photograph",
    "public",
    "require_disjoint",
    "rotated_classes",
    "sketches",
    "table",
    "tfds",
    "verification_pairs",
]


def __dir__():
    return __all__
