"""Embedded clips: pieces of photographs that move, turn, grow and are hidden over other photographs."""

import functools
import zlib
from collections.abc import Sequence
from typing import Literal

import numpy as np

import tfdml
from recipes.checks import require
from recipes.tracking.data import motion
from recipes.tracking.data.clip import Clip
from recipes.tracking.data.drawing import Drawn
from recipes.tracking.data.random_words import mix, uniform, words

VERSION = "v1"
PHOTOGRAPHS = {  # those of `tfdml.datasets.photo_patches`, in its order
    "train": [
        *("astronaut", "grace_hopper", "flower", "rocket", "ihc"),
        *("grass", "hubble_deep_field", "page", "moon", "retina"),
    ],
    "validation": ["chelsea", "coins", "text"],
    "test": ["china", "coffee", "camera", "gravel"],
}
COUNTS = {"train": 240, "validation": 16, "test": 30}
FRAMES = 40
_DISTRACTORS = 2
_HIDDEN = 0.7  # share of the clips in which a disc crosses the target
_CANDIDATES = 4  # points of a photograph, of which the one with the most contrast becomes the middle of a piece
_REACH = 18  # pixels around these points
_PAN = 12.0  # pixels that the background moves to each side


def clips(
    *,
    splits: Sequence[Literal["train", "validation", "test"]] = ("train", "validation", "test"),
    frames: int = FRAMES,
    seed: int = 0,
) -> tuple[list[Clip], ...]:
    """Clips of moving pieces of photographs: 160 x 120 pixels, one object with its box in every frame.

    The object is an elliptic piece of a photograph. It moves over another photograph, grows, shrinks, stretches, turns
    and changes its light; two other pieces of the same photograph move as it does, below it; in most clips a disc
    crosses it. The background moves, too. The photographs are those of `photo_patches`, disjoint between the splits:
    `pip install tfdml[samples]`. Frames are drawn when they are read, and are the same on every machine.

    Args:
        splits: names of the splits to return.
        frames: number of frames of each clip; a longer clip continues a shorter one, but is hidden at another time.
        seed: another seed gives other clips of the same photographs.

    Returns:
        A tuple of lists of `Clip`, one per split: 240, 16 and 30 clips.
    """
    is_valid = not isinstance(splits, str) and {*splits} <= {*COUNTS}
    require(is_valid, f"splits={splits!r}", f"some of {', '.join(map(repr, COUNTS))} in a tuple")
    require(frames > 1, f"frames={frames}", "2 or more")
    return tuple([_clip(split, number, frames, seed) for number in range(COUNTS[split])] for split in splits)


def _clip(split, number, frames, seed):
    name = np.uint64(zlib.crc32(split.encode()))
    key = mix(np.array([(name << np.uint64(32)) | np.uint64(number)], np.uint64))
    key = mix(key + np.array([seed]).astype(np.uint64))
    pieces = [motion.piece(key, piece, frames) for piece in range(1 + _DISTRACTORS)]
    u = uniform(words(key, motion.WORDS * len(pieces), 64))[0].astype(np.float64)
    background, source, cover_source = _chosen(split, u[:3])
    middles = [_middle(source, u[8 + 8 * i : 16 + 8 * i]) for i in range(len(pieces) + 1)]
    layers = [(source, middle, piece) for middle, piece in zip(middles[:-1], pieces, strict=True)][::-1]
    cover_piece = motion.occluder(pieces[0], u[4:8]) if u[3] < _HIDDEN else None
    if cover_piece is not None:
        layers.append((cover_source, _middle(cover_source, u[32:40]), cover_piece))
    return Clip(
        name=f"{split}-{number:03}",
        frames=Drawn(key, background, _corners(background, u[40:48], frames), tuple(layers)),
        boxes=motion.boxes(pieces[0]),
        cover=motion.cover(pieces[0], cover_piece),
        size=(motion.WIDTH, motion.HEIGHT),
        protocol=_protocol(split, frames, seed),
    )


def _protocol(split, frames, seed):
    suffix = "" if split == "test" else f"-{split}"
    other = "" if (frames, seed) == (FRAMES, 0) else f"/frames-{frames}-seed-{seed}"
    return f"moving-pieces/photograph-disjoint{suffix}/ope{other}/{VERSION}"


def _chosen(split, u):
    """Three photographs of a split: of the background, and two others for the pieces and for what hides them."""
    names = list(PHOTOGRAPHS[split])
    chosen = [names.pop(int(len(names) * share)) for share in u]
    return [_photograph(name) for name in chosen]


_photograph = functools.cache(tfdml.datasets.photograph)


def _middle(photograph, u):
    """Of four points of a photograph, the one whose surroundings differ most in gray, `(2,)`."""
    height, width = photograph.shape[:2]
    sides = np.array([width, height]) - 2 * _REACH - 1
    points = _REACH + np.floor(u.reshape(_CANDIDATES, 2) * sides).astype(int)
    windows = [photograph[y - _REACH : y + _REACH, x - _REACH : x + _REACH] for x, y in points]
    sums = [window.astype(np.int64).sum(axis=2) for window in windows]
    spreads = [(gray**2).sum() * gray.size - gray.sum() ** 2 for gray in sums]
    return points[int(np.argmax(spreads))].astype(np.float64)


def _corners(photograph, u, frames):
    """The upper left corner of each frame in the background, `(frames, 2)`."""
    height, width = photograph.shape[:2]
    space = np.array([width - motion.WIDTH, height - motion.HEIGHT])
    pan = np.minimum(_PAN, space / 2)
    start = pan + u[:2] * (space - 2 * pan)
    waves = [motion.wave(u[2 + 3 * axis : 5 + 3 * axis], pan[axis], frames) for axis in (0, 1)]
    return np.rint(256 * (start + np.stack(waves, axis=1))) / 256
