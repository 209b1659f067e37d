"""Labeled image sets: the embedded glyphs, and folders of image files."""

from tfdml.datasets.glyph_set import glyphs
from tfdml.datasets.image_folder import folder, load_image
from tfdml.datasets.records import LabeledFiles, LabeledImages

__all__ = ["LabeledFiles", "LabeledImages", "folder", "glyphs", "load_image"]


def __dir__():
    return __all__
