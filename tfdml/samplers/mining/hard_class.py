"""Batches of classes that are close in the current embedding space."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfdml._core.checks import INT64, as_unmasked, require_whole
from tfdml.samplers.base import ClassBalancedSampler
from tfdml.samplers.class_table import ClassTable, class_table
from tfdml.samplers.draws import random_bits, sample_categorical, sample_rows

_BLOCK = 8  # Steps drawn at once: few, so that new centers reach the stream soon.
_MAX_VALUES_PER_GATHER = 2**21  # Coordinates of candidates' centers gathered at once.
_CLASSES_PER_CHUNK = 256  # Classes compared with all others at once.
_MAX_HARDNESS_RATIO = 1000  # Hardness is clipped to this factor around its median.


class ClassCenters(tf.Module):
    """Class centers in the embedding space, used by `HardClassSampler`.

    `refresh` takes embeddings of some examples of every class; `tfdml.callbacks.RefreshCenters` calls it during `fit`.
    Before the first refresh all centers are the origin and all classes are equally hard.

    Example:

        centers = tfdml.samplers.ClassCenters(train.labels, dim=64)
        tf.train.Checkpoint(centers=centers).write(path)  # to save them

    Args:
        labels: `(examples,)` integer class ids of the training set.
        dim: dimension of the embeddings.
        normalize: normalize embeddings to length 1 first, as most losses and cosine retrieval do; False for losses of
            plain Euclidean distances.

    Attributes:
        ids: `(classes,)` int64 class ids in ascending order.
        centers: variable `(classes, dim)` float32, the mean embedding of each class.
        within: variable `(classes,)` float32, the mean distance of the examples of a class to its center.
        hardness: variable `(classes,)` float32, `within` over the distance to the nearest other center. Values are
            clipped to a factor of 1,000 around the median, so that classes with a single known example are still drawn,
            and coincident classes do not dominate.
        refreshes: variable, int64: number of refreshes so far.
    """

    def __init__(self, labels: npt.ArrayLike, dim: int, *, normalize: bool = True):
        super().__init__()
        require_whole("dim", dim, 1)
        self.ids = class_table(labels).ids
        self.normalize = normalize
        with tf.device("CPU:0"):  # The device of `tf.data`.
            self.centers = tf.Variable(tf.zeros((len(self.ids), dim)), trainable=False)
            self.within = tf.Variable(tf.zeros(len(self.ids)), trainable=False)
            self.hardness = tf.Variable(tf.ones(len(self.ids)), trainable=False)
            self.refreshes = tf.Variable(tf.zeros((), tf.int64), trainable=False)

    def _lookup_dependency(self, name, cached_dependencies=None):
        """Checkpoints of earlier versions hold the centers under their former name."""
        return super()._lookup_dependency("centers" if name == "centres" else name, cached_dependencies)

    def __repr__(self):
        return f"<ClassCenters of {self.centers.shape[0]} classes, dim={self.dim}>"

    @property
    def dim(self) -> int:
        """Dimension of the embeddings."""
        return self.centers.shape[1]

    def refresh(self, embeddings: npt.ArrayLike, labels: npt.ArrayLike) -> None:
        """Compute the centers from embeddings of examples of every class.

        Time grows with the square of the number of classes; memory grows linearly.

        Args:
            embeddings: `(examples, dim)`.
            labels: `(examples,)` integer class ids, exactly the classes of `ids`.

        Raises:
            ValueError: embeddings that have the wrong shape or are not finite, or other classes.
        """
        table = class_table(labels)
        embeddings = as_unmasked(embeddings, "embeddings")
        x = np.asarray(embeddings, dtype="float32")
        if x.shape != (len(table.rows), self.dim):
            raise ValueError(
                f"Received embeddings of shape {x.shape} and {len(table.rows)} labels with dim={self.dim}, expected "
                f"{(len(table.rows), self.dim)}."
            )
        if not np.isfinite(x).all():
            row = int(np.argmin(np.isfinite(x).all(axis=1)))
            raise ValueError(f"Received embeddings that are not finite, first in row {row}. Did the training diverge?")
        if not np.array_equal(table.ids, self.ids):
            different = np.setxor1d(table.ids, self.ids)
            raise ValueError(
                f"Received {len(table.ids)} classes, expected exactly the {len(self.ids)} of these centers; class "
                f"{different[0]} is in only one of the two."
            )
        if self.normalize:
            x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
        x, counts = x[table.rows], table.counts.astype("float32")
        centers = np.add.reduceat(x, table.starts) / counts[:, None]
        away = np.linalg.norm(x - np.repeat(centers, table.counts, axis=0), axis=1)
        within = np.add.reduceat(away, table.starts) / counts
        self.centers.assign(centers)
        self.within.assign(within)
        self.hardness.assign(_hardness(within, _to_nearest(centers)))
        self.refreshes.assign_add(1)

    def places(self, ids: np.ndarray) -> np.ndarray:
        """The place of each class id in `ids`; raises a ValueError for unknown ones."""
        place = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        unknown = self.ids[place] != ids
        if unknown.any():
            raise ValueError(
                f"Received labels with class {ids[unknown][0]}, which is not in centers={self!r}. Make the centers "
                "from the same labels."
            )
        return place


@dataclass(frozen=True, kw_only=True)
class HardClassSampler(ClassBalancedSampler):
    """Batches of classes that the model confuses: each class is the nearest candidate to the classes before it.

    A batch starts with one class and a random set of candidates. It then repeatedly adds the candidate whose center is
    nearest to a center of the batch, the one that violates the triplet constraint most; ties are broken at random. The
    examples of each class are uniform without replacement. Before the first refresh of `centers` all distances are
    tied, so classes are uniform as in `GroupSampler`.

    Batch t is a function of (seed, t) and of the centers when it is drawn. Batches are drawn ahead of the training
    step: up to 8 at once, up to 8 more ahead, and `batches` prefetches some, so a refresh takes effect some batches
    later. A run resumed with `start=` has a defined state, but its first batches differ from those of an uninterrupted
    run, because they are drawn with the centers of the resumed model.

    Q depends on the centers and has no closed form. For fixed centers `tfdml.importance.simulated_probabilities`
    estimates it, if there are few enough candidates for every pair of classes to be drawn.

    Example:

        centers = tfdml.samplers.ClassCenters(labels, dim=64)
        sampler = tfdml.samplers.HardClassSampler(classes_per_batch=16, examples_per_class=2, centers=centers)
        refresh = tfdml.callbacks.RefreshCenters(centers, images, labels)
        model.fit(sampler.batches(images, labels), steps_per_epoch=200, epochs=10, callbacks=[refresh])

    Args:
        classes_per_batch: number of classes; each is close to an earlier class of the batch.
        examples_per_class: number of examples per class. They are adjacent in the batch.
        centers: `ClassCenters`, which may contain more classes than the labels.
        candidates: number of classes, including the first, from which a batch is selected: `classes_per_batch` gives
            uniform classes, larger numbers give harder batches. By default 10 times `classes_per_batch`, or all
            classes.
        weighted: start each batch from a class with probability proportional to its `hardness`, instead of uniformly.
        short_classes: what to do with classes of fewer than `examples_per_class` examples: leave them out ("drop"),
            repeat their examples evenly ("repeat"), or raise a ValueError ("error").
        seed: any int64.

    Source: Sohn, Improved Deep Metric Learning with Multi-class N-pair Loss Objective, NIPS 2016, section 3.2.2. There
    a class is represented by one or two current examples; here by its center, refreshed periodically. `weighted` is
    not in the paper.
    """

    centers: ClassCenters
    candidates: int | None = None
    weighted: bool = False

    def __post_init__(self):
        super().__post_init__()
        if not isinstance(self.centers, ClassCenters):
            raise ValueError(f"Received centers={self.centers!r}, expected tfdml.samplers.ClassCenters(labels, dim).")
        if self.candidates is not None:
            require_whole("candidates", self.candidates, self.classes_per_batch)

    def prepare(self, labels: npt.ArrayLike) -> tuple[ClassTable, np.ndarray]:
        """The classes that can be drawn, as a `ClassTable`, and the place of each among the centers."""
        table = super().prepare(labels)
        if self.candidates is not None and self.candidates > len(table.ids):
            raise ValueError(
                f"Received candidates={self.candidates}, but only {len(table.ids)} classes can be drawn. Lower it."
            )
        return table, self.centers.places(table.ids)

    def block_steps(self, table: tuple[ClassTable, np.ndarray]) -> int:
        """Few steps, so that a refresh takes effect soon, and fewer with many candidates."""
        numbers = self._candidates(table) * self.centers.dim
        return min(super().block_steps(table), _BLOCK, max(1, _MAX_VALUES_PER_GATHER // numbers))

    def draw(self, table: tuple[ClassTable, tf.Tensor], steps: tf.Tensor) -> tf.Tensor:
        """The batches of `steps` as row numbers `(block, batch)`."""
        classes, places = table
        block, total, rows = steps.shape[0], places.shape[0], self.batch_size
        start, order, row_bits = tf.split(random_bits(self.seed, steps, 1 + total + rows), [1, total, rows], axis=1)
        if self.weighted:
            first = sample_categorical(start[:, 0], tf.cast(tf.gather(self.centers.hardness, places), tf.float64))
            order = tf.where(tf.range(total) == first[:, None], INT64.max, order)
        candidates = tf.math.top_k(order, self._candidates(table)).indices
        near = nearest_first(tf.gather(self.centers.centers, tf.gather(places, candidates)), self.classes_per_batch)
        chosen = tf.gather(candidates, near, batch_dims=1)
        row_bits = tf.reshape(row_bits, (block, self.classes_per_batch, self.examples_per_class))
        return tf.reshape(sample_rows(classes, chosen, row_bits), (block, rows))

    def _candidates(self, table):
        return self.candidates or min(10 * self.classes_per_batch, table[1].shape[0])


def nearest_first(vectors: tf.Tensor, count: int) -> tf.Tensor:
    """Places of `count` vectors: the first one, then repeatedly the nearest to any selected so far.

    Args:
        vectors: `(block, candidates, dim)` float32, at least `count` candidates.
        count: number of vectors to select.

    Returns:
        `(block, count)` int32, different places. Among equally near vectors, the first is selected.
    """
    vectors -= vectors[:, :1]  # Rounding errors then scale with the distances, not with the distance to the origin.
    squares = tf.reduce_sum(vectors**2, axis=-1)
    candidates = tf.range(vectors.shape[1])

    def add(i, distance, taken, places):
        nearest = tf.math.top_k(-distance, 1).indices  # `argmin` does not specify which of equal values it returns.
        taken |= candidates == nearest
        nearest = nearest[:, 0]
        dot = tf.linalg.matvec(vectors, tf.gather(vectors, nearest, batch_dims=1))
        to_added = squares - 2 * dot + tf.gather(squares, nearest, batch_dims=1)[:, None]
        distance = tf.where(taken, np.inf, tf.minimum(distance, to_added))
        return i + 1, distance, taken, places.write(i, nearest)

    places = tf.TensorArray(tf.int32, count, element_shape=(vectors.shape[0],))
    none = tf.zeros_like(squares, tf.bool)
    _, _, _, places = tf.while_loop(lambda i, *_: i < count, add, (0, squares, none, places))
    return tf.transpose(places.stack())


def _to_nearest(centers):
    """Distance of each center to the nearest other one, `(classes,)`; infinite for a single class."""
    centers = centers - centers.mean(axis=0)
    squares = np.sum(centers**2, axis=1)
    nearest = np.empty_like(squares)
    for start in range(0, len(centers), _CLASSES_PER_CHUNK):
        some = slice(start, start + _CLASSES_PER_CHUNK)
        d = -2 * centers[some] @ centers.T
        d += squares
        d[np.arange(len(d)), np.arange(start, start + len(d))] = np.inf
        nearest[some] = d.min(axis=1)
    return np.sqrt(np.maximum(nearest + squares, 0.0))


def _hardness(within, to_nearest):
    ratio = np.divide(within, to_nearest, out=np.full_like(within, np.inf), where=to_nearest > 0)
    known = ratio[(ratio > 0) & np.isfinite(ratio)]
    middle = np.median(known) if len(known) else 1.0
    return np.clip(ratio, middle / _MAX_HARDNESS_RATIO, middle * _MAX_HARDNESS_RATIO)
