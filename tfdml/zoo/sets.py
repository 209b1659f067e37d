"""The sets that the package itself has, by the protocol ids of cards."""

from collections.abc import Callable
from typing import Any

from tfdml import datasets

_GLYPHS = "glyphs/class-disjoint/exact-cosine/v1"
SETS: dict[str, Callable[[], tuple[Any, ...]]] = {
    _GLYPHS: lambda: (datasets.glyphs()[1], None),
    f"{_GLYPHS}/outlines-against-other-designs": lambda: datasets.sketches(datasets.glyphs()[1]),
    "photo-patches/photograph-disjoint/exact-cosine/v1": lambda: (*datasets.photo_patches(splits=("test",)), None),
}
