"""Batches of anchors with their hardest positives and negatives of the training set, as the model has them now."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfdml._checks import require_metric, require_seed, require_whole
from tfdml.miners.offline import hardest_pairs
from tfdml.samplers.base import Sampler
from tfdml.samplers.class_table import class_table
from tfdml.samplers.draws import choose, random_words

_BLOCK = 8  # Steps drawn at once: few, so that new neighbours reach the stream soon.


class HardNeighbours(tf.Module):
    """The hardest positives and negatives of every example of a training set: what `MinedSampler` draws by.

    `refresh` takes the embeddings of the whole set; `tfdml.callbacks.RefreshNeighbours` does it during `fit`. Before
    the first refresh nothing is known: the positives and negatives of each example are uniform draws, with replacement,
    from the other examples of its class and from those of all other classes.

    Memory: 8 bytes for each of the examples x (positives + negatives) row numbers.

    Example:

        neighbours = tfdml.samplers.HardNeighbours(train.labels, positives=2, negatives=10)
        tf.train.Checkpoint(neighbours=neighbours).write(path)  # if they are to be kept

    Args:
        labels: `(examples,)` integer class ids of the training set, of two classes or more, one of them with two
            examples or more.
        positives, negatives: how many of each are kept of every example. Few are the hardest, and with them the
            mislabelled; more are easier and more diverse.
        metric: "cosine", "dot" or "euclidean", as in `tfdml.miners.offline.hardest_pairs`.
        seed: of the draws before the first refresh, any whole number of at least 0.

    Attributes:
        positives: variable `(examples, positives)` int64 row numbers, the farthest first; -1 after the last where the
            class has no more.
        negatives: variable `(examples, negatives)` int64 row numbers, the nearest first; -1 after the last where other
            classes have no more.
        refreshes: variable, int64: how many refreshes there have been.

    Raises:
        ValueError: labels that are not integers or have no triplet, a number below 1, or an unknown metric.
    """

    def __init__(
        self,
        labels: npt.ArrayLike,
        *,
        positives: int = 5,
        negatives: int = 5,
        metric: Literal["cosine", "dot", "euclidean"] = "cosine",
        seed: int = 0,
    ):
        super().__init__()
        require_whole("positives", positives, 1)
        require_whole("negatives", negatives, 1)
        require_whole("seed", seed, 0)
        require_metric(metric)
        table = class_table(labels)
        if len(table.ids) < 2 or table.counts.max() < 2:
            raise ValueError(
                f"Received {len(table.rows)} labels of {len(table.ids)} classes, expected two classes or more, one of "
                "them with two examples or more: there is no triplet."
            )
        self.metric = metric
        self.classes = _classes(labels)
        random = _random_neighbours(table, positives, negatives, np.random.default_rng(seed))
        with tf.device("CPU:0"):  # Where `tf.data` works.
            self.positives, self.negatives = (tf.Variable(rows, trainable=False) for rows in random)
            self.refreshes = tf.Variable(tf.zeros((), tf.int64), trainable=False)

    def __repr__(self):
        positives, negatives = self.positives.shape[1], self.negatives.shape[1]
        return f"<HardNeighbours of {len(self.classes)} examples, positives={positives}, negatives={negatives}>"

    def refresh(self, embeddings: npt.ArrayLike, *, search: Callable[..., Any] | None = None) -> None:
        """Take the hardest positives and negatives from the embeddings of the whole training set.

        Memory and time are those of `tfdml.miners.offline.hardest_pairs`.

        Args:
            embeddings: `(examples, dim)`, in the order of the labels.
            search: None for `tfdml.search.Exact`, or `tfdml.search.Scann`, or any function `(vectors, metric=...)` of
                an index.

        Raises:
            ValueError: embeddings of another number of examples or that are not finite.
        """
        if np.shape(embeddings)[:1] != self.classes.shape:
            raise ValueError(
                f"Received embeddings of shape {np.shape(embeddings)}, expected ({len(self.classes)}, dim): all "
                "examples of the training set, in the order of its labels."
            )
        positives, negatives = self.positives.shape[1], self.negatives.shape[1]
        found = hardest_pairs(
            embeddings, self.classes, positives=positives, negatives=negatives, metric=self.metric, search=search
        )
        self.positives.assign(found.positives)
        self.negatives.assign(found.negatives)
        self.refreshes.assign_add(1)

    def require_labels(self, labels: npt.ArrayLike) -> None:
        """Raise a ValueError unless these labels divide the examples into the same classes."""
        if not np.array_equal(_classes(labels), self.classes):
            raise ValueError(
                f"Received {np.size(labels)} labels, which are not those of neighbours={self!r}. Make the neighbours "
                "from the same labels, in the same order."
            )


@dataclass(frozen=True, kw_only=True)
class MinedSampler(Sampler):
    """Batches of triplets: each anchor, one of its hardest positives and one of its hardest negatives, side by side.

    Rows 3k, 3k + 1 and 3k + 2 of a batch are a triplet. Anchors are uniform without replacement among the examples of
    classes of two or more; an example that is alone in its class comes as a negative only. The positive and the
    negative are uniform among those that `neighbours` keeps of the anchor. An example may come twice in a batch, as the
    neighbour of two anchors or as anchor and neighbour; a loss takes the two as a positive pair at distance 0.

    Every loss over `all_pairs` works, and compares an anchor with the neighbours of other anchors, too.

    Batch t is a function of (seed, t) and of the neighbours at the time it is drawn. That is ahead of the training
    step: some batches are drawn at once (8 at most, and as many ahead), and `batches` keeps others ready, so a refresh
    shows some batches later. A run that resumes with `start=` goes on from a defined state, but not bit by bit, as its
    first batches are drawn by neighbours of the model it resumes with.

    Q has no closed form, as it depends on the neighbours, and most pairs never come: no importance weights undo it.

    Example:

        neighbours = tfdml.samplers.HardNeighbours(labels, positives=2, negatives=10)
        sampler = tfdml.samplers.MinedSampler(anchors_per_batch=32, neighbours=neighbours)
        refresh = tfdml.callbacks.RefreshNeighbours(neighbours, images, labels)
        model.fit(sampler.batches(images, labels), steps_per_epoch=200, epochs=10, callbacks=[refresh])

    Args:
        anchors_per_batch: number of anchors; a batch has three times as many rows.
        neighbours: `HardNeighbours` of the same labels.
        seed: any int64.

    Source: Schroff, Kalenichenko, Philbin, FaceNet, CVPR 2015, section 3.2, "generate triplets offline every n steps".
    """

    anchors_per_batch: int
    neighbours: HardNeighbours
    seed: int = 0

    def __post_init__(self):
        require_whole("anchors_per_batch", self.anchors_per_batch, 1)
        require_seed(self.seed)
        if not isinstance(self.neighbours, HardNeighbours):
            raise ValueError(
                f"Received neighbours={self.neighbours!r}, expected tfdml.samplers.HardNeighbours(labels)."
            )

    @property
    def batch_size(self) -> int:
        """Rows in a batch: three for each anchor."""
        return 3 * self.anchors_per_batch

    def class_table(self, labels: npt.ArrayLike) -> np.ndarray:
        """Row numbers `(anchors,)` of the examples that have a positive: all that a draw has to know of the labels."""
        table = class_table(labels)
        self.neighbours.require_labels(labels)
        anchors = table.rows[np.repeat(table.counts > 1, table.counts)]
        if self.anchors_per_batch > len(anchors):
            raise ValueError(
                f"Received anchors_per_batch={self.anchors_per_batch}, but only {len(anchors)} examples are of classes "
                "of two or more. Lower it."
            )
        return anchors

    def block_steps(self, table: np.ndarray) -> int:
        """Few steps, so that a refresh shows soon."""
        return min(super().block_steps(table), _BLOCK)

    def draw(self, table: tf.Tensor, steps: tf.Tensor) -> tf.Tensor:
        """The batches of `steps` as row numbers `(block, batch)`."""
        words = random_words(self.seed, steps, 3 * self.anchors_per_batch)
        of_anchor, of_positive, of_negative = tf.split(words, 3, axis=1)
        anchor = tf.gather(table, choose(of_anchor, tf.constant(table.shape[0], tf.int64)))
        positive = _one_of(tf.gather(self.neighbours.positives, anchor), of_positive)
        negative = _one_of(tf.gather(self.neighbours.negatives, anchor), of_negative)
        return tf.reshape(tf.stack([anchor, positive, negative], axis=-1), (steps.shape[0], self.batch_size))


def _one_of(kept, words):
    """One row number each of those that are kept, `(block, anchors)`; -1 after the last of `(block, anchors, kept)`."""
    number = tf.reduce_sum(tf.cast(kept >= 0, tf.int64), axis=-1)
    return tf.gather(kept, tf.math.floormod(words, number), batch_dims=2)


def _classes(labels):
    """Which class each example is of, `(examples,)`, as its place in the order of the ids."""
    table = class_table(labels)
    classes = np.empty_like(table.rows)
    classes[table.rows] = np.repeat(np.arange(len(table.ids)), table.counts)
    return classes


def _random_neighbours(table, positives, negatives, generator):
    """Uniform positives `(examples, positives)` and negatives `(examples, negatives)`; -1 for a class of one."""
    examples = len(table.rows)
    place = np.arange(examples)[:, None]  # In the order of the classes, where the examples of a class are side by side.
    start, count = (np.repeat(numbers, table.counts)[:, None] for numbers in (table.starts, table.counts))
    others = generator.integers(np.maximum(count - 1, 1), size=(examples, positives))
    others = start + (place - start + 1 + others) % count  # The class goes round: the others follow the example,
    strangers = generator.integers(examples - count, size=(examples, negatives))
    strangers = (start + count + strangers) % examples  # and the other classes follow the class.
    row = np.argsort(table.rows)  # The place of each row.
    return np.where(count > 1, table.rows[others], -1)[row], table.rows[strangers][row]
