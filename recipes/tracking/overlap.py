"""Overlap and center error of tracked boxes, by the protocols of OTB and GOT-10k."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from recipes.checks import require

KEYS = ("success_area", "precision@20", "ao", "sr@0.5", "sr@0.75")
_THRESHOLDS = np.linspace(0, 1, 21)
_PIXELS = 20.0


def evaluate(
    predicted: Sequence[npt.ArrayLike],
    truth: Sequence[npt.ArrayLike],
    *,
    cover: Sequence[npt.ArrayLike | None] | None = None,
    sizes: Sequence[tuple[int, int] | None] | None = None,
    first_frame: bool = True,
    average: str = "sequence",
) -> dict[str, Any]:
    """Success and precision of tracked boxes.

    With o the overlap of a frame (intersection over union) and e the distance of the centers in pixels,

        success_area    mean over thresholds t = 0, 0.05, ..., 1 of the share of frames with o > t
        precision@20    share of frames with e <= 20
        ao              mean of o
        sr@0.5, sr@0.75 share of frames with o > 0.5, and with o > 0.75

    | protocol | options |
    | --- | --- |
    | OTB | the defaults: all frames count, the first one too; mean over sequences |
    | GOT-10k | `first_frame=False, average="frame"`, `cover` and `sizes` of the clips |

    Args:
        predicted: boxes of each sequence, `(frames, 4)` x, y, width, height.
        truth: true boxes of each sequence, of the same shapes. Frames whose true box is not finite are left out.
        cover: of each sequence, `(frames,)` visible eighths; frames with 0 are left out. None for no such list.
        sizes: of each sequence, `(width, height)` of its frames, to which both boxes are clipped. None for no clipping.
        first_frame: whether the first frame, where the true box is given to the tracker, counts.
        average: "sequence", the mean over sequences of their means, or "frame", the mean over all frames.

    Returns:
        dict of floats; the numbers `sequences` and `frames` of what counted; and `per_sequence`, the values of each
        sequence, NaN for one without frames that count.

    Source: Wu, Lim, Yang, Object Tracking Benchmark, TPAMI 2015; Huang, Zhao, Huang, GOT-10k, TPAMI 2021.
    """
    require(average in ("sequence", "frame"), f"average={average!r}", "'sequence' or 'frame'")
    lists = [[None] * len(truth) if each is None else each for each in (cover, sizes)]
    sequences = zip(predicted, truth, *lists, strict=True)
    rows = [_frame_values(number, first_frame, *sequence) for number, sequence in enumerate(sequences)]
    counts = [len(row) for row in rows]
    require(any(counts), "sequences without a frame that counts", "a frame with a true box and a visible object")
    means = np.array([row.mean(axis=0) if len(row) else np.full(len(KEYS), np.nan) for row in rows])
    total = np.nanmean(means, axis=0) if average == "sequence" else np.concatenate(rows).mean(axis=0)
    result: dict[str, Any] = dict(zip(KEYS, total.tolist(), strict=True))
    per_sequence = dict(zip(KEYS, means.T, strict=True))
    return result | {"sequences": sum(map(bool, counts)), "frames": sum(counts), "per_sequence": per_sequence}


def _frame_values(number, first_frame, predicted, truth, cover, size):
    """The values of the frames that count, `(frames, keys)`, in the order of `KEYS`."""
    predicted, truth = (np.asarray(boxes, np.float64) for boxes in (predicted, truth))
    received = f"boxes of shape {predicted.shape} and true boxes of shape {truth.shape} in sequence {number}"
    is_table = predicted.shape == truth.shape and truth.ndim == 2 and truth.shape[1] == 4
    require(is_table, received, "(frames, 4) of the same frames")
    require(bool(np.isfinite(predicted).all()), f"boxes of sequence {number} that are not finite", "finite numbers")
    counts = np.isfinite(truth).all(axis=1)
    counts &= True if cover is None else np.asarray(cover) > 0
    counts[0] &= first_frame
    overlap = _overlaps(predicted[counts], truth[counts], size)
    away = np.linalg.norm((predicted - truth)[counts, :2] + (predicted - truth)[counts, 2:] / 2, axis=1)
    area = (overlap[:, None] > _THRESHOLDS).mean(axis=1)
    return np.stack([area, away <= _PIXELS, overlap, overlap > 0.5, overlap > 0.75], axis=1)


def _overlaps(a, b, size):
    """Intersection over union of each pair of boxes, `(n,)`; 0 for boxes without area."""
    corners = [(boxes[:, :2], boxes[:, :2] + np.maximum(boxes[:, 2:], 0)) for boxes in (a, b)]
    if size is not None:
        corners = [tuple(np.clip(corner, 0, np.asarray(size, np.float64)) for corner in pair) for pair in corners]
    (a_start, a_end), (b_start, b_end) = corners
    common = np.prod(np.maximum(np.minimum(a_end, b_end) - np.maximum(a_start, b_start), 0), axis=1)
    union = np.prod(a_end - a_start, axis=1) + np.prod(b_end - b_start, axis=1) - common
    return common / np.where(union > 0, union, 1)
