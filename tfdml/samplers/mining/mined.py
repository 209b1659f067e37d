"""Batches of anchors with their hardest positives and negatives in the training set."""

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import (
    as_vectors,
    require,
    require_fraction,
    require_metric,
    require_number,
    require_seed,
    require_whole,
)
from tfdml.samplers.base import Sampler
from tfdml.samplers.class_table import class_table
from tfdml.samplers.draws import random_bits, sample_without_replacement
from tfdml.search.hard_pairs import FalseNegativeGuard, IndexBuilder, hardest_pairs, require_guard_or_none
from tfdml.search.scores import l2_normalize

_BLOCK = 8  # Steps drawn at once: few, so that new pairs reach the stream soon.
_SAMPLE = 1_000  # Triplets that estimate a share; its standard deviation is 0.016 at most.


class MinedPairs:
    """The hardest positives and negatives of every example of a training set, used by `MinedSampler`.

    `tfdml.callbacks.RefreshMinedPairs` calls `refresh` during `fit`; before, all are uniform draws with replacement.
    `numpy.save` saves its arrays, 8 bytes for each row number, and an array that is set takes effect.

    Example:

        >>> pairs = tfdml.samplers.MinedPairs([0, 0, 1, 1], positives=1, negatives=1, metric="euclidean")
        >>> pairs.refresh([[0.0], [1.0], [3.0], [7.0]])
        >>> pairs.positives.tolist(), pairs.negatives.tolist()
        ([[1], [0], [3], [2]], [[2], [2], [1], [1]])

    Args:
        labels: `(examples,)` integer class ids of the training set: two classes or more, one with two examples.
        positives, negatives: number of each per example. With few, the pairs are the hardest, but mislabeled examples
            are prominent; with more, they are easier and more diverse.
        metric: "cosine", "dot" or "euclidean", as in `tfdml.search.hardest_pairs`.
        seed: seed of the draws before the first refresh, any int64.
        guard: `tfdml.search.FalseNegativeGuard` that leaves out probable false negatives at every refresh; None for
            none. An example without a remaining negative keeps the negatives that it had.
        target: share of active triplets, those with d_ap + margin > d_an, above 0 and at most 1. Each refresh skips as
            few of the nearest negatives as possible, for all examples the same number, until at most this share is
            active, by an estimate from 1,000 triplets and before the rules of a guard. None: a refresh skips no
            negatives. The search finds the skipped ones, too, so it is slowest for an untrained model.
        margin: of these triplets, in the units of `tfdml.search.hardest_triplets`: 1 - s for "cosine".

    Attributes:
        positives: `(examples, positives)` int64 row numbers, farthest first, padded with -1.
        negatives: `(examples, negatives)` int64 row numbers, nearest first, padded with -1.
        refreshes: number of refreshes so far.
        rank: number of nearest negatives that the last refresh skipped for the target.

    Source: the target is after the adaptive controller of Harwood, Kumar, Carneiro, Reid, Drummond, Smart Mining for
    Deep Metric Learning, ICCV 2017, where the hardness changes by a step; here the share gives the rank.
    """

    def __init__(
        self,
        labels: npt.ArrayLike,
        *,
        positives: int = 5,
        negatives: int = 5,
        metric: Literal["cosine", "dot", "euclidean"] = "cosine",
        seed: int = 0,
        guard: FalseNegativeGuard | None = None,
        target: float | None = None,
        margin: float = 0.2,
    ):
        require_whole("positives", positives, 1)
        require_whole("negatives", negatives, 1)
        require_seed(seed)
        require_metric(metric)
        require_guard_or_none(guard)
        if target is not None:
            require_fraction(target=target)
        require_number("margin", margin)
        require(margin >= 0, f"margin={margin}", "a distance of 0 or more")
        table = class_table(labels)
        require(
            len(table.ids) >= 2 and table.counts.max() >= 2,
            f"{len(table.rows)} labels of {len(table.ids)} classes",
            "two classes or more, one of them with two examples or more: there is no triplet",
        )
        self.metric, self.guard, self.target, self.margin, self.rank = metric, guard, target, margin, 0
        self.classes = _class_index(table)
        generator = np.random.default_rng(int(seed) % 2**64)  # NumPy takes no negative seeds.
        self.positives, self.negatives = _random_pairs(table, positives, negatives, generator)
        self.refreshes = 0

    def __repr__(self):
        positives, negatives = self.positives.shape[1], self.negatives.shape[1]
        return f"<MinedPairs of {len(self.classes)} examples, positives={positives}, negatives={negatives}>"

    def refresh(self, embeddings: npt.ArrayLike, *, index: IndexBuilder = None) -> None:
        """Find the hardest pairs from embeddings `(examples, dim)` of the whole training set, in the labels' order.

        `tfdml.search.hardest_pairs` finds them, with the same `index`, memory and time.
        """
        require(
            np.shape(embeddings)[:1] == self.classes.shape,
            f"embeddings of shape {np.shape(embeddings)}",
            f"({len(self.classes)}, dim): all examples of the training set, in the order of its labels",
        )
        counts = {"positives": self.positives.shape[1], "negatives": self.negatives.shape[1]}
        guard = self.guard if self.target is None else self._guard_of_target(as_vectors(embeddings, "embeddings"))
        hardest = hardest_pairs(embeddings, self.classes, metric=self.metric, index=index, guard=guard, **counts)
        without_negatives = hardest.negatives[:, :1] < 0
        self.positives = hardest.positives
        self.negatives = np.where(without_negatives, self.negatives, hardest.negatives)
        self.refreshes += 1

    def _guard_of_target(self, x):
        """The guard, extended to skip the negatives that are too hard for the target; sets `rank`."""
        generator = np.random.default_rng(self.refreshes)
        nearer = _negatives_within(x, self.classes, self.positives.shape[1], self.margin, self.metric, generator)
        count = self.negatives.shape[1]
        most = max(0, len(x) - int(np.bincount(self.classes).max()) - count)  # Each example has `count` after them.
        self.rank = bisect_left(range(most), -self.target, key=lambda rank: -_share_of_active(nearer, rank, count))
        guard = self.guard or FalseNegativeGuard(candidates=count)
        return replace(guard, skip=max(guard.skip, self.rank))

    def require_labels(self, labels: npt.ArrayLike) -> None:
        """Raise a ValueError unless these labels partition the examples into the same classes."""
        if not np.array_equal(_class_index(class_table(labels)), self.classes):
            raise ValueError(
                f"Received {np.size(labels)} labels, which are not the labels of pairs={self!r}. Make the pairs "
                "from the same labels, in the same order."
            )


