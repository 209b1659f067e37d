"""Faces: alignment by five points, CASIA-WebFace and packed copies, and the network of the paper."""

from recipes.faces.alignment import align_faces, face_points, face_template, similarity_transform
from recipes.faces.casia import casia_webface, packed_faces
from recipes.faces.network import face_resnet
from recipes.faces.recordio import RecordImages

__all__ = [
    "RecordImages",
    "align_faces",
    "casia_webface",
    "face_points",
    "face_resnet",
    "face_template",
    "packed_faces",
    "similarity_transform",
]
