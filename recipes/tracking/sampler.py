"""Batches of exemplar and search crops, two frames of one clip in each row, and the labels of their score maps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import tfdml
from recipes.checks import require
from recipes.tracking.crops import as_box, as_frame, crop, crop_side
from recipes.tracking.data.clip import Clip

POSITIONS = 17  # of the exemplar in a search image, along a side


def score_labels(size: int, *, stride: int = 8, radius: float = 16.0) -> tuple[np.ndarray, np.ndarray]:
    """Labels of a map whose target is in the middle: 1 where stride |u - c| <= radius, -1 elsewhere; and weights.

    Both labels have half of the weight, and the mean weight is 1, so that
    `PairLogisticLoss()(labels, scores, weights)` is the mean of the losses of both.

    Args:
        size: side of the map.
        stride: pixels of the search image between neighboring positions.
        radius: distance from the middle in pixels of the search image.

    Returns:
        labels and weights, `(size, size)` float32.

    Raises:
        ValueError: a radius that leaves positions of one label only.

    Source: Bertinetto, Valmadre, Henriques, Vedaldi, Torr, Fully-Convolutional Siamese Networks for Object Tracking,
    ECCV 2016 workshops, eq. 6.
    """
    away = stride * (np.arange(size) - (size - 1) / 2)
    positive = away[:, None] ** 2 + away**2 <= radius**2
    count = np.count_nonzero(positive)
    received = f"radius={radius} with {count} positive of {size**2} positions"
    require(bool(0 < count < size**2), received, "positions of both labels. Change the radius")
    weights = np.where(positive, size**2 / (2 * count), size**2 / (2 * (size**2 - count)))
    return np.where(positive, 1.0, -1.0).astype(np.float32), weights.astype(np.float32)


class ClipTable(NamedTuple):
    """The usable frames of clips, one row each.

    Attributes:
        frames: `(rows,)` int64, their numbers if the frames of all clips are counted one after the other.
        starts, counts: `(clips,)` int64, first row and number of rows of each clip that has some.
        first, last: `(rows,)` int64, first and last row of the same clip at most `max_gap` frames away.
    """

    frames: np.ndarray
    starts: np.ndarray
    counts: np.ndarray
    first: np.ndarray
    last: np.ndarray


_ROWS = tf.TensorSpec((None,), tf.int64)


@dataclass(frozen=True, kw_only=True)
class ClipSampler(tfdml.samplers.Sampler):
    """Batches for a siamese tracker: an exemplar crop of one frame and a search crop of another, in the same clip.

    All clips are equally likely, then all usable frames of the clip for the exemplar, then all others at most
    `max_gap` frames away for the search image; a frame without such a neighbor is paired with itself. Frames without a
    box, and frames whose object is hidden or absent, are not used. Batch t is a function of (seed, t), so `start=`
    resumes a stream, as in every sampler.

    Args:
        batch_size: pairs in a batch; 8 in the paper.
        max_gap: T, the largest number of frames between the two.
        seed: any int64.
        scales: factors of the side of the exemplar crops; rows 0, 1, ... of a batch have them in turn. The tracker of
            the paper searches at the five scales `1.025 ** np.arange(-2.0, 3.0)`.

    Source: Bertinetto, Valmadre, Henriques, Vedaldi, Torr, Fully-Convolutional Siamese Networks for Object Tracking,
    ECCV 2016 workshops, section 2.4.
    """

    batch_size: int = 8
    max_gap: int = 100
    seed: int = 0
    scales: Sequence[float] = (1.0,)

    def __post_init__(self) -> None:
        valid = len(self.scales) > 0 and all(scale > 0 for scale in self.scales)
        require(valid, f"scales={self.scales}", "one or more factors above 0")

    def prepare(self, clips: Sequence[Clip]) -> ClipTable:
        """The usable frames of clips; a ValueError if there is none."""
        usable = [np.flatnonzero(clip.usable) for clip in clips]
        counts = np.array([len(frames) for frames in usable], np.int64)
        require(bool(counts.sum()), "clips without a usable frame", "a frame with a box and a visible object")
        rows = np.cumsum(counts) - counts
        bounds = [start + _neighbors(frames, self.max_gap) for frames, start in zip(usable, rows, strict=True)]
        frames = np.concatenate([frames + start for frames, start in zip(usable, _offsets(clips), strict=True)])
        return ClipTable(frames, rows[counts > 0], counts[counts > 0], *np.concatenate(bounds, axis=1))

    def draw(self, table: ClipTable, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Frames of the exemplars and of the search images of `steps`, `(block, batch)` each."""
        bits = np.stack([self._bits(step) for step in steps])
        clip = bits[:, 0] % len(table.counts)
        row = table.starts[clip] + bits[:, 1] % table.counts[clip]
        first, others = table.first[row], table.last[row] - table.first[row]
        other = first + bits[:, 2] % np.maximum(others, 1)
        other = np.where(others > 0, other + (other >= row), row)
        return table.frames[row], table.frames[other]

    def _bits(self, step):
        """Random integers of a step, `(3, batch)`: of the clip, of the exemplar and of the search image."""
        key, shape = [tf.constant(self.seed, tf.int64), step], (3, self.batch_size)
        return tf.random.stateless_uniform(shape, key, minval=None, maxval=None, dtype=tf.int64, alg="philox").numpy()

    def batches(self, clips: Sequence[Clip], *, stride: int = 8, **options: Any) -> tf.data.Dataset:
        """Infinite stream of batches `((exemplars, searches), labels, weights)` for `siam_fc(stride=stride)`.

        Args:
            clips: list of `Clip`.
            stride: stride of the network; positive positions are at most two strides from the middle.
            **options: `start`, `num_shards` and `shard_index`, as in `Sampler.index_batches`.

        Returns:
            An infinite `tf.data.Dataset`: uint8 `(batch, size, size, 3)` of 16 stride - 1 and of 32 stride - 1 pixels,
            labels 1 and -1 and weights `(batch, 17, 17)`, float32.
        """
        clips = list(clips)
        indices, offsets = self.index_batches(clips, **options), _offsets(clips)
        rows = tf.data.Dataset.from_generator(lambda: iter(indices), output_signature=(_ROWS, _ROWS))
        sizes = 16 * stride - 1, 32 * stride - 1
        maps = score_labels(POSITIONS, stride=stride, radius=2.0 * stride)
        labels, weights = (np.tile(each, (self.batch_size, 1, 1)) for each in maps)

        def crops(number, *frames):
            factors = self.scales[number % self.batch_size % len(self.scales)], sizes[1] / sizes[0]
            return [
                _crop_of(clips, offsets, int(row), *view) for row, *view in zip(frames, factors, sizes, strict=True)
            ]

        def load(number, frames):
            pixels = tf.numpy_function(crops, [number, *frames], [tf.uint8, tf.uint8])
            return tuple(tf.ensure_shape(image, (size, size, 3)) for image, size in zip(pixels, sizes, strict=True))

        pairs = rows.unbatch().enumerate().map(load, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        batches = pairs.batch(self.batch_size, drop_remainder=True)
        return batches.map(lambda *images: (images, labels, weights)).prefetch(4)


def _offsets(clips):
    """Number of the first frame of each clip, `(clips,)`."""
    counts = np.array([len(clip) for clip in clips])
    return np.cumsum(counts) - counts


def _neighbors(frames, max_gap):
    """First and last position in `frames`, ascending, at most `max_gap` away from each: `(2, frames)` int64."""
    first = np.searchsorted(frames, frames - max_gap)
    return np.stack([first, np.searchsorted(frames, frames + max_gap, side="right") - 1])


def _crop_of(clips, offsets, row, factor, size):
    """The crop of a frame around its box, with `factor` times the side of its context, brought to `size` pixels."""
    index = int(np.searchsorted(offsets, row, side="right")) - 1
    clip, frame = clips[index], row - int(offsets[index])
    image = as_frame(clip.image(frame))
    box = as_box(clip.boxes[frame], image, f"box of frame {frame} of clip {clip.name!r}")
    return crop(image, box[:2] + box[2:] / 2, [crop_side(box) * factor], size)[0]
