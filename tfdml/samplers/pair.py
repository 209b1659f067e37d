"""p-random batches: lists of pairs, each positive with probability p."""

from dataclasses import dataclass
from numbers import Real

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import require, require_one_of, require_seed, require_whole
from tfdml.importance.probabilities import PairProbabilities, p_random_probabilities
from tfdml.pairs import consecutive_pairs
from tfdml.samplers.base import Sampler
from tfdml.samplers.class_table import ClassTable, class_counts, class_table
from tfdml.samplers.draws import random_bits, sample_rows, sample_without_replacement


@dataclass(frozen=True, kw_only=True)
class PairSampler(Sampler):
    """p-random batches: independent pairs, each from one class with probability p, otherwise from two classes.

    A positive pair is two examples of one class, without replacement; a negative pair is one example from each of two
    classes. Classes and examples are uniform. Rows 2k and 2k + 1 of a batch are a pair: pass `pairing=sampler.pairing`
    to the loss.

    See also: `ListSampler` for pairs without classes.

    Example:

        >>> labels = np.repeat(np.arange(4), 3)
        >>> sampler = tfdml.samplers.PairSampler(pairs_per_batch=4, positive_fraction=0.5, seed=0)
        >>> rows = sampler.index_batches(labels)[0]
        >>> labels[rows].reshape(4, 2).tolist()  # on average, half of the pairs are of one class
        [[2, 2], [1, 0], [2, 2], [0, 2]]

    Args:
        pairs_per_batch: number of pairs; a batch has twice as many rows.
        positive_fraction: p, in (0, 1).
        short_classes: what to do with classes of one example: leave them out ("drop"), draw them in negative pairs only
            ("negatives"), or raise a ValueError ("error").

    Source: Hong, Park and Kim, Deep Metric Learning via Weighted Contrastive Loss, section 4.1, eq. (8).
    """

    pairing = staticmethod(consecutive_pairs)

    pairs_per_batch: int
    positive_fraction: float
    short_classes: str = "drop"
    seed: int = 0

    def __post_init__(self):
        require_whole("pairs_per_batch", self.pairs_per_batch, 1)
        require_seed(self.seed)
        is_probability = isinstance(self.positive_fraction, Real) and 0 < self.positive_fraction < 1
        require(is_probability, f"positive_fraction={self.positive_fraction!r}", "a number above 0 and below 1")
        require_one_of(("drop", "negatives", "error"), short_classes=self.short_classes)

    @property
    def batch_size(self) -> int:
        """Rows in a batch: two for each pair."""
        return 2 * self.pairs_per_batch

    def prepare(self, labels: npt.ArrayLike) -> ClassTable:
        """The classes that can be drawn; classes of one example come last."""
        table = class_table(labels)
        single = table.counts == 1
        if self.short_classes == "error" and single.any():
            raise ValueError(
                f"Received labels with {single.sum()} classes of one example (class {table.ids[single][0]}), which "
                "have no positive pair. Leave these classes out, or pass short_classes='drop' or 'negatives'."
            )
        require(
            not single.all(),
            f"labels with {len(single)} classes of one example each",
            "one with two or more: there is no positive pair",
        )
        order = np.argsort(single, kind="stable")
        drawable = order[: len(single) - single.sum()] if self.short_classes == "drop" else order
        require(
            len(drawable) >= 2, f"labels with {len(drawable)} class that can be drawn", "two or more for negative pairs"
        )
        return table.select(drawable)

    def pair_probabilities(self, labels: npt.ArrayLike) -> PairProbabilities:
        """Q, eq. (8), for L classes that can be drawn, L_2 of them with two examples or more.

        Q(i, j) = p / (L_2 N_yi (N_yi - 1))              where y_i = y_j
        Q(i, j) = (1 - p) / (L (L - 1) N_yi N_yj)        otherwise
        """
        return p_random_probabilities(class_counts(self.prepare(labels)), positive_fraction=self.positive_fraction)

    def draw(self, table: ClassTable, steps: np.ndarray) -> np.ndarray:
        """The batches of `steps` as row numbers `(block, batch)`."""
        bits = random_bits(self.seed, steps, 5 * self.pairs_per_batch)
        bits = bits.reshape(-1, self.pairs_per_batch, 5)
        pair_classes = int(np.count_nonzero(table.counts > 1))  # the first ones
        is_positive = bits[..., 0] < (self.positive_fraction - 0.5) * 2.0**64
        one_class = sample_without_replacement(bits[..., 1:2], pair_classes)
        two_classes = sample_without_replacement(bits[..., 1:3], len(table.counts))
        positive = sample_rows(table, one_class[..., 0], bits[..., 3:5])
        negative = sample_rows(table, two_classes, bits[..., 3:5, None])[..., 0]
        return np.where(is_positive[..., None], positive, negative).reshape(-1, self.batch_size)
