"""Faces: alignment by five points, CASIA-WebFace in both of its forms, and the network of the paper."""

from recipes.faces.alignment import align_faces, face_points, face_template, similarity_transform
from recipes.faces.casia import casia_webface
from recipes.faces.network import face_resnet
from recipes.faces.recordio import RecordImages

__all__ = [
    "RecordImages",
    "align_faces",
    "casia_webface",
    "face_points",
    "face_resnet",
    "face_template",
    "similarity_transform",
]
