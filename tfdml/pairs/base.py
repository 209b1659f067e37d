"""The record of pairs: anchors compared with references, and a weight for each pair."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

Tensor: TypeAlias = Any  # of the Keras backend, or an array that becomes one


class Pairs(NamedTuple):
    """Anchors against references, with a weight for every positive and every negative pair.

    A `NamedTuple`, so it never changes (`pairs._replace(negative=...)` makes another one) and passes through
    `tf.function`, `jax.jit` and gradients as it is.

    Attributes:
        anchors: `(anchors, dim)` float embeddings.
        references: None for a batch against itself: the references are the anchors, whatever replaces them. Otherwise
            `(references, dim)` embeddings that every anchor is compared with, or `(anchors, references, dim)` where
            each anchor has its own references.
        anchor_labels: `(anchors,)` integer class ids.
        reference_labels: `(references,)` or `(anchors, references)` integer class ids.
        positive: `(anchors, references)` non-negative weights of same-class pairs, 0 where there is no such pair.
        negative: the same for pairs of different classes. A row compared with itself is 0 in both.
        counts: `(anchors, references)`, how many pairs each entry stands for where a mean divides by their number, or
            None: one wherever a weight is not 0. A miner that draws pairs sets it, to how often it drew each.
    """

    anchors: Tensor
    references: Tensor | None
    anchor_labels: Tensor
    reference_labels: Tensor
    positive: Tensor
    negative: Tensor
    counts: Tensor | None = None

    @property
    def within(self) -> bool:
        """Whether this is a batch against itself. It is part of the structure: a plain bool in compiled functions."""
        return self.references is None

    @property
    def others(self) -> Tensor:
        """What the anchors are compared with: the references, or the anchors of a batch against itself."""
        return self.anchors if self.within else self.references


Distance: TypeAlias = str | Callable[[Pairs], Tensor]
Match: TypeAlias = Callable[[Tensor, Tensor], Tensor]
Miner: TypeAlias = Callable[[Pairs], Pairs]
