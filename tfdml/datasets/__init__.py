"""Labelled image sets: the embedded glyphs, and folders of image files."""

from tfdml.datasets.glyph_set import glyphs
from tfdml.datasets.photo_patches import PhotoPatches, photo_patches
from tfdml.datasets.image_folder import folder, load_image
from tfdml.datasets.records import LabelledFiles, LabelledImages

__all__ = ["LabelledFiles", "LabelledImages", "PhotoPatches", "folder", "glyphs", "load_image", "photo_patches"]


def __dir__():
    return __all__
