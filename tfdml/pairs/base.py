"""The record of pairs: anchors compared with references, and a weight for each pair."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from tfdml._core.backends import has_values, ops

Tensor: TypeAlias = Any  # a tensor of the Keras backend, or an array that converts to one


class Pairs(NamedTuple):
    """Anchors against references, with a weight for every positive and every negative pair.

    An immutable `NamedTuple` that passes through `tf.function`, `jax.jit` and gradients unchanged.

    See also: `all_pairs`, `consecutive_pairs`, `pairs_with`, which make them; `tfdml.miners`, which change weights.

    Example:

        >>> pairs = tfdml.pairs.all_pairs([0, 0, 1], [[0.0], [1.0], [3.0]])
        >>> np.asarray(pairs.positive).tolist()  # rows 0 and 1 are of one class; no row is a pair with itself
        [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
        >>> np.asarray(pairs.negative).tolist()
        [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
        >>> pairs = pairs.drop(negative=tfdml.pairs.euclidean(pairs) > 2.5)  # rows 0 and 2 are at distance 3
        >>> np.asarray(pairs.negative).tolist()
        [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]

    Attributes:
        anchors: `(anchors, dim)` float embeddings.
        references: None for a batch against itself, where the references are the anchors. Otherwise `(references, dim)`
            embeddings that all anchors share, or `(anchors, references, dim)` if each anchor has its own references.
        anchor_labels: `(anchors,)` integer class ids.
        reference_labels: `(references,)` or `(anchors, references)` integer class ids.
        positive: `(anchors, references)` non-negative weights of same-class pairs, 0 for all other pairs.
        negative: the same for pairs of different classes. A row paired with itself has weight 0 in both.
        counts: `(anchors, references)`, the multiplicity of each pair in the divisor of a mean over pairs, or None for
            1 wherever a weight is not 0. A miner that samples pairs sets it to the number of draws of each pair.
        block: None for all anchors of a batch, or which of its anchors these are: see `tfdml.pairs.batch_reductions`.
    """

    anchors: Tensor
    references: Tensor | None
    anchor_labels: Tensor
    reference_labels: Tensor
    positive: Tensor
    negative: Tensor
    counts: Tensor | None = None
    block: Any = None

    @property
    def is_self(self) -> bool:
        """Whether this is a batch against itself. Static structure: a Python bool, also in compiled functions."""
        return self.references is None

    @property
    def reference_embeddings(self) -> Tensor:
        """The references, or the anchors if this is a batch against itself."""
        return self.anchors if self.is_self else self.references

    def scale(self, *, positive: Tensor = 1.0, negative: Tensor = 1.0) -> "Pairs":
        """The same pairs with their weights multiplied by these factors.

        Args:
            positive, negative: numbers, or arrays that broadcast to `(anchors, references)`; 0 or more.
        """
        positive, negative = (_factor(x, self.positive.dtype) for x in (positive, negative))
        return self._replace(positive=self.positive * positive, negative=self.negative * negative)

    def drop(self, *, positive: Tensor = False, negative: Tensor = False) -> "Pairs":
        """The same pairs with weight 0 wherever a mask is True.

        Args:
            positive, negative: booleans that broadcast to `(anchors, references)`.
        """
        return self._replace(
            positive=ops.where(positive, 0.0, self.positive), negative=ops.where(negative, 0.0, self.negative)
        )


def _factor(x, dtype):
    """An array as a tensor, since PyTorch multiplies none by an array."""
    return ops.convert_to_tensor(x, dtype) if isinstance(x, np.ndarray) else x


def value_of(x: Tensor) -> np.ndarray | None:
    """The value of a tensor as an array; None inside a compiled function, where it does not exist yet."""
    try:
        return ops.convert_to_numpy(x) if has_values() else None
    except (NotImplementedError, TypeError):
        return None


Function = TypeVar("Function", bound=Callable[..., Any])


def in_blocks(function: Function) -> Function:
    """Declare that results for an anchor depend on others only by `tfdml.pairs.batch_reductions`, and are finite."""
    function.in_blocks = True  # type: ignore[attr-defined]
    return function


def may_be_in_blocks(*things: Any) -> bool:
    """Whether all functions among these, and the distances that they take, have the attribute of `in_blocks`."""
    functions = [each for thing in things for each in (thing, getattr(thing, "distance", None)) if callable(each)]
    return all(getattr(function, "in_blocks", False) for function in functions)


Distance: TypeAlias = str | Callable[[Pairs], Tensor]
Match: TypeAlias = Callable[[Tensor, Tensor], Tensor]
Miner: TypeAlias = Callable[[Pairs], Pairs]
