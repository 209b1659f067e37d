"""Batches of classes that are near each other in the space of the embeddings, as the model has them now."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfdml._checks import INT64, as_unmasked, require_whole
from tfdml.importance import PairProbabilities
from tfdml.samplers.base import GroupedSampler
from tfdml.samplers.class_table import ClassTable, class_table
from tfdml.samplers.draws import choose_rows, pick, random_words

_BLOCK = 8  # Steps drawn at once: few, so that new centres reach the stream soon.
_GATHERED = 2**21  # Numbers of candidates' centres gathered at once.
_CHUNK = 256  # Classes compared with all others at once.
_RANGE = 1000  # Hardness is kept within so many times its median.


class ClassCentres(tf.Module):
    """Where each class is in the space of the embeddings: what `HardClassSampler` draws by.

    `refresh` takes embeddings of some examples of every class; `tfdml.callbacks.RefreshCentres` does it during `fit`.
    Before the first refresh nothing is known: all centres are the origin, and all classes equally hard.

    Example:

        centres = tfdml.samplers.ClassCentres(train.labels, dim=64)
        tf.train.Checkpoint(centres=centres).write(path)  # if they are to be kept

    Args:
        labels: `(examples,)` integer class ids of the training set.
        dim: numbers in an embedding.
        normalize: embeddings are brought to length 1 first, as most losses and cosine retrieval do; False for losses
            of plain Euclidean distances.

    Attributes:
        ids: `(classes,)` int64 class ids in ascending order.
        centres: variable `(classes, dim)` float32, the mean embedding of each class.
        within: variable `(classes,)` float32, the mean distance of a class's examples to its centre.
        hardness: variable `(classes,)` float32, `within` over the distance to the nearest other centre. Values beyond
            a factor of 1,000 from the median are moved there, so that classes seen by one example keep a chance, and
            those that coincide do not take all.
        refreshes: variable, int64: how many refreshes there have been.
    """

    def __init__(self, labels: npt.ArrayLike, dim: int, *, normalize: bool = True):
        super().__init__()
        require_whole("dim", dim, 1)
        self.ids = class_table(labels).ids
        self.normalize = normalize
        with tf.device("CPU:0"):  # Where `tf.data` works.
            self.centres = tf.Variable(tf.zeros((len(self.ids), dim)), trainable=False)
            self.within = tf.Variable(tf.zeros(len(self.ids)), trainable=False)
            self.hardness = tf.Variable(tf.ones(len(self.ids)), trainable=False)
            self.refreshes = tf.Variable(tf.zeros((), tf.int64), trainable=False)

    def __repr__(self):
        return f"<ClassCentres of {self.centres.shape[0]} classes, dim={self.dim}>"

    @property
    def dim(self) -> int:
        """Numbers in an embedding."""
        return self.centres.shape[1]

    def refresh(self, embeddings: npt.ArrayLike, labels: npt.ArrayLike) -> None:
        """Take the centres from examples of every class.

        Time grows with the square of the number of classes, memory does not.

        Args:
            embeddings: `(examples, dim)`.
            labels: `(examples,)` integer class ids, all the classes of `ids` and no other.

        Raises:
            ValueError: embeddings of another shape or that are not finite, or other classes.
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
                f"Received {len(table.ids)} classes, expected the {len(self.ids)} of these centres and no other; class "
                f"{different[0]} is in one of the two only."
            )
        if self.normalize:
            x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
        x, counts = x[table.rows], table.counts.astype("float32")
        centres = np.add.reduceat(x, table.starts) / counts[:, None]
        away = np.linalg.norm(x - np.repeat(centres, table.counts, axis=0), axis=1)
        within = np.add.reduceat(away, table.starts) / counts
        self.centres.assign(centres)
        self.within.assign(within)
        self.hardness.assign(_hardness(within, _to_nearest(centres)))
        self.refreshes.assign_add(1)

    def places(self, ids: np.ndarray) -> np.ndarray:
        """The place of each class id among `ids`; raises a ValueError for one that is unknown."""
        place = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        unknown = self.ids[place] != ids
        if unknown.any():
            raise ValueError(
                f"Received labels with class {ids[unknown][0]}, which centres={self!r} do not know. Make the centres "
                "from the same labels."
            )
        return place


