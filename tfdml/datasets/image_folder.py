"""Image files in one folder per class."""

import collections
import os
import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tfdml.datasets.preprocessing import Preprocessing
from tfdml.datasets.records import LabeledSet

EXTENSIONS = (".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".png", ".webp")  # formats that `Preprocessing` reads
_UNREAD_IMAGE_SUFFIXES = (
    *(".tif", ".tiff", ".heic", ".heif", ".avif", ".jxl", ".jp2", ".j2k", ".jpx", ".svg", ".ico", ".psd", ".tga"),
    *(".pbm", ".pgm", ".ppm", ".pnm", ".exr", ".hdr", ".raw", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2"),
)


def folder(path: str | os.PathLike, *, load: Callable[..., Any] | None = None) -> LabeledSet:
    """Lists an image folder with one subfolder per class.

    Classes and files are sorted; images may be at any depth inside the folder of their class. Files are selected by
    their suffix, in upper or lower case: .bmp, .gif, .jfif, .jpe, .jpeg, .jpg, .png or .webp. The suffix need not agree
    with the content: a PNG named .jpg is read as a PNG. Everything else is listed in `skipped` with the reason: files
    with other suffixes, hidden files, hidden folders and links to folders (without their contents), and files outside
    the class folders. A warning counts files whose suffix is that of another image format, such as .tiff or .heic.

    Args:
        path: the folder.
        load: function from a path to an example; `Preprocessing(size=224)` by default.

    Returns:
        `LabeledSet` of paths.

    Raises:
        ValueError: the folder does not exist or has no subfolder, or a subfolder has no image.
    """
    root, classes = pathlib.Path(path), _class_names(path)
    listed = [list(_sorted_files(root / name)) for name in classes]
    files = [[file for file, reason in entries if not reason] for entries in listed]
    _require_images(path, classes, files)
    skipped = [(child, _reason(child) or "outside the class folders") for child in sorted(root.iterdir())]
    skipped = [entry for entry in skipped if entry[0].name not in classes]
    skipped += [entry for entries in listed for entry in entries if entry[1]]
    _warn_of_images(path, [file for file, _ in skipped])
    return LabeledSet(
        paths=np.array([str(image) for images in files for image in images]),
        labels=np.repeat(np.arange(len(classes), dtype=np.int64), [len(images) for images in files]),
        class_names=tuple(classes),
        load=load or Preprocessing(size=224),
        skipped=tuple((str(file), reason) for file, reason in skipped),
    )


def _class_names(path):
    """Names of the subfolders, sorted."""
    root = pathlib.Path(path)
    if not root.is_dir():
        raise ValueError(
            f"Received path={str(path)!r}, which is not a folder. Expected one subfolder of images per class."
        )
    names = sorted(child.name for child in root.iterdir() if child.is_dir() and not child.name.startswith("."))
    if not names:
        raise ValueError(f"Received path={str(path)!r}, which has no subfolder. Expected one subfolder per class.")
    return names


def _require_images(path, classes, files):
    """Raise a ValueError that names the classes without images."""
    empty = [name for name, images in zip(classes, files, strict=True) if not images]
    if empty:
        raise ValueError(
            f"Received path={str(path)!r}, where these classes have no image ({', '.join(EXTENSIONS)}): "
            f"{', '.join(empty)}. Fill or remove their folders."
        )


def _sorted_files(parent):
    """Files at any depth, each with the reason why it is skipped, or an empty reason."""
    for child in sorted(parent.iterdir()):
        if child.is_dir() and not child.is_symlink() and not child.name.startswith("."):
            yield from _sorted_files(child)
        else:
            yield child, _reason(child)


def _reason(child):
    if child.name.startswith("."):
        return "hidden"
    if child.is_dir():
        return "a link to a folder"
    if not child.is_file():
        return "not a file"
    return "" if child.suffix.lower() in EXTENSIONS else f"suffix {child.suffix!r}"


def _warn_of_images(path, skipped):
    """One warning that counts the files of other image formats by suffix."""
    counts = collections.Counter(file.suffix.lower() for file in skipped)
    counts = [f"{counts[suffix]} {suffix}" for suffix in sorted(_UNREAD_IMAGE_SUFFIXES) if counts[suffix]]
    if counts:
        message = (
            f"Received path={str(path)!r} with image files in formats that are not read: {', '.join(counts)}. Expected "
            f"{', '.join(EXTENSIONS)}. Convert them to use them; `skipped` of the result lists them."
        )
        warnings.warn(message, stacklevel=3)
