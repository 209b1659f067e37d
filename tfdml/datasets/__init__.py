"""Labeled image sets: the embedded glyphs, and folders of image files."""

from tfdml.datasets.glyphs.glyph_set import Glyphs, glyphs
from tfdml.datasets.glyphs.sketches import outlines, sketches
from tfdml.datasets.images.alignment import align_faces, face_points, face_template, mtcnn_detector
from tfdml.datasets.images.augmentation import RandomCrop, RandomResizedCrop, compose, turned_classes
from tfdml.datasets.labeled_set import LabeledSet
from tfdml.datasets.photo_patches.patches import PhotoPatches, photo_patches
from tfdml.datasets.photo_patches.photographs import photograph
from tfdml.datasets.preprocessing import Preprocessing
from tfdml.datasets.readers.archives import archives
from tfdml.datasets.readers.image_folder import folder
from tfdml.datasets.readers.pair_lists import PairList, lfw_pairs, verification_pairs
from tfdml.datasets.readers.public.faces import casia_webface, lfw
from tfdml.datasets.readers.public.few_shot import mini_imagenet, omniglot
from tfdml.datasets.readers.public.idx_files import idx
from tfdml.datasets.readers.public.reidentification import Vehicles, market1501, vehicle_id
from tfdml.datasets.readers.public.retrieval import cars196, cub200, in_shop, stanford_online_products
from tfdml.datasets.readers.table import table
from tfdml.datasets.readers.tfds import tfds
from tfdml.datasets.splits import require_disjoint

__all__ = [
    "Glyphs",
    "LabeledSet",
    "PairList",
    "PhotoPatches",
    "Preprocessing",
    "RandomCrop",
    "RandomResizedCrop",
    "Vehicles",
    "align_faces",
    "archives",
    "cars196",
    "casia_webface",
    "compose",
    "cub200",
    "face_points",
    "face_template",
    "folder",
    "glyphs",
    "idx",
    "in_shop",
    "lfw",
    "lfw_pairs",
    "market1501",
    "mini_imagenet",
    "mtcnn_detector",
    "omniglot",
    "outlines",
    "photo_patches",
    "photograph",
    "require_disjoint",
    "sketches",
    "stanford_online_products",
    "table",
    "tfds",
    "turned_classes",
    "vehicle_id",
    "verification_pairs",
]


def __dir__():
    return __all__
