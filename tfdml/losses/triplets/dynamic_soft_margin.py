"""The dynamic soft margin loss: triplets weighted by their rank among those of recent batches."""

from typing import Unpack

from keras import ops

from tfdml._core.checks import require, require_selector_or_none
from tfdml._core.serialization import serializable
from tfdml.layers.base import LossLayer
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.ranking.histogram import soft_histogram
from tfdml.losses.reductions import batch_mean_per_anchor
from tfdml.miners.negatives import NegativeSelector, hardest_negatives
from tfdml.pairs import Pairs, euclidean, normalized
from tfdml.pairs.base import Tensor
from tfdml.pairs.positives import at, for_each_positive, put, with_gradient

# Differences of two distances of unit vectors.
_LOW, _HIGH = -2.0, 2.0


def dynamic_soft_margin(
    pairs: Pairs,
    *,
    bins: int = 512,
    momentum: float = 0.01,
    negatives: NegativeSelector | None = hardest_negatives,
    history: Tensor | None = None,
) -> Tensor:
    """Dynamic soft margin loss, one value per anchor: differences of distances, weighted by their cumulative share.

    (A / N) sum_p sum_n C(d_ap - d_an) (d_ap - d_an)

    C(x) is the share of triplets whose difference is smaller, from a histogram of the batch mixed into that of earlier
    batches; it is a constant in the gradient. Hard triplets have weights near 1, easy triplets near 0, so there is no
    margin to tune. N is the number of triplets in the batch.

    Args:
        pairs: `Pairs` of A anchors and R references; d is the euclidean distance of embeddings scaled to norm 1. The
            weight of a triplet is the product of the weights of its two pairs.
        bins: number of intervals of the histogram between -2 and 2.
        momentum: share of this batch in the histogram.
        negatives: a function that selects one negative per positive, as in `triplet`; None for all negatives.
        history: `(bins + 1,)`, the histogram of earlier batches; None or zeros before the first.

    Returns:
        `(A,)`, negative where most positives are nearer than the negatives. An anchor without triplets gives 0.

    Time grows with A R K for up to K positives per anchor, memory with A R.

    Source: Zhang, Rusinkiewicz, Learning Local Descriptors With a CDF-Based Dynamic Soft Margin, ICCV 2019. There, the
    negative is the nearest to either end of a positive pair.
    """
    d = euclidean(normalized(pairs))
    fixed = ops.stop_gradient(d)
    triplets = _triplets(pairs, fixed, negatives)
    shares = ops.cumsum(_mixed(_histogram(pairs, fixed, triplets, bins), momentum, history))

    def add(p, exists, sums, gradient, number):
        weights, differences = triplets(p, exists), at(p, fixed) - fixed
        index = ops.cast(ops.floor((differences - _LOW) * (bins / (_HIGH - _LOW))), "int32")
        slopes = weights * ops.take(shares, ops.clip(index, 0, bins - 1))
        pull = ops.sum(slopes, axis=1, keepdims=True)
        number = number + ops.sum(ops.cast(weights > 0, fixed.dtype), axis=1)
        return sums + ops.sum(slopes * differences, axis=1), gradient + put(p, pull, fixed) - slopes, number

    zeros = ops.zeros_like(fixed[:, 0])
    sums, gradient, number = for_each_positive(pairs, add, (zeros, ops.zeros_like(fixed), zeros))
    return batch_mean_per_anchor(with_gradient(sums, gradient, d), ops.sum(number))


def triplet_histogram(
    pairs: Pairs, *, bins: int, momentum: float, negatives: NegativeSelector | None, history: Tensor
) -> Tensor:
    """The histogram of `dynamic_soft_margin` after a batch, `(bins + 1,)`."""
    d = ops.stop_gradient(euclidean(normalized(pairs)))
    return _mixed(_histogram(pairs, d, _triplets(pairs, d, negatives), bins), momentum, history)


