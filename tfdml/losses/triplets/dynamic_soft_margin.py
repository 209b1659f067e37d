"""The dynamic soft margin loss: triplets weighted by their rank among the triplets of recent batches."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import as_whole, require_fraction, require_selector_or_none
from tfdml._core.serialization import serializable
from tfdml.layers.histogram import RunningHistogram, mix_histograms
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.ranking.soft_histograms import soft_histogram
from tfdml.losses.reductions import over_batch
from tfdml.miners.selectors import NegativeSelector, hardest_negatives
from tfdml.pairs import Pairs, euclidean, normalized
from tfdml.pairs.base import Tensor
from tfdml.pairs.batch_reductions import BatchMean, batch_sum
from tfdml.pairs.chunked import sum_in_blocks
from tfdml.pairs.positives import at, for_each_positive, put, with_gradient

# Differences of two distances of unit vectors.
_LOW, _HIGH = -2.0, 2.0


@over_batch
def dynamic_soft_margin(
    pairs: Pairs,
    *,
    bins: int = 512,
    momentum: float = 0.01,
    negatives: NegativeSelector | None = hardest_negatives,
    history: Tensor | None = None,
) -> Tensor:
    """Values of `DynamicSoftMarginLoss`, one per anchor.

    (A / N) sum_p sum_n C(d_ap - d_an) (d_ap - d_an)

    `history`, `(bins + 1,)`, is the histogram of earlier batches; None or zeros before the first.
    """
    d = euclidean(normalized(pairs))
    fixed = ops.stop_gradient(d)
    triplets = _triplets(pairs, fixed, negatives)
    histogram = _shares(batch_sum(_histogram(pairs, fixed, triplets, bins), pairs))
    shares = ops.cumsum(histogram if history is None else mix_histograms(histogram, history, momentum))

    def add(p, exists, sums, gradient, number):
        weights, differences = triplets(p, exists), at(p, fixed) - fixed
        index = ops.cast(ops.floor((differences - _LOW) * (bins / (_HIGH - _LOW))), "int32")
        slopes = weights * ops.take(shares, ops.clip(index, 0, bins - 1))
        pull = ops.sum(slopes, axis=1, keepdims=True)
        number = number + ops.sum(ops.cast(weights > 0, fixed.dtype), axis=1)
        return sums + ops.sum(slopes * differences, axis=1), gradient + put(p, pull, fixed) - slopes, number

    zeros = ops.zeros_like(fixed[:, 0])
    sums, gradient, number = for_each_positive(pairs, add, (zeros, ops.zeros_like(fixed), zeros))
    return BatchMean(with_gradient(sums, gradient, d), number)


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
    """Weights of the triplets on the nodes of the histogram, `(bins + 1,)`."""

    def add(p, exists, counts):
        per_anchor = soft_histogram(at(p, d) - d, triplets(p, exists), bins, _LOW, _HIGH)
        return (counts + ops.sum(per_anchor, axis=0),)

    (counts,) = for_each_positive(pairs, add, (ops.zeros((bins + 1,), d.dtype),))
    return counts


def _shares(counts):
    """Weights as shares of 1, 0 without triplets."""
    return counts / ops.maximum(ops.sum(counts), 1e-30)


@serializable
class DynamicSoftMarginLoss(PairLoss, in_blocks=True):
    """Dynamic soft margin loss: differences of distances, weighted by their cumulative share.

    (A / N) sum_p sum_n C(d_ap - d_an) (d_ap - d_an)

    C(x) is the share of triplets whose difference is smaller, a constant in the gradient: the histogram of the batch,
    mixed into the histogram of earlier batches. There is no margin to tune. N is the number of triplets in the batch.

    The histogram of earlier batches is the state of a layer, which `EmbeddingModel` keeps in its files. `update` mixes
    a batch into it, once per training step; a call of the loss does not. d is the euclidean distance of embeddings
    scaled to norm 1. A triplet's weight is the product of its pairs' weights. Values are negative where most positives
    are nearer than the negatives. An anchor without triplets gives 0. Time grows with A R K for up to K positives per
    anchor, memory with A R.

    Also called: DSM.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]  # cosines 0.6, 0 and 0.8
        >>> loss = tfdml.losses.DynamicSoftMarginLoss(bins=4)  # trained with an EmbeddingModel
        >>> round(float(loss(labels, embeddings)), 4)  # the mean of -0.2026, 0.3415 and 0
        0.0463

    See also: `TripletLoss(soft=True)` and `BatchHardTripletLoss(soft=True)`, also without a margin and without state.

    Args:
        bins: number of intervals of the histogram between -2 and 2, at least 1.
        momentum: weight of a batch in the histogram, above 0 and at most 1.
        negatives: a selector of negatives, as in `TripletLoss`; None for all of them.

    Source: Zhang, Rusinkiewicz, Learning Local Descriptors With a CDF-Based Dynamic Soft Margin, ICCV 2019. There, the
    negative is the nearest to either end of a positive pair.
    """

    def __init__(
        self,
        *,
        bins: int = 512,
        momentum: float = 0.01,
        negatives: NegativeSelector | None = hardest_negatives,
        **options: Unpack[PairOptions],
    ) -> None:
        bins = as_whole("bins", bins, 1)
        require_fraction(momentum=momentum)
        require_selector_or_none("negatives", negatives)
        options["name"] = options.get("name") or dynamic_soft_margin.__name__
        self.history = RunningHistogram(bins, momentum)
        super().__init__(self._with_history, bins=bins, momentum=momentum, negatives=negatives, **options)

    def _with_history(self, pairs, *, bins, momentum, negatives):
        settings = {"bins": bins, "momentum": momentum, "negatives": negatives}
        return dynamic_soft_margin.apart(pairs, history=self.history.shares, **settings)

    def update(self, labels: Tensor, embeddings: Tensor) -> None:
        """Mix the triplets of a training batch into the histogram, unless an embedding is not finite."""
        is_finite = ops.isfinite(ops.sum(ops.square(ops.cast(embeddings, "float32"))))
        self.history.add(_shares(self._histogram_of_batch(labels, embeddings)), if_true=is_finite)

    def _histogram_of_batch(self, labels, embeddings):
        def histogram(pairs):
            pairs = self.reweight(pairs)
            d = ops.stop_gradient(euclidean(normalized(pairs)))
            return _histogram(pairs, d, _triplets(pairs, d, self.settings["negatives"]), self.settings["bins"])

        compared = self.compared(labels, embeddings)
        if isinstance(compared, Pairs):
            return histogram(compared)
        (blocks,) = compared
        return sum_in_blocks(blocks._replace(function=histogram))
