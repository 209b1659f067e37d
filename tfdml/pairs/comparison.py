"""Comparisons: the anchors and references of a pairing, before the weights of their pairs exist."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras

from tfdml._core.backends import ops, with_diagonal
from tfdml._core.checks import require
from tfdml.pairs.base import Match, Pairs, Tensor
from tfdml.pairs.batch_reductions import Block


class Comparison(NamedTuple):
    """Anchors and references of a batch that are not compared yet, as in `Pairs`; all anchors share the references.

    `allowed` is a function of row numbers of anchors, `(A,)`, that returns which combinations are pairs, booleans that
    broadcast to `(A, references)`; None for all. `match` is as in `all_pairs`.
    """

    anchors: Tensor
    references: Tensor | None
    anchor_labels: Tensor
    reference_labels: Tensor
    match: Match | None = None
    allowed: Callable[[Tensor], Tensor] | None = None

    @property
    def num_anchors(self) -> Any:
        """Number of anchors: an integer, or a scalar tensor where the shape is not known."""
        return ops.shape(self.anchors)[0]

    @property
    def reference_embeddings(self) -> Tensor:
        """The references, or the anchors of a batch against itself."""
        return self.anchors if self.references is None else self.references

    def pairs(self) -> Pairs:
        """All pairs."""
        if self.references is not None:
            return weighted(*self[:5], self.allowed and self.allowed(ops.arange(self.num_anchors)))
        pairs = weighted(*self[:5])
        negative = pairs.negative if self.match is None else with_diagonal(pairs.negative, 0.0)
        return pairs._replace(positive=with_diagonal(pairs.positive, 0.0), negative=negative)

    def block(self, anchors: Tensor, references: Tensor, rows: Tensor, is_valid: Tensor, reductions: Any) -> Pairs:
        """The pairs of these anchors, in these rows of the batch; an anchor that is not valid has none."""
        allowed = is_valid[:, None]
        if self.allowed is not None:
            allowed = self.allowed(rows) & allowed
        labels = ops.take(self.anchor_labels, rows, axis=0)
        pairs = weighted(anchors, references, labels, self.reference_labels, self.match, allowed)
        return pairs._replace(block=Block(rows, is_valid, self.num_anchors, self.references is None, reductions))


def weighted(anchors, references, anchor_labels, reference_labels, match=None, allowed=None):
    """`Pairs` with weight 1 on every allowed pair, positive by `match` or by equality of labels."""
    if match is not None:
        relevant = matched(match, anchor_labels, reference_labels)
    else:
        label_rows = reference_labels[None, :] if len(reference_labels.shape) == 1 else reference_labels
        relevant = ops.equal(anchor_labels[:, None], label_rows)
    return by_relevance(anchors, references, anchor_labels, reference_labels, relevant, allowed)


def by_relevance(anchors, references, anchor_labels, reference_labels, relevant, allowed=None):
    """`Pairs` with weight 1 on every allowed pair, positive where it is relevant."""
    dtype = anchors.dtype if keras.backend.standardize_dtype(anchors.dtype) == "float64" else "float32"
    positive = ops.cast(relevant if allowed is None else ops.logical_and(relevant, allowed), dtype)
    negative = (1.0 if allowed is None else ops.cast(allowed, dtype)) - positive
    return Pairs(anchors, references, anchor_labels, reference_labels, positive, negative)


def matched(match, anchor_labels, reference_labels):
    """The boolean matrix that `match` returns, with its shape checked."""
    relevant = ops.convert_to_tensor(match(anchor_labels, reference_labels))
    expected = (anchor_labels.shape[0], reference_labels.shape[0])
    require(
        len(relevant.shape) == 2
        and all(None in sizes or sizes[0] == sizes[1] for sizes in zip(relevant.shape, expected, strict=True)),
        f"a matrix of shape {tuple(relevant.shape)} from match",
        f"(anchors, references) = {expected}: whether each label of the first array matches each of the second",
    )
    return ops.cast(relevant, "bool")
