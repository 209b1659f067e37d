"""Batches of exemplar and search crops, two frames of one clip in each row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import tfdml
from recipes.tracking.checks import require, require_whole
from recipes.tracking.crops import as_box, as_frame, crop, crop_side
from recipes.tracking.labels import score_labels


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


@dataclass(frozen=True, kw_only=True)
class ClipSampler(tfdml.samplers.Sampler):
    """Batches for a siamese tracker: an exemplar crop of one frame and a search crop of another, in the same clip.

    All clips are equally likely, then all usable frames of the clip for the exemplar, then all others at most
    `max_gap` frames away for the search image; a frame without such a neighbor is paired with itself. Frames without a
    box, and frames whose object is hidden or absent, are not used. Batch t is a function of (seed, t), so `start=`
    resumes a stream, as in every sampler.

    Example: a clip of three frames: one pair of an exemplar and a search image.

        >>> frames = np.random.default_rng(0).integers(0, 256, (3, 120, 160, 3), "uint8")
        >>> clip = tracking.Clip(name="square", frames=frames, boxes=np.tile([60.0, 40.0, 20.0, 20.0], (3, 1)))
        >>> batches = tracking.ClipSampler(batch_size=1).batches([clip], exemplar_size=63, search_size=127)
        >>> (exemplars, searches), labels, weights = next(iter(batches))
        >>> exemplars.shape, searches.shape, labels.shape
        (TensorShape([1, 63, 63, 3]), TensorShape([1, 127, 127, 3]), TensorShape([1, 9, 9]))

    Args:
        batch_size: pairs in a batch; 8 in the paper.
        max_gap: T, the largest number of frames between the two.
        seed: any int64.

    Source: Bertinetto, Valmadre, Henriques, Vedaldi, Torr, Fully-Convolutional Siamese Networks for Object Tracking,
    ECCV 2016 workshops, section 2.4.
    """

    batch_size: int = 8
    max_gap: int = 100
    seed: int = 0

    def __post_init__(self):
        require_whole(1, batch_size=self.batch_size, max_gap=self.max_gap)

    def prepare(self, labels: Any) -> ClipTable:
        """The usable frames of clips, as a `ClipTable`.

        Raises:
            ValueError: no clips, objects that are not clips, or no usable frame.
        """
        clips = _as_clips(labels)
        usable = [np.flatnonzero(clip.usable) for clip in clips]
        counts = np.array([len(frames) for frames in usable])
        require(bool(counts.sum()), "clips without a usable frame", "a frame with a box and a visible object")
        rows = np.cumsum(counts) - counts
        lists = zip(usable, rows, strict=True)
        bounds = [(start + side) for frames, start in lists for side in [_neighbors(frames, self.max_gap)]]
        first, last = np.concatenate(bounds, axis=1)
        frames = np.concatenate([frames + start for frames, start in zip(usable, _offsets(clips), strict=True)])
        return ClipTable(frames, rows[counts > 0], counts[counts > 0], first, last)

    def pair_probabilities(self, labels: Any) -> tfdml.importance.PairProbabilities:
        """Raise a ValueError: Q is defined for the pairs of labeled examples."""
        raise ValueError("Received ClipSampler for pair probabilities, expected a sampler of a labeled set.")

    def draw(self, table: ClipTable, steps: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Frames of the exemplars and of the search images of `steps`, `(block, batch)` each."""
        bits = tf.map_fn(self._bits, steps)
        clip = tf.math.floormod(bits[:, 0], tf.constant(table.counts.shape[0], tf.int64))
        row = tf.gather(table.starts, clip) + tf.math.floormod(bits[:, 1], tf.gather(table.counts, clip))
        first, others = tf.gather(table.first, row), tf.gather(table.last, row) - tf.gather(table.first, row)
        other = first + tf.math.floormod(bits[:, 2], tf.maximum(others, 1))
        other = tf.where(others > 0, other + tf.cast(other >= row, tf.int64), row)
        return tf.gather(table.frames, row), tf.gather(table.frames, other)

    def _bits(self, step):
        """Random integers of a step, `(3, batch)`: of the clip, of the exemplar and of the search image."""
        key = [tf.constant(self.seed, tf.int64), step]
        shape = (3, self.batch_size)
        return tf.random.stateless_uniform(shape, key, minval=None, maxval=None, dtype=tf.int64, alg="philox")

    def batches(  # type: ignore[override]
        self,
        clips: Sequence[Any],
        *,
        stride: int = 8,
        exemplar_size: int | None = None,
        search_size: int | None = None,
        radius: float | None = None,
        context: float = 0.5,
        prefetch: int = 4,
        start: int = 0,
        num_shards: int = 1,
        shard_index: int = 0,
    ) -> tf.data.Dataset:
        """Infinite stream of batches `((exemplars, searches), labels, weights)` for `tracking.siam_fc`.

        Args:
            clips: list of `tracking.Clip`.
            stride: stride of the network.
            exemplar_size, search_size: sides of the crops in pixels; None for 16 stride - 1 and 32 stride - 1.
            radius: of the positive positions, see `score_labels`; None for 2 stride, 16 pixels in the paper.
            context: see `crop_side`.
            prefetch: maximum number of batches prepared ahead of the training step.
            start, num_shards, shard_index: as in `Sampler.index_batches`.

        Returns:
            An infinite `tf.data.Dataset`: uint8 `(batch, size, size, 3)` twice, labels 1 and -1 and weights
            `(batch, map, map)`, float32, where map = (search_size - exemplar_size) / stride + 1.

        Raises:
            ValueError: the errors of `prepare` and of `Sampler.index_batches`, or sizes that do not fit the stride.
        """
        clips = _as_clips(clips)
        require_whole(1, stride=stride, prefetch=prefetch)
        sizes = exemplar_size or 16 * stride - 1, search_size or 32 * stride - 1
        maps = self._maps(sizes, stride, radius)
        rows = self.index_batches(clips, start=start, num_shards=num_shards, shard_index=shard_index)
        offsets = _offsets(clips)

        def pair(exemplar, search):
            crops = [
                _crop_of(clips, offsets, int(row), sizes, number, context)
                for number, row in ((0, exemplar), (1, search))
            ]
            return crops

        def load(exemplar, search):
            pixels = tf.numpy_function(pair, [exemplar, search], [tf.uint8, tf.uint8])
            return tuple(tf.ensure_shape(image, (size, size, 3)) for image, size in zip(pixels, sizes, strict=True))

        pairs = rows.unbatch().map(load, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        batches = pairs.batch(self.batch_size, drop_remainder=True)
        return batches.map(lambda *images: (images, *maps)).prefetch(prefetch)

    def _maps(self, sizes, stride, radius):
        """Labels and weights of a batch."""
        positions, rest = divmod(sizes[1] - sizes[0], stride)
        expected = f"sizes that differ by a multiple of stride={stride}, the search image the larger one"
        require(rest == 0 and positions >= 0, f"exemplar_size={sizes[0]} and search_size={sizes[1]}", expected)
        maps = score_labels(positions + 1, stride=stride, radius=radius or 2.0 * stride)
        return tuple(np.tile(each, (self.batch_size, 1, 1)) for each in maps)


def _as_clips(clips):
    clips = list(clips)
    are_clips = bool(clips) and all(hasattr(clip, "usable") and hasattr(clip, "image") for clip in clips)
    received = f"a list of {type(clips[0]).__name__}" if clips else "no clips"
    require(are_clips, received, "a list of tracking.Clip, as of tracking.clips or got10k")
    return clips


def _offsets(clips):
    """Number of the first frame of each clip, `(clips,)`."""
    counts = np.array([len(clip) for clip in clips])
    return np.cumsum(counts) - counts


def _neighbors(frames, max_gap):
    """First and last position in `frames`, ascending, at most `max_gap` away from each: `(2, frames)` int64."""
    first = np.searchsorted(frames, frames - max_gap)
    return np.stack([first, np.searchsorted(frames, frames + max_gap, side="right") - 1])


def _crop_of(clips, offsets, row, sizes, number, context):
    """The exemplar (number 0) or search crop (number 1) of a frame."""
    index = int(np.searchsorted(offsets, row, side="right")) - 1
    clip, frame = clips[index], row - int(offsets[index])
    image = as_frame(clip.image(frame))
    box = as_box(clip.boxes[frame], image, f"box of frame {frame} of clip {clip.name!r}")
    side = crop_side(box, context=context) * sizes[number] / sizes[0]
    return crop(image, box[:2] + box[2:] / 2, [side], sizes[number])[0]
