"""Records that the data sets return: frozen dataclasses of arrays."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class LabeledImages:
    """One part (train, validation or test) of a set of character images; row i of every array is image i.

    Attributes:
        images: `(n, 32, 32, 1)` uint8, gray.
        labels: `(n,)` int64, dense from 0 within this part.
        code_points: `(n,)` int64, the Unicode code point of the drawing.
        faces: `(n,)` int64, the typeface, an index into `face_names`.
        designs: `(n,)` int64, the type design (family) of that typeface, an index into `design_names`.
        views: `(n,)` int64, the number of the distortion; 0 is the default set.
        class_code_points: `(classes,)` int64, the code point that identifies each class.
        face_names, design_names: tuples of str.
        protocol: the id under which numbers measured on this part are reported.
    """

    images: np.ndarray
    labels: np.ndarray
    code_points: np.ndarray
    faces: np.ndarray
    designs: np.ndarray
    views: np.ndarray
    class_code_points: np.ndarray
    face_names: tuple[str, ...]
    design_names: tuple[str, ...]
    protocol: str

    def __len__(self):
        """Number of images."""
        return len(self.labels)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class LabeledFiles:
    """Image files with their classes.

    Attributes:
        paths: `(n,)` array of str.
        labels: `(n,)` int64, dense from 0, an index into `class_names`.
        class_names: tuple of str.
        skipped: tuple of `(path, reason)`, both str: files in the folder that are not in `paths`.
        boxes: `(n, 4)` float64, the left, upper, right and lower border of the object in pixels; None without boxes.
        protocol: the id under which numbers measured on this part are reported; None for files of your own.
    """

    paths: np.ndarray
    labels: np.ndarray
    class_names: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    boxes: np.ndarray | None = None
    protocol: str | None = None

    def __len__(self):
        """Number of files."""
        return len(self.labels)
