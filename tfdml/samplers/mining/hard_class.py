"""Batches of classes that are close in the current embedding space."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_vectors, require, require_whole
from tfdml.pairs.products import l2_normalize
from tfdml.samplers.base import ClassBalancedSampler
from tfdml.samplers.class_table import ClassTable, class_table
from tfdml.samplers.draws import first_distinct, random_bits, sample_rows

_BLOCK = 8  # Steps drawn at once: few, so that new centers reach the stream soon.
_MAX_VALUES_PER_GATHER = 2**21  # Coordinates of candidates' centers gathered at once.
# Up to this number of candidates, and from this number of classes for each, candidates are drawn without an integer for
# every class.
_MAX_FEW = 512
_CLASSES_PER_FEW = 32


class ClassCenters:
    """Class centers in the embedding space, used by `HardClassSampler`.

    `tfdml.callbacks.RefreshCenters` calls `refresh` during `fit`. Before the first refresh all centers are the origin.
    `numpy.save(path, centers.centers)` saves them, and `centers.centers = numpy.load(path)` sets them.

    Example:

        >>> centers = tfdml.samplers.ClassCenters([0, 0, 1, 1, 2, 2], dim=1, normalize=False)
        >>> centers.refresh([[0.0], [2.0], [4.0], [6.0], [23.0], [27.0]], [0, 0, 1, 1, 2, 2])
        >>> centers.centers.tolist()
        [[1.0], [5.0], [25.0]]

    Args:
        labels: `(examples,)` integer class ids of the training set.
        dim: dimension of the embeddings.
        normalize: normalize embeddings to length 1 first; False for losses of plain Euclidean distances.

    Attributes:
        ids: `(classes,)` int64 class ids in ascending order.
        centers: `(classes, dim)` float32, the mean embedding of each class.
        refreshes: number of refreshes so far.
    """

    def __init__(self, labels: npt.ArrayLike, dim: int, *, normalize: bool = True):
        require_whole("dim", dim, 1)
        self.ids = class_table(labels).ids
        self.normalize = normalize
        self.centers = np.zeros((len(self.ids), dim), np.float32)
        self.refreshes = 0

    def __repr__(self):
        return f"<ClassCenters of {self.centers.shape[0]} classes, dim={self.dim}>"

    @property
    def dim(self) -> int:
        """Dimension of the embeddings."""
        return self.centers.shape[1]

    def refresh(self, embeddings: npt.ArrayLike, labels: npt.ArrayLike) -> None:
        """Compute the centers from embeddings `(examples, dim)` of every class, with labels of the classes `ids`."""
        table = class_table(labels)
        different = np.setxor1d(table.ids, self.ids)
        if different.size:
            raise ValueError(
                f"Received {len(table.ids)} classes, expected exactly the {len(self.ids)} of these centers; class "
                f"{different[0]} is in only one of the two."
            )
        x = as_vectors(embeddings, "embeddings")
        require(
            x.shape == (len(table.rows), self.dim),
            f"embeddings of shape {x.shape} and {len(table.rows)} labels with dim={self.dim}",
            f"{(len(table.rows), self.dim)}",
        )
        x = l2_normalize(x) if self.normalize else x
        sums = np.add.reduceat(x[table.rows], table.starts)
        self.centers = sums / table.counts.astype("float32")[:, None]
        self.refreshes += 1

    def index_of(self, ids: np.ndarray) -> np.ndarray:
        """The index of each class id among the centers; raise a ValueError for an unknown one."""
        index = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        unknown = ids[self.ids[index] != ids]
        if unknown.size:
            raise ValueError(
                f"Received labels with class {unknown[0]}, which is not in centers={self!r}. Make the centers from the "
                "same labels."
            )
        return index


@dataclass(frozen=True, kw_only=True)
class HardClassSampler(ClassBalancedSampler):
    """Batches of classes that the model confuses: each class is the nearest candidate to the classes before it.

    A batch starts with one class and a random set of candidates. It then repeatedly adds the candidate whose center is
    nearest to a center of the batch; random choice among ties. The examples of each class are uniform without
    replacement. Before the first refresh of `centers`, classes are uniform as in `GroupSampler`.

    Batch t is a function of (seed, t) and of the centers when it is drawn: up to 16 batches, and those that `batches`
    prefetches, ahead of the training step. A refresh takes effect that many batches later. The first batches of a run
    resumed with `start=` are drawn with the centers of the resumed model, and so differ from an uninterrupted run.

    Q depends on the centers and has no closed form. For fixed centers `tfdml.importance.simulated_probabilities`
    estimates it, if there are few enough candidates for every pair of classes to be drawn.

    See also: `MinedSampler` for hard examples; `tfdml.callbacks.RefreshCenters` during `fit`.

    Example:

        >>> labels = np.array([0, 0, 1, 1, 2, 2, 3, 3])  # the centers of classes 0 and 1, and of 2 and 3, are near
        >>> centers = tfdml.samplers.ClassCenters(labels, dim=1, normalize=False)
        >>> centers.refresh([[0.0], [0.0], [1.0], [1.0], [8.0], [8.0], [9.0], [9.0]], labels)
        >>> sampler = tfdml.samplers.HardClassSampler(classes_per_batch=2, examples_per_class=2, centers=centers)
        >>> [labels[rows].tolist() for rows in sampler.index_batches(labels)[:3]]
        [[1, 1, 0, 0], [1, 1, 0, 0], [3, 3, 2, 2]]

    Args:
        classes_per_batch, examples_per_class, short_classes: as in `GroupSampler`.
        centers: `ClassCenters` of at least the classes of the labels.
        candidates: number of candidate classes of a batch, including the first: `classes_per_batch` gives uniform
            classes, larger numbers give harder batches. By default 10 times as many, or all.

    Source: Sohn, Improved Deep Metric Learning with Multi-class N-pair Loss Objective, NIPS 2016, section 3.2.2. There
    a class is represented by one or two current examples; here by its center, refreshed periodically.
    """

    centers: ClassCenters
    candidates: int | None = None

    def __post_init__(self):
        super().__post_init__()
        expected = "tfdml.samplers.ClassCenters(labels, dim)"
        require(isinstance(self.centers, ClassCenters), f"centers={self.centers!r}", expected)
        if self.candidates is not None:
            require_whole("candidates", self.candidates, self.classes_per_batch)

    def prepare(self, labels: npt.ArrayLike) -> tuple[ClassTable, np.ndarray]:
        """The classes that can be drawn, as a `ClassTable`, and the index of each among the centers."""
        table = super().prepare(labels)
        if self.candidates is not None and self.candidates > len(table.ids):
            raise ValueError(
                f"Received candidates={self.candidates}, but only {len(table.ids)} classes can be drawn. Lower it."
            )
        return table, self.centers.index_of(table.ids)

    def block_steps(self, table: tuple[ClassTable, np.ndarray]) -> int:
        """Few steps, so that a refresh takes effect soon, and fewer with many candidates."""
        values_per_step = self._num_candidates(table) * self.centers.dim
        return min(super().block_steps(table), _BLOCK, max(1, _MAX_VALUES_PER_GATHER // values_per_step))

    def draw(self, table: tuple[ClassTable, np.ndarray], steps: np.ndarray) -> np.ndarray:
        """The batches of `steps` as row numbers `(block, batch)`."""
        classes, center_index = table
        num_classes, num_candidates = len(center_index), self._num_candidates(table)
        is_few = num_candidates <= min(_MAX_FEW, num_classes // _CLASSES_PER_FEW)
        # That many draws hold the candidates as different classes, but for a probability below 1e-20.
        num_draws = num_candidates + num_candidates // 8 + 64 if is_few else num_classes
        bits = random_bits(self.seed, steps, 1 + num_draws + self.batch_size)
        class_bits, row_bits = np.split(bits[:, 1:], [num_draws], axis=1)
        if is_few:
            candidates = first_distinct(class_bits % num_classes, num_candidates)
        else:  # those with the largest of one random integer per class
            candidates = np.argsort(~class_bits, axis=1, kind="stable")[:, :num_candidates]
        vectors = self.centers.centers[center_index[candidates]]
        chosen = np.take_along_axis(candidates, nearest_first(vectors, self.classes_per_batch), axis=1)
        row_bits = row_bits.reshape(*chosen.shape, self.examples_per_class)
        return sample_rows(classes, chosen, row_bits).reshape(-1, self.batch_size)

    def _num_candidates(self, table):
        return self.candidates or min(10 * self.classes_per_batch, len(table[1]))


def nearest_first(vectors: np.ndarray, count: int) -> np.ndarray:
    """Indices `(block, count)` of vectors: the first, then each that is nearest to any selected, the first of ties."""
    vectors = vectors - vectors[:, :1]  # Rounding errors then scale with the distances, not with the distance to 0.
    block, squares = np.arange(len(vectors)), np.sum(vectors**2, axis=-1)
    distance, selected = squares.copy(), np.zeros((len(vectors), count), np.int64)
    distance[:, 0] = np.inf
    for number in range(1, count):
        nearest = selected[:, number] = np.argmin(distance, axis=1)
        dot = (vectors @ vectors[block, nearest][:, :, None])[..., 0]
        np.minimum(distance, squares - 2 * dot + squares[block, nearest, None], out=distance)
        np.put_along_axis(distance, selected[:, : number + 1], np.inf, axis=1)
    return selected
