"""Image files in one folder per class."""

import collections
import os
import pathlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np

from tfdml._core.checks import counted, require
from tfdml.datasets.images.preprocessing import Preprocessing
from tfdml.datasets.labeled_set import LabeledSet
from tfdml.datasets.readers.text import as_names, class_name, is_utf8, printable, require_utf8, warn_of_similar
from tfdml.datasets.splits import as_split_names, with_shared_names, without_labels

Loader = Callable[..., Any]
Names = str | Sequence[str]

EXTENSIONS = (".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".png", ".webp")  # formats that `Preprocessing` reads
_UNREAD_IMAGE_SUFFIXES = (
    *(".tif", ".tiff", ".heic", ".heif", ".avif", ".jxl", ".jp2", ".j2k", ".jpx", ".svg", ".ico", ".psd", ".tga"),
    *(".pbm", ".pgm", ".ppm", ".pnm", ".exr", ".hdr", ".raw", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2"),
)
_FOLDER = "a folder"
_SERVICE_FOLDERS = ("@eadir", "__macosx", "__pycache__", "lost+found", "$recycle.bin", "system volume information")
_SPLITS = ("train", "training", "val", "valid", "validation", "test", "testing")
_LINK = "a link to a folder"
_HIDDEN, _OF_A_SYSTEM, _OUTSIDE = "hidden", "of a system or program", "outside the splits"
_NOT_UTF8 = "a name that is not UTF-8"
_EMPTY = "a folder without images"
_NO_IMAGES = (_HIDDEN, _OF_A_SYSTEM, _OUTSIDE, _LINK, _EMPTY)


@overload
def folder(
    path: str | os.PathLike, *, splits: None = None, load: Loader | None = None, no_label: Names = ()
) -> LabeledSet: ...
@overload
def folder(
    path: str | os.PathLike, *, splits: Sequence[str], load: Loader | None = None, no_label: Names = ()
) -> tuple[LabeledSet, ...]: ...
def folder(
    path: str | os.PathLike,
    *,
    splits: Sequence[str] | None = None,
    load: Loader | None = None,
    no_label: Names = (),
) -> LabeledSet | tuple[LabeledSet, ...]:
    """List an image folder with one subfolder per class, or one subfolder per split with subfolders of its classes.

    Classes and files are sorted; images may be at any depth inside the folder of their class. Files are selected by
    their suffix, in upper or lower case: .bmp, .gif, .jfif, .jpe, .jpeg, .jpg, .png or .webp; the content may have
    another of these formats. `skipped` lists everything else with the reason: files with other suffixes, hidden files,
    hidden folders and links to folders (without their contents), folders of systems such as `@eaDir` and `__MACOSX`,
    names that are not UTF-8, and folders without images. It follows links to files, and class folders that are links. A
    warning counts files of other image formats, such as .tiff or .heic, and names that are not UTF-8.

    Blanks around the name of a folder and its spelling in Unicode do not count: folders that differ in nothing else are
    one class. A warning names classes that differ in upper and lower case only.

    Images beside the class folders, or in a folder without subfolders, have no label: they come last, with the label
    -1, as do images of the folders that `no_label` names. A folder whose subfolders are splits of classes, such as
    train and test, needs `splits`.

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

    Args:
        path: the folder.
        splits: folders of the splits, in the order of the result. `skipped` of every part lists the others.
        load: function from a path to an example; `Preprocessing(size=224)` by default.
        no_label: name of a folder, or names, whose images have no label.

    Returns:
        `LabeledSet` of paths, or with `splits` a tuple of them.

    Raises:
        ValueError: no folder, or one without images; splits that are not named; a name that no folder has.
    """
    names = (None,) if splits is None else as_split_names(splits)
    if splits is None:
        _require_no_splits(path)
    sets = [_listed(path if name is None else os.path.join(path, name), load) for name in names]
    sets = without_labels(sets, (no_label,) if isinstance(no_label, str) else no_label)
    if splits is not None:
        others = [child for child in _children(path) if child.name not in splits]
        outside = tuple((printable(str(child)), _OUTSIDE) for child in others)
        sets = [replace(subset, skipped=outside + subset.skipped) for subset in sets]
    _warn_of_left_out(path, sets)
    return sets[0] if splits is None else with_shared_names(sets)


def _listed(path, load):
    folders = _class_folders(path)
    listed = {name: [entry for child in same for entry in _sorted_files(child)] for name, same in folders.items()}
    files = {name: [file for file, reason in entries if not reason] for name, entries in listed.items()}
    files = {name: images for name, images in files.items() if images}
    class_folders = {child for same in folders.values() for child in same}
    others = [(child, _reason(child)) for child in _children(path) if child not in class_folders]
    loose = [child for child, reason in others if not reason]
    skipped = [entry for entry in others if entry[1]]
    skipped += [(child, _EMPTY) for name, same in folders.items() if name not in files for child in same]
    skipped += [entry for entries in listed.values() for entry in entries if entry[1]]
    images = [image for images in files.values() for image in images] + loose
    _require_images(path, images, [file for file, _ in skipped])
    return LabeledSet(
        paths=as_names(list(map(str, images))),
        labels=np.repeat([*range(len(files)), -1], [*map(len, files.values()), len(loose)]),
        class_names=tuple(files),
        load=load or Preprocessing(size=224),
        skipped=tuple((printable(str(file)), reason) for file, reason in skipped),
    )


def _children(path):
    return sorted(pathlib.Path(path).iterdir())


def _class_folders(path):
    root = pathlib.Path(path)
    require_utf8("a path", [os.fspath(path)])
    if not root.is_dir():
        raise ValueError(
            f"Received path={str(path)!r}, which is not a folder. Expected one subfolder of images per class."
        )
    folders: dict[str, list[pathlib.Path]] = {}
    for child in _children(root):
        if child.is_dir() and _reason(child) in (_FOLDER, _LINK):
            folders.setdefault(class_name(child.name), []).append(child)
    return dict(sorted(folders.items()))


def _require_no_splits(path):
    root = pathlib.Path(path)
    names = [child.name for child in root.iterdir() if child.is_dir()] if root.is_dir() else []
    splits = sorted(name for name in names if name.strip().lower() in _SPLITS)
    have_classes = all(any(child.is_dir() for child in (root / name).iterdir()) for name in splits)
    received = f"path={str(path)!r}, whose subfolders {', '.join(splits)} are splits with folders of classes"
    expected = f"one subfolder per class. Pass splits={tuple(splits)!r} (--split NAME), or the path of one of them"
    require(len(splits) < 2 or not have_classes, received, expected)


def _require_images(path, images, others):
    """Raise a ValueError for a folder without images that counts its files in other formats."""
    counts = _other_formats(others)
    advice = f". Convert its files to .jpg or .png: {', '.join(counts)}" if counts else ""
    received = f"path={os.fspath(path)!r}, which has no image ({', '.join(EXTENSIONS)}, with a name in UTF-8)"
    require(bool(images), received, f"one subfolder of images per class, or image files{advice}")


def _sorted_files(parent: pathlib.Path) -> Iterator[tuple[pathlib.Path, str]]:
    """Files at any depth, each with the reason to skip it, or an empty reason."""
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
        return _HIDDEN
    if child.name.lower() in _SERVICE_FOLDERS and child.is_dir():
        return _OF_A_SYSTEM
    if child.is_dir():
        return _LINK if child.is_symlink() else _FOLDER
    if not child.is_file():
        return "not a file"
    return "" if child.suffix.lower() in EXTENSIONS else f"suffix {child.suffix!r}"


def _warn_of_left_out(path, sets):
    """Warn of image files of other formats, names that are not UTF-8, folders without images, and similar classes."""
    skipped = list(dict.fromkeys(entry for labeled_set in sets for entry in labeled_set.skipped))
    warn_of_similar([name for labeled_set in sets for name in labeled_set.class_names], stacklevel=3)
    counts = _other_formats(file for file, _ in skipped)
    if counts:
        warnings.warn(
            f"Received path={str(path)!r} with image files in formats that are not read: {', '.join(counts)}. Expected "
            f"{', '.join(EXTENSIONS)}. Convert them to use them; `skipped` of the result lists them.",
            stacklevel=3,
        )
    empty = [name for name, reason in skipped if reason == _EMPTY]
    if empty:
        warnings.warn(
            f"Received path={str(path)!r} with {counted(len(empty), 'folder')} without images, first {empty[0]}: no "
            "classes. `skipped` of the result lists them.",
            stacklevel=3,
        )
    names = [name for name, reason in skipped if reason == _NOT_UTF8]
    if names:
        warnings.warn(
            f"Received path={str(path)!r} with {len(names):,} files or folders whose names are not UTF-8, first "
            f"{names[0]}. Rename them to use them; `skipped` of the result lists them.",
            stacklevel=3,
        )


def passed_over(labeled_set: LabeledSet) -> list[tuple[str, str]]:
    """The files that a set leaves out, as `(name, reason)`, problems first, without rows of other splits of a table."""
    listed = [entry for entry in labeled_set.skipped if not entry[1].startswith("split ")]
    return sorted(listed, key=lambda entry: not is_problem(*entry))


def is_problem(name: str, reason: str) -> bool:
    """Whether what a set leaves out may be an image, or a row, that its owner misses."""
    if reason.startswith("suffix "):
        return pathlib.Path(name).suffix.lower() in _UNREAD_IMAGE_SUFFIXES
    return reason not in _NO_IMAGES


def _other_formats(files):
    """Number and suffix of the files of image formats that are not read, such as "2 .heic"."""
    counts = collections.Counter(pathlib.Path(file).suffix.lower() for file in files)
    return [f"{counts[suffix]} {suffix}" for suffix in sorted(_UNREAD_IMAGE_SUFFIXES) if counts[suffix]]
