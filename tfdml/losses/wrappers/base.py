"""Base class of losses that wrap another loss, and the columns of the learners of an ensemble."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import keras

from tfdml._core.checks import require, require_whole
from tfdml.losses.base import PAIR_OPTIONS, PairLoss, require_known_options
from tfdml.pairs import Pairs, normalized
from tfdml.pairs.base import Tensor
from tfdml.pairs.comparison import Comparison


class LossOverBase(PairLoss):
    """Base class: a loss over another loss, whose `pairing`, `miner`, `importance` and `match` it uses."""

    def __init__(
        self, function: Callable[..., Tensor], base: PairLoss, settings: dict[str, Any], options: dict[str, Any]
    ) -> None:
        require_known_options(type(self), options)
        shared = {name: getattr(base, name) for name in ("pairing", "match", "anchors_per_block")}
        super().__init__(function, base=base, **shared, **settings, **options)
        self.base = base

    def pair(self, labels: Tensor, embeddings: Tensor) -> Pairs:
        """The `Pairs` of a batch, built by the base loss."""
        return self.base.pair(labels, embeddings)

    def comparison(self, labels: Tensor, embeddings: Tensor) -> Comparison | None:
        """The comparison that `pair` weights; None for a pairing that compares a batch as a whole."""
        return self.base.comparison(labels, embeddings)

    def reweight(self, pairs: Pairs) -> Pairs:
        """The pairs, reweighted by the miner and the importance weights of the base loss."""
        return self.base.reweight(pairs)

    def update(self, labels: Tensor, embeddings: Tensor) -> None:
        """Update the state of the base loss."""
        self.base.update(labels, embeddings)

    @property
    def layers(self) -> list[keras.Layer]:
        """The Keras layers of the base and of the settings, each once."""
        return list({id(layer): layer for layer in (*self.base.layers, *super().layers)}.values())

    def get_config(self) -> dict[str, Any]:
        """The constructor arguments, serialized."""
        return {name: value for name, value in super().get_config().items() if name not in PAIR_OPTIONS}


def require_base(base: Any) -> None:
    """Raise a ValueError unless `base` is a loss over pairs."""
    expected = (
        "a loss over pairs of class ids, such as MultiSimilarityLoss(). A loss without pairs, such as the losses of a "
        "teacher, trains an output of its own, or stands in a WeightedSumLoss"
    )
    require(isinstance(base, PairLoss), f"base={base!r}", expected)


def require_sum_over_pairs(base: Any) -> None:
    """Raise a ValueError unless `base` is a loss that has a value for each pair."""
    require(
        isinstance(base, PairLoss) and hasattr(base, "pair_losses"),
        f"base={base!r}",
        "a sum over pairs, such as ContrastiveLoss or MarginLoss, or your own loss with pair_losses(pairs)",
    )


def as_dims(dims: Sequence[int]) -> tuple[int, ...]:
    """Numbers of columns, one or more, as a tuple."""
    require(len(dims) > 0, f"dims={dims}", "one number of columns or more")
    for dim in dims:
        require_whole("dims", dim, 1)
    return tuple(int(dim) for dim in dims)


def columns(pairs: Pairs, start: int, stop: int) -> Pairs:
    """The same pairs with some columns of the embeddings only."""
    references = None if pairs.references is None else pairs.references[..., start:stop]
    return pairs._replace(anchors=pairs.anchors[:, start:stop], references=references)


def by_learner(pairs: Pairs, dims: Sequence[int]) -> list[Pairs]:
    """The pairs of each learner of an ensemble: `dims` columns, one learner after the other, scaled to norm 1."""
    require(
        pairs.anchors.shape[1] == sum(dims),
        f"embeddings of dimension {pairs.anchors.shape[1]} with dims={tuple(dims)}",
        f"dimension {sum(dims)}, the columns of all learners",
    )
    stops = itertools.accumulate(dims)
    return [normalized(columns(pairs, stop - dim, stop)) for dim, stop in zip(dims, stops, strict=True)]