@dataclass(frozen=True, kw_only=True)
class MinedSampler(Sampler):
    """Batches of triplets: each anchor with one of its hardest positives and one of its hardest negatives.

    Rows 3k, 3k + 1 and 3k + 2 of a batch are a triplet. Anchors are uniform without replacement among the examples of
    classes of two or more. The positive and the negative are uniform among those that `pairs` holds for the anchor. An
    example may occur twice in a batch, for two anchors; a loss sees the two rows as a positive pair at distance 0.

    Any loss over `all_pairs` works; it also compares an anchor with the positives and negatives of other anchors.

    Batch t is a function of (seed, t) and of the mined pairs when it is drawn, ahead of the training step: as in
    `HardClassSampler`, a refresh takes effect some batches later, also in a resumed run.

    Q depends on the mined pairs and is 0 for most pairs, so importance weights cannot correct for the design.

    See also: `tfdml.miners` for hard pairs within a batch; `tfdml.callbacks.RefreshMinedPairs` during `fit`.

    Example:

        >>> labels = [0, 0, 1, 1]
        >>> pairs = tfdml.samplers.MinedPairs(labels, positives=1, negatives=1, metric="euclidean")
        >>> pairs.refresh([[0.0], [1.0], [3.0], [7.0]])
        >>> sampler = tfdml.samplers.MinedSampler(anchors_per_batch=2, pairs=pairs, seed=0)
        >>> sampler.index_batches(labels)[0].reshape(2, 3).tolist()  # anchor, positive, negative
        [[2, 3, 1], [1, 0, 2]]

    Args:
        anchors_per_batch: number of anchors; a batch has three times as many rows.
        pairs: `MinedPairs` of the same labels.

    Source: Schroff, Kalenichenko, Philbin, FaceNet, CVPR 2015, section 3.2, "generate triplets offline every n steps".
    """

    anchors_per_batch: int
    pairs: MinedPairs
    seed: int = 0

    def __post_init__(self):
        require_whole("anchors_per_batch", self.anchors_per_batch, 1)
        require_seed(self.seed)
        require(isinstance(self.pairs, MinedPairs), f"pairs={self.pairs!r}", "tfdml.samplers.MinedPairs(labels)")

    @property
    def batch_size(self) -> int:
        """Rows in a batch: three for each anchor."""
        return 3 * self.anchors_per_batch

    def prepare(self, labels: npt.ArrayLike) -> np.ndarray:
        """Row numbers `(anchors,)` of the examples that have a positive."""
        table = class_table(labels)
        self.pairs.require_labels(labels)
        anchors = table.rows[np.repeat(table.counts > 1, table.counts)]
        if self.anchors_per_batch > len(anchors):
            raise ValueError(
                f"Received anchors_per_batch={self.anchors_per_batch}, but only {len(anchors)} examples are of classes "
                "of two or more. Lower it."
            )
        return anchors

    def block_steps(self, table: np.ndarray) -> int:
        """Few steps, so that a refresh takes effect soon."""
        return min(super().block_steps(table), _BLOCK)

    def draw(self, table: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """The batches of `steps` as row numbers `(block, batch)`."""
        bits = random_bits(self.seed, steps, 3 * self.anchors_per_batch)
        anchor_bits, positive_bits, negative_bits = np.split(bits, 3, axis=1)
        anchor = table[sample_without_replacement(anchor_bits, len(table))]
        positive = _random_choice(self.pairs.positives[anchor], positive_bits)
        negative = _random_choice(self.pairs.negatives[anchor], negative_bits)
        return np.stack([anchor, positive, negative], axis=-1).reshape(-1, self.batch_size)


def _random_choice(rows, bits):
    """A random one of the rows `(block, anchors, n)` of each anchor, `(block, anchors)`; rows of -1 are padding."""
    num_valid = np.count_nonzero(rows >= 0, axis=-1)
    return np.take_along_axis(rows, (bits % num_valid)[..., None], axis=-1)[..., 0]


def _share_of_active(nearer, rank, count):
    """Share of active triplets whose negative is uniform among the `count` nearest after the first `rank`."""
    return np.clip((nearer - rank) / count, 0.0, 1.0).mean()


def _negatives_within(x, classes, positives, margin, metric, generator):
    """Number of negatives nearer than d_ap + margin, for random a and p of the `positives` farthest: `(sample,)`."""
    x = l2_normalize(x) if metric == "cosine" else x
    anchors = np.flatnonzero(np.bincount(classes)[classes] > 1)
    nearer = []
    for anchor in generator.permutation(anchors)[:_SAMPLE]:
        d = np.linalg.norm(x - x[anchor], axis=1) if metric == "euclidean" else -(x @ x[anchor])
        is_positive = classes == classes[anchor]
        is_positive[anchor] = False
        farthest = np.sort(d[is_positive])[-positives:]
        nearer.append(np.count_nonzero(d[classes != classes[anchor]] < generator.choice(farthest) + margin))
    return np.array(nearer)


def _class_index(table):
    index = np.empty_like(table.rows)
    index[table.rows] = np.repeat(np.arange(len(table.ids)), table.counts)
    return index


def _random_pairs(table, positives, negatives, generator):
    """Uniform positives `(examples, positives)` and negatives `(examples, negatives)`; -1 for a class of one."""
    examples = len(table.rows)
    index = np.arange(examples)[:, None]  # in the table; positives and negatives come after it and after its class
    start, count = (np.repeat(values, table.counts)[:, None] for values in (table.starts, table.counts))
    steps = generator.integers(np.maximum(count - 1, 1), size=(examples, positives))
    positive = table.rows[start + (index - start + 1 + steps) % count]
    steps = generator.integers(examples - count, size=(examples, negatives))
    negative = table.rows[(start + count + steps) % examples]
    by_row = np.argsort(table.rows)
    return np.where(count > 1, positive, -1)[by_row], negative[by_row]