@dataclass(frozen=True, kw_only=True)
class HardClassSampler(GroupedSampler):
    """Batches of classes that the model confuses: each next class is the nearest to one that is there already.

    A batch starts from one class. Of a random set of candidates, it then takes again and again the class whose centre
    is nearest to a centre of the batch, the one that violates the triplet constraint most, with ties broken by chance.
    The examples of each class are uniform without replacement. As long as `centres` were not refreshed, all ties are
    broken by chance, and batches are those of `GroupSampler`: uniform classes.

    Batch t is a function of (seed, t) and of the centres at the time it is drawn. That is ahead of the training step:
    some batches are drawn at once (8 at most, and as many ahead), and `batches` keeps others ready, so a refresh shows
    some batches later. A run that resumes with `start=` goes on from a defined state, but not bit by bit, as its first
    batches are drawn by centres of the model it resumes with.

    Q has no closed form, as it depends on the centres. For centres that stay, `tfdml.importance.simulated` estimates
    it, if few enough candidates let every pair of classes come.

    Example:

        centres = tfdml.samplers.ClassCentres(labels, dim=64)
        sampler = tfdml.samplers.HardClassSampler(classes_per_batch=16, examples_per_class=2, centres=centres)
        refresh = tfdml.callbacks.RefreshCentres(centres, images, labels)
        model.fit(sampler.batches(images, labels), steps_per_epoch=200, epochs=10, callbacks=[refresh])

    Args:
        classes_per_batch: number of classes, those near each other one after another.
        examples_per_class: examples of each. They are adjacent in the batch.
        centres: `ClassCentres`, which may know more classes than the labels have.
        candidates: how many classes, the first included, a batch picks from: as many as `classes_per_batch` for
            uniform classes, more for harder batches. By default 10 times as many, or all there are.
        weighted: a batch starts from a class with probability proportional to its `hardness`, instead of uniformly.
        short_classes: classes with fewer than `examples_per_class` examples are left out ("drop"), stay, with each
            example evenly often in the batch ("repeat"), or are a ValueError ("error").
        seed: any int64.

    Source: Sohn, Improved Deep Metric Learning with Multi-class N-pair Loss Objective, NIPS 2016, section 3.2.2. There
    a class is seen by one or two examples of the moment, here by its centre, refreshed now and then. `weighted` is not
    of the paper.
    """

    centres: ClassCentres
    candidates: int | None = None
    weighted: bool = False

    def __post_init__(self):
        super().__post_init__()
        if not isinstance(self.centres, ClassCentres):
            raise ValueError(f"Received centres={self.centres!r}, expected tfdml.samplers.ClassCentres(labels, dim).")
        if self.candidates is not None:
            require_whole("candidates", self.candidates, self.classes_per_batch)

    def class_table(self, labels: npt.ArrayLike) -> tuple[ClassTable, np.ndarray]:
        """The classes that may be drawn, as a `ClassTable`, and the place of each among the centres."""
        table = super().class_table(labels)
        if self.candidates is not None and self.candidates > len(table.ids):
            raise ValueError(
                f"Received candidates={self.candidates}, but only {len(table.ids)} classes may be drawn. Lower it."
            )
        return table, self.centres.places(table.ids)

    def pair_probabilities(self, labels: npt.ArrayLike) -> PairProbabilities:
        """A ValueError: Q depends on the centres."""
        return super(GroupedSampler, self).pair_probabilities(labels)

    def block_steps(self, table: tuple[ClassTable, np.ndarray]) -> int:
        """Few steps, and fewer with many candidates."""
        numbers = self._candidates(table) * self.centres.dim
        return min(super().block_steps(table), _BLOCK, max(1, _GATHERED // numbers))

    def draw(self, table: tuple[ClassTable, tf.Tensor], steps: tf.Tensor) -> tf.Tensor:
        """The batches of `steps` as row numbers `(block, batch)`."""
        classes, places = table
        block, total, rows = steps.shape[0], places.shape[0], self.batch_size
        start, order, of_each = tf.split(random_words(self.seed, steps, 1 + total + rows), [1, total, rows], axis=1)
        if self.weighted:
            first = pick(start[:, 0], tf.cast(tf.gather(self.centres.hardness, places), tf.float64))
            order = tf.where(tf.range(total) == first[:, None], INT64.max, order)
        candidates = tf.math.top_k(order, self._candidates(table)).indices
        near = nearest_first(tf.gather(self.centres.centres, tf.gather(places, candidates)), self.classes_per_batch)
        chosen = tf.gather(candidates, near, batch_dims=1)
        of_each = tf.reshape(of_each, (block, self.classes_per_batch, self.examples_per_class))
        return tf.reshape(choose_rows(classes, chosen, of_each), (block, rows))

    def _candidates(self, table):
        return self.candidates or min(10 * self.classes_per_batch, table[1].shape[0])


def nearest_first(vectors: tf.Tensor, count: int) -> tf.Tensor:
    """Places of `count` vectors: the first one, then again and again the nearest to any that is there already.

    Args:
        vectors: `(block, candidates, dim)` float32, at least `count` candidates.
        count: how many.

    Returns:
        `(block, count)` int32, different places. Of two that are equally near, the one that comes first is taken.
    """
    vectors -= vectors[:, :1]  # Rounding is then that of distances, wherever the vectors are.
    squares = tf.reduce_sum(vectors**2, axis=-1)
    candidates = tf.range(vectors.shape[1])

    def add(i, distance, taken, places):
        nearest = tf.math.top_k(-distance, 1).indices  # `argmin` leaves open which of two equal ones it finds.
        taken |= candidates == nearest
        nearest = nearest[:, 0]
        dot = tf.linalg.matvec(vectors, tf.gather(vectors, nearest, batch_dims=1))
        to_nearest = squares - 2 * dot + tf.gather(squares, nearest, batch_dims=1)[:, None]
        distance = tf.where(taken, np.inf, tf.minimum(distance, to_nearest))
        return i + 1, distance, taken, places.write(i, nearest)

    places = tf.TensorArray(tf.int32, count, element_shape=(vectors.shape[0],))
    none = tf.zeros_like(squares, tf.bool)
    _, _, _, places = tf.while_loop(lambda i, *_: i < count, add, (0, squares, none, places))
    return tf.transpose(places.stack())


def _to_nearest(centres):
    """Distance of each centre to the nearest other one, `(classes,)`; infinite for a single class."""
    centres = centres - centres.mean(axis=0)
    squares = np.sum(centres**2, axis=1)
    nearest = np.empty_like(squares)
    for start in range(0, len(centres), _CHUNK):
        some = slice(start, start + _CHUNK)
        d = -2 * centres[some] @ centres.T
        d += squares
        d[np.arange(len(d)), np.arange(start, start + len(d))] = np.inf
        nearest[some] = d.min(axis=1)
    return np.sqrt(np.maximum(nearest + squares, 0.0))


def _hardness(within, to_nearest):
    ratio = np.divide(within, to_nearest, out=np.full_like(within, np.inf), where=to_nearest > 0)
    known = ratio[(ratio > 0) & np.isfinite(ratio)]
    middle = np.median(known) if len(known) else 1.0
    return np.clip(ratio, middle / _RANGE, middle * _RANGE)
