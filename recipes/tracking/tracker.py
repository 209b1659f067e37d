"""A tracker: search crops of several scales around the last position, and the peak of their scores."""

import functools
import time

import keras
import numpy as np
import numpy.typing as npt

from recipes.checks import require
from recipes.tracking.crops import as_box, as_frame, crop, crop_side
from recipes.tracking.data.clip import Clip
from recipes.tracking.matchers import Matcher, SiameseMatcher

_LEAST, _MOST = 0.2, 5.0  # of the first size


class Tracker:
    """Follow one object from its box in the first frame.

    A frame is searched around the last position at several scales s = step^k. The maps of scores are upsampled by
    bicubic interpolation; the scale with the highest peak is taken, where the heights above the minimum of all maps are
    multiplied by `scale_penalty` for k other than 0. Its map, with minimum 0 and sum 1, is mixed with a cosine window
    of sum 1: (1 - window_influence) map + window_influence window. The peak is the new position, and the size is
    multiplied by 1 - scale_damping + scale_damping s. The exemplar is that of the first frame.

    Args:
        matcher: `siam_fc` after training, or a `Matcher`, such as `TemplateMatcher()`.
        scales: number of scales, odd.
        scale_step: factor between neighboring scales, above 1.
        scale_penalty: factor of the peaks of other scales, in (0, 1].
        scale_damping: share of a change of scale that is followed, in (0, 1].
        window_influence: share of the window, in [0, 1).
        upsampling: factor of the map's side, a whole number.

    Source: Bertinetto, Valmadre, Henriques, Vedaldi, Torr, Fully-Convolutional Siamese Networks for Object Tracking,
    ECCV 2016 workshops, section 3; the numbers of the penalty and of the window are those of its authors' code, where
    the penalty multiplies the score itself.
    """

    def __init__(
        self,
        matcher: keras.Model | Matcher,
        *,
        scales: int = 3,
        scale_step: float = 1.025,
        scale_penalty: float = 0.9745,
        scale_damping: float = 0.35,
        window_influence: float = 0.176,
        upsampling: int = 16,
    ) -> None:
        require(scales % 2 == 1, f"scales={scales}", "an odd number, so that one scale is 1")
        self.matcher: Matcher = SiameseMatcher(matcher) if isinstance(matcher, keras.Model) else matcher
        exponents = np.arange(scales) - scales // 2
        self._factors = scale_step ** exponents.astype(np.float64)
        self._penalties = np.where(exponents == 0, 1.0, scale_penalty)
        self._damping, self._influence, self._upsampling = scale_damping, window_influence, upsampling
        self._shape: tuple[int, ...] | None = None

    def init(self, frame: npt.ArrayLike, box: npt.ArrayLike) -> None:
        """Start from the box in the first frame.

        Args:
            frame: `(height, width, 3)` uint8, RGB.
            box: `(4,)` x, y, width, height in pixels; the upper left pixel covers 0 to 1.
        """
        frame = as_frame(frame)
        box = as_box(box, frame)
        self._center, self._sides = box[:2] + box[2:] / 2, box[2:]
        self._first_sides, self._shape = box[2:], frame.shape
        self._state = self.matcher.start(crop(frame, self._center, [crop_side(box)], self.matcher.exemplar_size)[0])

    def update(self, frame: npt.ArrayLike) -> np.ndarray:
        """The box in the next frame, `(4,)` float64."""
        frame = as_frame(frame)
        require(self._shape is not None, "update before init", "a first frame and its box: call init(frame, box)")
        received = f"a frame of shape {frame.shape} after {self._shape}"
        require(frame.shape == self._shape, received, "frames of one size. Start again by init")
        side = crop_side(self.box) * (self.matcher.search_size / self.matcher.exemplar_size)
        searches = crop(frame, self._center, side * self._factors, self.matcher.search_size)
        scale, offset = self._peak(self.matcher.scores(self._state, searches))
        self._move(offset * side * self._factors[scale] / self.matcher.search_size, self._factors[scale])
        return self.box

    @property
    def box(self) -> np.ndarray:
        """The last box, `(4,)` x, y, width, height."""
        return np.concatenate([self._center - self._sides / 2, self._sides])

    def track(self, clip: Clip) -> tuple[np.ndarray, np.ndarray]:
        """Follow the object of a clip from its first box.

        Returns:
            boxes `(frames, 4)`, the first of which is the clip's own, and the seconds of each frame, `(frames,)`,
            without the time to read or draw it.
        """
        boxes, seconds = [clip.boxes[0]], []
        for number in range(len(clip)):
            frame = clip.image(number)
            begin = time.perf_counter()
            if number:
                boxes.append(self.update(frame))
            else:
                self.init(frame, clip.boxes[0])
            seconds.append(time.perf_counter() - begin)
        return np.array(boxes), np.array(seconds)

    def _peak(self, scores):
        """Number of the best scale, and x and y of its peak from the middle, in pixels of the search crop."""
        scores = np.asarray(scores, np.float64)
        interpolation, window = _interpolation_and_window(scores.shape[-1], self._upsampling)
        maps = interpolation @ scores @ interpolation.T
        maps -= maps.min()
        scale = int(np.argmax(maps.max(axis=(1, 2)) * self._penalties))
        chosen = maps[scale] - maps[scale].min()
        mixed = (1 - self._influence) * chosen / max(chosen.sum(), 1e-12) + self._influence * window
        row, column = np.unravel_index(np.argmax(mixed), mixed.shape)
        positions = (np.array([column, row]) + 0.5) / self._upsampling - scores.shape[-1] / 2
        return scale, positions * self.matcher.stride

    def _move(self, offset, factor):
        """Follow an offset in pixels of the frame, and a change of scale."""
        height, width = self._shape[:2]
        self._center = np.clip(self._center + offset, 0, [width, height])
        sides = self._sides * (1 - self._damping + self._damping * factor)
        self._sides = np.clip(sides, _LEAST * self._first_sides, _MOST * self._first_sides)


@functools.cache
def _interpolation_and_window(size, upsampling):
    """The matrix of the bicubic interpolation of a map, `(size * upsampling, size)`, and the cosine window."""
    shape = (size * upsampling, size)
    rows = keras.ops.image.resize(np.eye(size, dtype=np.float32)[None, ..., None], shape, "bicubic")
    line = np.hanning(shape[0] + 2)[1:-1]
    return keras.ops.convert_to_numpy(rows)[0, ..., 0].astype(np.float64), np.outer(line, line) / line.sum() ** 2