def _triplets(pairs, d, negatives):
    """A function of one positive per anchor that returns the weights of its triplets, `(A, R)`."""
    choose = None if negatives is None else negatives(pairs, d)

    def weights(p, exists):
        positive_weight = exists[:, None] * at(p, pairs.positive)
        if choose is None:
            return positive_weight * pairs.negative
        n = choose(p)
        return put(n, positive_weight * at(ops.maximum(n, 0), pairs.negative), d)

    return weights


def _histogram(pairs, d, triplets, bins):
    """Weights of the triplets of a batch on the nodes of the histogram, as shares of 1."""

    def add(p, exists, counts):
        per_anchor = soft_histogram(at(p, d) - d, triplets(p, exists), bins, _LOW, _HIGH)
        return (counts + ops.sum(per_anchor, axis=0),)

    (counts,) = for_each_positive(pairs, add, (ops.zeros((bins + 1,), d.dtype),))
    return counts / ops.maximum(ops.sum(counts), 1e-30)


def _mixed(histogram, momentum, history):
    """The histogram of a batch, mixed into that of earlier batches."""
    if history is None:
        return histogram
    mixed = (1.0 - momentum) * ops.cast(ops.convert_to_tensor(history), histogram.dtype) + momentum * histogram
    return mixed / ops.maximum(ops.sum(mixed), 1e-30)


class _History(LossLayer):
    """The histogram of earlier batches, `shares`, which every training step replaces by `measure` of its batch."""

    def __init__(self, bins, measure):
        super().__init__(name="history")
        self.measure = measure
        options = {"initializer": "zeros", "trainable": False, "aggregation": "only_first_replica"}
        self.shares = self.add_weight(name="shares", shape=(bins + 1,), dtype="float32", **options)

    def update(self, labels: Tensor, embeddings: Tensor) -> None:
        """Mix the triplets of a batch into the histogram, unless an embedding is not finite."""
        mixed = ops.cast(self.measure(labels, embeddings), "float32")
        finite = ops.isfinite(ops.sum(ops.square(ops.cast(embeddings, "float32"))))
        self.shares.assign(ops.where(finite, mixed, ops.convert_to_tensor(self.shares)))


@serializable
class DynamicSoftMarginLoss(PairLoss):
    """Dynamic soft margin loss: see `tfdml.losses.dynamic_soft_margin` for the formula and its source.

    The histogram of earlier batches is the state of a layer, which `EmbeddingModel` updates once in every training step
    and keeps in its files. A loss that is called by itself leaves it as it is.

    Example:

        loss = tfdml.losses.DynamicSoftMarginLoss(momentum=0.01)  # trained with an EmbeddingModel

    Args:
        bins: number of intervals of the histogram between -2 and 2, at least 1.
        momentum: share of a batch in the histogram, above 0 and at most 1.
        negatives: a selector of negatives, as in `TripletLoss`; None for all of them.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(
        self,
        *,
        bins: int = 512,
        momentum: float = 0.01,
        negatives: NegativeSelector | None = hardest_negatives,
        **options: Unpack[PairOptions],
    ) -> None:
        require(int(bins) == bins >= 1, f"bins={bins}", "a whole number, 1 or more")
        require(0 < momentum <= 1, f"momentum={momentum}", "a share above 0 and at most 1")
        require_selector_or_none("negatives", negatives)
        options["name"] = options.get("name") or dynamic_soft_margin.__name__
        self.history = _History(bins, self._measure)  # the first of the layers: it is updated before a memory is
        super().__init__(self._with_history, bins=bins, momentum=momentum, negatives=negatives, **options)

    def _with_history(self, pairs, *, bins, momentum, negatives):
        settings = {"bins": bins, "momentum": momentum, "negatives": negatives}
        return dynamic_soft_margin(pairs, history=self.history.shares, **settings)

    def _measure(self, labels, embeddings):
        pairs = self.reweight(self.pair(labels, embeddings))
        return triplet_histogram(pairs, history=self.history.shares, **self.settings)
