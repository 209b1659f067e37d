"""Large margin nearest neighbors: target neighbors are pulled, impostors within a margin are pushed."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.layers.boundaries import same_class
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.triplets.triplet import triplet_sums
from tfdml.miners import EasyPositives, TargetNeighbors
from tfdml.pairs import Pairs, squared
from tfdml.pairs.base import Miner, Tensor

_NEAREST_POSITIVES = EasyPositives(k=3, distance="squared")


def lmnn(pairs: Pairs, *, margin: float = 1.0, mu: float = 0.5) -> Tensor:
    """Values of `LMNNLoss`, one per anchor.

    (1 - mu) sum_p d_ap + mu sum_p sum_n max(0, d_ap - d_an + margin)
    """
    d = squared(pairs)
    pull = ops.sum(pairs.positive * d, axis=1)
    return (1.0 - mu) * pull + mu * triplet_sums(pairs, d, margin=margin)


@serializable
class LMNNLoss(PairLoss, in_blocks=True):
    """Large margin nearest neighbor loss.

    (1 - mu) sum_p d_ap + mu sum_p sum_n max(0, d_ap - d_an + margin)

    d is the squared distance. The positives p are the target neighbors of the anchor: the positives that the miner
    keeps. `miners.TargetNeighbors` keeps the nearest in fixed features, as in the paper. The default keeps the nearest
    of the batch as it is now embedded, so they may change during the training. Embeddings are not normalized. An anchor
    without positives gives 0; one without negatives gives the pull.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[0.0], [0.5], [1.5]]  # squared distances 0.25, 2.25 and 1
        >>> loss = tfdml.losses.LMNNLoss(margin=1.0)
        >>> round(float(loss(labels, embeddings)), 4)  # the mean of (0.25 + 0) / 2, (0.25 + 0.25 - 1 + 1) / 2 and 0
        0.125

    See also: `layers.Mahalanobis`, the metric that it was made for. `TripletLoss`, without the pull.

    Args:
        margin: how much nearer target neighbors must be, in squared distance; 0 or more.
        mu: weight of the push of negatives, in [0, 1]; the pull of target neighbors has the rest.
        miner: selects the target neighbors: `EasyPositives(k=3)`, or `TargetNeighbors`, with labels `(batch, 2)` of
            class ids and indices of examples; None for all positives.

    Source: Weinberger, Saul, Distance Metric Learning for Large Margin Nearest Neighbor Classification, JMLR 2009;
    divided by the number of anchors where the paper has a sum.
    """

    def __init__(  # type: ignore[misc]  # miner has its own default here
        self,
        *,
        margin: float = 1.0,
        mu: float = 0.5,
        miner: Miner | None = _NEAREST_POSITIVES,
        **options: Unpack[PairOptions],
    ) -> None:
        require(margin >= 0, f"margin={margin}", "a squared distance of 0 or more")
        require(0 <= mu <= 1, f"mu={mu}", "a share in [0, 1]")
        if isinstance(miner, TargetNeighbors):
            options["match"] = options.get("match") or same_class
        super().__init__(lmnn, margin=margin, mu=mu, miner=miner, **options)
