"""Image files in one folder per class."""

import collections
import os
import pathlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np

from tfdml.datasets.labeled_set import LabeledSet
from tfdml.datasets.preprocessing import Preprocessing
from tfdml.datasets.readers.text import is_utf8, printable, require_utf8
from tfdml.datasets.splits import as_split_names, with_shared_names

Loader = Callable[..., Any]

EXTENSIONS = (".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".png", ".webp")  # formats that `Preprocessing` reads
_UNREAD_IMAGE_SUFFIXES = (
    *(".tif", ".tiff", ".heic", ".heif", ".avif", ".jxl", ".jp2", ".j2k", ".jpx", ".svg", ".ico", ".psd", ".tga"),
    *(".pbm", ".pgm", ".ppm", ".pnm", ".exr", ".hdr", ".raw", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2"),
)
_FOLDER = "a folder"
_NOT_UTF8 = "a name that is not UTF-8"


@overload
def folder(path: str | os.PathLike, *, splits: None = None, load: Loader | None = None) -> LabeledSet: ...
@overload
def folder(path: str | os.PathLike, *, splits: Sequence[str], load: Loader | None = None) -> tuple[LabeledSet, ...]: ...
def folder(
    path: str | os.PathLike, *, splits: Sequence[str] | None = None, load: Loader | None = None
) -> LabeledSet | tuple[LabeledSet, ...]:
    """List an image folder with one subfolder per class, or one subfolder per split with subfolders of its classes.

    Classes and files are sorted; images may be at any depth inside the folder of their class. Files are selected by
    their suffix, in upper or lower case: .bmp, .gif, .jfif, .jpe, .jpeg, .jpg, .png or .webp. The suffix need not agree
    with the content: a PNG named .jpg is read as a PNG. Everything else is listed in `skipped` with the reason: files
    with other suffixes, hidden files, hidden folders and links to folders (without their contents), files and folders
    whose name is not UTF-8, and files outside the class folders. Links to files are followed, and so are the folders of
    classes that are links. A warning counts files with the suffix of another image format, such as .tiff or .heic,
    and names that are not UTF-8.

    Splits with a class in common have the same labels and the `class_names` of all their classes. A split that has
    no class in common with another has its own. `tfdml.datasets.require_disjoint` checks that there are none.

    Example: two classes, one of them with two images; a text file is left out.

        >>> import pathlib
        >>> for name in ("ant/1.png", "ant/2.png", "bee/1.png"):
        ...     pathlib.Path("photos", name).parent.mkdir(parents=True, exist_ok=True)
        ...     keras.utils.save_img(f"photos/{name}", np.zeros((9, 12, 3)))
        >>> pathlib.Path("photos/ant/notes.txt").touch()
        >>> photos = tfdml.datasets.folder("photos", load=tfdml.datasets.Preprocessing(size=8))
        >>> photos.class_names, photos.labels, photos.skipped
        (('ant', 'bee'), array([0, 0, 1]), (('photos/ant/notes.txt', "suffix '.txt'"),))
        >>> photos.examples().shape
        (3, 8, 8, 3)

    Args:
        path: the folder.
        splits: names of the folders of the splits, in the order of the result. Others are listed in `skipped` of every
            part.
        load: function from a path to an example; `Preprocessing(size=224)` by default.

    Returns:
        `LabeledSet` of paths, or with `splits` a tuple of them.

    Raises:
        ValueError: the folder does not exist, has no subfolder or a path that is not UTF-8, or the folder of a class
            has no image; `splits` that are not different names.
    """
    if splits is None:
        labeled_set = _listed(path, load)
        _warn_of_unread(path, labeled_set.skipped)
        return labeled_set
    sets = [_listed(os.path.join(path, name), load) for name in as_split_names(splits)]
    others = [child for child in _children(path) if child.name not in splits]
    outside = tuple((printable(str(child)), "outside the splits") for child in others)
    _warn_of_unread(path, [*outside, *(entry for subset in sets for entry in subset.skipped)])
    return with_shared_names([replace(subset, skipped=outside + subset.skipped) for subset in sets])


def _listed(path, load):
    """The set of a folder with one subfolder per class."""
    classes = _class_names(path)
    listed = [list(_sorted_files(pathlib.Path(path, name))) for name in classes]
    files = [[file for file, reason in entries if not reason] for entries in listed]
    _require_images(path, classes, files)
    others = [child for child in _children(path) if child.name not in classes]
    skipped = [(child, _reason(child) or "outside the class folders") for child in others]
    skipped += [entry for entries in listed for entry in entries if entry[1]]
    return LabeledSet(
        paths=np.array([str(image) for images in files for image in images]),
        labels=np.repeat(np.arange(len(classes), dtype=np.int64), [len(images) for images in files]),
        class_names=tuple(classes),
        load=load or Preprocessing(size=224),
        skipped=tuple((printable(str(file)), reason) for file, reason in skipped),
    )


def _children(path):
    return sorted(pathlib.Path(path).iterdir())


def _class_names(path):
    """Names of the subfolders, sorted."""
    root = pathlib.Path(path)
    require_utf8("a path", [os.fspath(path)])
    if not root.is_dir():
        raise ValueError(
            f"Received path={str(path)!r}, which is not a folder. Expected one subfolder of images per class."
        )
    folders = [child.name for child in root.iterdir() if child.is_dir()]
    names = sorted(name for name in folders if not name.startswith(".") and is_utf8(name))
    if not names:
        raise ValueError(f"Received path={str(path)!r}, which has no subfolder. Expected one subfolder per class.")
    return names


def _require_images(path, classes, files):
    """Raise a ValueError that names the classes without images."""
    empty = [name for name, images in zip(classes, files, strict=True) if not images]
    if empty:
        raise ValueError(
            f"Received path={str(path)!r}, where these classes have no image ({', '.join(EXTENSIONS)}, with a name in "
            f"UTF-8): {', '.join(empty)}. Fill or remove their folders."
        )


def _sorted_files(parent: pathlib.Path) -> Iterator[tuple[pathlib.Path, str]]:
    """Files at any depth, each with the reason why it is skipped, or an empty reason."""
    waiting = _descending(parent)  # Recursion would limit the depth.
    while waiting:
        child = waiting.pop()
        reason = _reason(child)
        if reason == _FOLDER:
            waiting += _descending(child)
        else:
            yield child, reason


def _descending(parent):
    return sorted(parent.iterdir(), reverse=True)


def _reason(child):
    if not is_utf8(child.name):
        return _NOT_UTF8
    if child.name.startswith("."):
        return "hidden"
    if child.is_dir():
        return "a link to a folder" if child.is_symlink() else _FOLDER
    if not child.is_file():
        return "not a file"
    return "" if child.suffix.lower() in EXTENSIONS else f"suffix {child.suffix!r}"


def _warn_of_unread(path, skipped):
    """Warn of image files of other formats, and of names that are not UTF-8."""
    for message in (_formats_message(path, skipped), _names_message(path, skipped)):
        if message:
            warnings.warn(message, stacklevel=3)


def _formats_message(path, skipped):
    """Counts the files of other image formats by suffix; empty without such files."""
    counts = collections.Counter(pathlib.Path(file).suffix.lower() for file, _ in skipped)
    counts = [f"{counts[suffix]} {suffix}" for suffix in sorted(_UNREAD_IMAGE_SUFFIXES) if counts[suffix]]
    return counts and (
        f"Received path={str(path)!r} with image files in formats that are not read: {', '.join(counts)}. Expected "
        f"{', '.join(EXTENSIONS)}. Convert them to use them; `skipped` of the result lists them."
    )


def _names_message(path, skipped):
    """Counts the names that are not UTF-8; empty without such names."""
    names = [name for name, reason in skipped if reason == _NOT_UTF8]
    return names and (
        f"Received path={str(path)!r} with {len(names):,} files or folders whose names are not UTF-8, first {names[0]}."
        " Rename them to use them; `skipped` of the result lists them."
    )
