"""Photo patches: views of places in photographs, a retrieval set that needs no download. See docs/photo-patches.md."""

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tfdml._core.terminal import show_progress
from tfdml.datasets.caches.array_cache import cache_folder, cached, digest
from tfdml.datasets.labeled_set import COLUMN, LabeledSet
from tfdml.datasets.photo_patches import photographs
from tfdml.datasets.photo_patches import views as photo_views

VERSION = "v1"  # of the manifest and the views together
VIEWS = 8
_MANIFEST = pathlib.Path(__file__).with_name("manifest.npz")
_CHUNK = 64

PARTS = {
    "train": (
        "astronaut",
        "grace_hopper",
        "flower",
        "rocket",
        "ihc",
        "grass",
        "hubble_deep_field",
        "page",
        "moon",
        "retina",
    ),
    "validation": ("chelsea", "coins", "text"),
    "test": ("china", "coffee", "camera", "gravel"),
}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PhotoPatches(LabeledSet):
    """One part of the photo patches, see `photo_patches`: a `LabeledSet` of `(n, 64, 64, 3)` uint8 images, RGB."""

    photographs: np.ndarray = field(metadata=COLUMN)
    places: np.ndarray = field(metadata=COLUMN)
    views: np.ndarray = field(metadata=COLUMN)
    photograph_names: tuple[str, ...]


def photo_patches(
    *, splits: Sequence[Literal["train", "validation", "test"]] = ("train", "validation", "test")
) -> tuple[PhotoPatches, ...]:
    """Places in photographs: 64 x 64 color images whose train, validation and test photographs are disjoint.

    A class is a place in a photograph; its eight images are views of it under a random homography, light, shadow,
    cover, blur, noise and JPEG. The photographs are those inside the wheels of scikit-image, scikit-learn and
    matplotlib: `pip install tfdml[samples]`. The first call draws for about half a minute; later calls read the
    cache, as for `glyphs`: 229 MB for all splits. They are not equally hard: never compare numbers of different splits.

    Example:

        >>> (test,) = tfdml.datasets.photo_patches(splits=["test"])
        >>> test
        <PhotoPatches: 3,536 examples of 442 classes, protocol photo-patches/photograph-disjoint/exact-cosine/v1>
        >>> test.class_names[0], test.examples().shape
        ('china 204,42', (3536, 64, 64, 3))

    Args:
        splits: names of the splits to return.

    Returns:
        A tuple of `LabeledSet`, one per split: 1,744, 146 and 442 places with eight views each. Further columns are
        `photographs`, indices into `photograph_names`; `places`, `(n, 2)` x and y; and `views`, the number of the view.
    """
    unknown = [split for split in splits if split not in PARTS]
    if unknown or isinstance(splits, str):
        raise ValueError(f"Received splits={splits!r}, expected some of {', '.join(map(repr, PARTS))} in a tuple.")
    manifest = load_manifest()
    return tuple(_patches_of(split, manifest[split]) for split in splits)


def load_manifest() -> dict[str, np.ndarray]:
    """The places that ship with the package: part to `(places, 3)` int64, the photograph, x and y."""
    with np.load(_MANIFEST, allow_pickle=False) as saved:
        return {split: saved[split].astype(np.int64) for split in PARTS}


def _patches_of(split, rows):
    name = f"photo-patches-{split}-{digest({split: rows})[:8]}-{VERSION}.npz"
    arrays = cached(cache_folder() / name, lambda: {"images": _render(split, rows)})
    suffix = "" if split == "test" else f"-{split}"
    return PhotoPatches(
        images=arrays["images"],
        labels=np.repeat(np.arange(len(rows)), VIEWS),
        class_names=tuple(f"{PARTS[split][photograph]} {x},{y}" for photograph, x, y in rows.tolist()),
        photographs=np.repeat(rows[:, 0], VIEWS),
        places=np.repeat(rows[:, 1:], VIEWS, axis=0),
        views=np.tile(np.arange(VIEWS), len(rows)),
        photograph_names=PARTS[split],
        protocol=f"photo-patches/photograph-disjoint{suffix}/exact-cosine/{VERSION}",
    )


def _render(split, rows):
    """The views of all places, place by place: `(places * views, 64, 64, 3)` uint8."""
    images = np.empty((len(rows), VIEWS, photo_views.SIDE, photo_views.SIDE, 3), np.uint8)
    for number, name in enumerate(PARTS[split]):
        photograph = photographs.read(photographs.PHOTOGRAPHS[name])
        rows_of_photograph = np.flatnonzero(rows[:, 0] == number)
        for chunk in np.split(rows_of_photograph, range(_CHUNK, len(rows_of_photograph), _CHUNK)):
            show_progress(f"Drawing the photo patches ({split})", int(chunk[0]), len(rows))
            for view in range(VIEWS):
                keys = photo_views.view_keys(name, rows[chunk, 1:], view)
                images[chunk, view] = photo_views.views(photograph, rows[chunk, 1:], keys)
    show_progress(f"Drawing the photo patches ({split})", len(rows), len(rows))
    return images.reshape(-1, *images.shape[2:])
