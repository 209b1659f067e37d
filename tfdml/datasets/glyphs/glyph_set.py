"""Glyphs: a zero-shot retrieval set of characters that needs no download. See docs/glyphs.md."""

import pathlib
import unicodedata
import zlib
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from tfdml._core.checks import require, require_whole
from tfdml._core.terminal import show_progress
from tfdml.datasets.caches.array_cache import cache_folder, cached, digest
from tfdml.datasets.glyphs import distortion, typefaces
from tfdml.datasets.labeled_set import COLUMN, LabeledSet

VERSION = "v1"  # covers the manifest, the drawing and the distortion
_MANIFEST = pathlib.Path(__file__).with_name("manifest.npz")
_CHUNK = 512


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Glyphs(LabeledSet):
    """One part of the glyphs, see `glyphs`: a `LabeledSet` of `(n, 32, 32, 1)` uint8 images, gray."""

    code_points: np.ndarray = field(metadata=COLUMN)
    faces: np.ndarray = field(metadata=COLUMN)
    designs: np.ndarray = field(metadata=COLUMN)
    views: np.ndarray = field(metadata=COLUMN)
    face_names: tuple[str, ...]
    design_names: tuple[str, ...]


def glyphs(
    *, split: Literal["class", "script"] = "class", validation: bool = False, views: int = 1
) -> tuple[Glyphs, ...]:
    """Images of characters, 32 x 32 gray pixels, with disjoint classes for training and test.

    A class is a character. An example is that character in one typeface with a small deterministic distortion. The
    typefaces are the 21 in matplotlib's wheel, drawn with Pillow: `pip install tfdml[plots]`. The first call draws
    for about ten seconds; later calls read the cache, the folder `TFDML_CACHE`, or `tfdml` in `XDG_CACHE_HOME` or
    `~/.cache`.

    Example:

        >>> train, test = tfdml.datasets.glyphs()
        >>> test
        <Glyphs: 11,411 examples of 854 classes, protocol glyphs/class-disjoint/exact-cosine/v1>
        >>> test.class_names[:5], test.face_names[:2]
        (('4', '5', '6', '7', 'A'), ('DejaVuSans', 'DejaVuSans-Bold'))

    Args:
        split: "class" assigns a class to the test part by a hash of its code point (crc32 of `glyphs:<hex code point>`
            is odd); "script" trains on Latin letters and tests on all other scripts and on numbers, a harder task.
        validation: whether to split a validation part of about every fifth class from the training classes, also by a
            hash (crc32 of `glyphs-validation:<hex code point>` is divisible by 5). The test part does not change.
        views: number of distortions per drawing. View 0 comes first in every part and equals the images of `views=1`.

    Returns:
        `(train, test)`, or `(train, validation, test)`, each a `LabeledSet` of `(n, 32, 32, 1)` uint8 images, whose
        class names are the characters. Its further columns are `code_points`, `(n,)` Unicode code points; `faces` and
        `designs`, indices of the typeface and of its family into `face_names` and `design_names`; and `views`, the
        number of the distortion.
    """
    require(split in ("class", "script"), f"split={split!r}", "'class' or 'script'")
    require_whole("views", views, 1)
    arrays = _arrays(views)
    name = f"glyphs-views{views}" if views > 1 else "glyphs"
    rows_by_split = _rows_by_split(arrays["classes"], split, validation)
    suffixes = {"test": ""}  # numbers are reported on the test part
    return tuple(
        _part(arrays, rows, f"{name}/{split}-disjoint{suffixes.get(each, f'-{each}')}/exact-cosine/{VERSION}")
        for each, rows in rows_by_split.items()
    )


class Selection(NamedTuple):
    """The drawings of `tools/make_glyphs_manifest.py`, ordered by class (a code point), code point and face."""

    classes: np.ndarray
    code_points: np.ndarray
    faces: np.ndarray


def load_manifest() -> Selection:
    """The selection that ships with the package: class labels, code points and bit masks of their faces."""
    with np.load(_MANIFEST, allow_pickle=False) as arrays:
        labels, code_points, masks = arrays["labels"], arrays["code_points"], arrays["faces"]
    rows, faces = np.nonzero((masks[:, None] >> np.arange(32, dtype=np.uint32)) & 1)
    return Selection(labels[rows].astype(np.int64), code_points[rows].astype(np.int64), faces)


def _arrays(views):
    chosen = load_manifest()
    path = cache_folder() / f"glyphs-{digest(chosen._asdict())[:8]}-{VERSION}-views{views}.npz"
    return cached(path, lambda: _render(typefaces.wheel_faces(), chosen, views))


def _render(faces, chosen, views):
    """Draws the selected glyphs: dict of arrays, view by view, each view in the order of the selection."""
    n = len(chosen.classes)
    fonts = [typefaces.open_font(face) for face in faces]
    face_ids = np.array([face.id for face in faces])[chosen.faces]
    images = np.empty((views, n, distortion.SIDE, distortion.SIDE, 1), np.uint8)
    for start in range(0, n, _CHUNK):
        show_progress("Drawing the glyphs", start, n)
        rows = slice(start, start + _CHUNK)
        drawings = _drawings(fonts, chosen.code_points[rows], chosen.faces[rows])
        for view in range(views):
            keys = distortion.image_keys(chosen.code_points[rows], face_ids[rows], view)
            images[view, rows, :, :, 0] = distortion.distort(drawings, keys)
    show_progress("Drawing the glyphs", n, n)
    return {
        "images": images.reshape(-1, distortion.SIDE, distortion.SIDE, 1),
        "classes": np.tile(chosen.classes, views),
        "code_points": np.tile(chosen.code_points, views),
        "faces": np.tile(chosen.faces, views),
        "views": np.repeat(np.arange(views, dtype=np.int64), n),
    }


def _drawings(fonts, code_points, faces):
    masters = [typefaces.draw(fonts[face], c) for c, face in zip(code_points.tolist(), faces.tolist(), strict=True)]
    return typefaces.reduce(np.stack(masters), 2 * distortion.SIDE)


def _rows_by_split(classes, split, validation):
    """Rows of each part, in the order of the returned parts: dict of name -> `(n,)` bool."""
    names, inverse = np.unique(classes, return_inverse=True)
    if split == "class":
        is_test = [zlib.crc32(b"glyphs:%x" % c) % 2 == 1 for c in names.tolist()]
    else:
        is_test = [not unicodedata.name(chr(c), "").startswith("LATIN") for c in names.tolist()]
    held_out = np.array(is_test, bool)[inverse]
    if not validation:
        return {"train": ~held_out, "test": held_out}
    carved = np.array([zlib.crc32(b"glyphs-validation:%x" % c) % 5 == 0 for c in names.tolist()], bool)[inverse]
    return {"train": ~held_out & ~carved, "validation": ~held_out & carved, "test": held_out}


def _part(arrays, rows, protocol):
    classes, labels = np.unique(arrays["classes"][rows], return_inverse=True)
    design_names = tuple(dict.fromkeys(typefaces.WHEEL_DESIGNS))
    faces = arrays["faces"][rows]
    return Glyphs(
        images=arrays["images"][rows],
        labels=labels.astype(np.int64),
        class_names=tuple(map(chr, classes.tolist())),
        code_points=arrays["code_points"][rows],
        faces=faces,
        designs=np.array([design_names.index(design) for design in typefaces.WHEEL_DESIGNS], np.int64)[faces],
        views=arrays["views"][rows],
        face_names=typefaces.WHEEL_FACES,
        design_names=design_names,
        protocol=protocol,
    )
