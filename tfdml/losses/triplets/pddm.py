"""PDDM: a learned similarity selects hard quadruplets, and trains together with the embeddings."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.layers.position_dependent import PositionDependentMetric
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import require_same_rows
from tfdml.pairs import Pairs, normalized
from tfdml.pairs.base import Tensor
from tfdml.pairs.batch_reductions import batch_rows
from tfdml.pairs.chunked import Blocks
from tfdml.pairs.comparison import Comparison
from tfdml.pairs.positives import nearest
from tfdml.pairs.products import as_float


def pddm(
    pairs: Pairs,
    *,
    metric: PositionDependentMetric,
    margin: float = 0.5,
    distance_margin: float = 1.0,
    weight: float = 0.5,
) -> Tensor:
    """Values of `PDDMLoss`, one per anchor.

    max(0, margin + S_an - S_ap) + max(0, margin + S_pm - S_ap)
    + weight (max(0, distance_margin + D_ap - D_an) + max(0, distance_margin + D_ap - D_pm))
    """
    require_same_rows(pairs, "the PDDM loss")
    unit = normalized(pairs)
    x, references = unit.anchors, unit.reference_embeddings
    p, n, m, exists = _quadruplets(_all_similarities(metric, x, references), pairs)
    positive, negative, other = (ops.take(references, ops.maximum(rows, 0), axis=0) for rows in (p, n, m))
    ends = ((x, positive), (x, negative), (positive, other))
    s_ap, s_an, s_pm = (metric(*both) for both in ends)
    d_ap, d_an, d_pm = (ops.sum(ops.square(one - another), axis=1) for one, another in ends)
    values = ops.relu(margin + s_an - s_ap) + ops.relu(margin + s_pm - s_ap)
    values = values + weight * (ops.relu(distance_margin + d_ap - d_an) + ops.relu(distance_margin + d_ap - d_pm))
    return ops.where(exists, values, 0.0)


def _all_similarities(metric, x, references):
    """S of anchors and references, `(anchors, references)`, without gradient."""
    x, references = ops.stop_gradient(x), ops.stop_gradient(references)
    metric(x[:1], x[:1])  # builds the weights outside of the loop
    return ops.stop_gradient(ops.map(lambda row: metric(row, references), x))


def _quadruplets(s, pairs):
    """The rows p, n and m of each anchor, -1 for none, and whether there are all three: each `(A,)`."""
    p, n = nearest(s, pairs.positive > 0), nearest(-s, pairs.negative > 0)
    m = ops.take(batch_rows(n, pairs, has_gradient=False), ops.maximum(p, 0))
    return p, n, m, (p >= 0) & (n >= 0) & (m >= 0)


@serializable
class PDDMLoss(PairLoss, in_blocks=True):
    """PDDM loss: hinges on the learned similarity S of a hard quadruplet, and on distances D.

    max(0, margin + S_an - S_ap) + max(0, margin + S_pm - S_ap)
    + weight (max(0, distance_margin + D_ap - D_an) + max(0, distance_margin + D_ap - D_pm))

    p is the positive of the anchor a with the smallest S, n the negative of a with the largest S, and m the negative of
    p with the largest S; D is the squared distance of embeddings scaled to norm 1. A batch is compared with itself.
    Only whether a weight is 0 matters. An anchor without a positive or a negative, or whose positive p has no negative,
    gives 0. S is evaluated for all pairs of the batch, row by row and without gradient; in blocks of anchors twice,
    because m depends on other anchors.

    Also called: position-dependent deep metric; local similarity-aware embedding.

    Example:

        >>> loss = tfdml.losses.PDDMLoss()  # equal embeddings: 2 margin + 2 weight distance_margin
        >>> round(float(loss([0, 0, 1, 1], [[1.0, 0.0]] * 4)), 4)
        2.0

    See also: `BatchHardTripletLoss`, whose hard examples are chosen by distance.

    Args:
        metric: S, a `tfdml.layers.PositionDependentMetric`, which `EmbeddingModel` trains; None for default settings.
        margin: how much more similar positives must be than negatives, 0 or more.
        distance_margin: how much nearer positives must be than negatives, in squared distances; 0 or more.
        weight: weight of the distances, 0 or more.

    Source: Huang, Loy, Tang, Local Similarity-Aware Deep Feature Embedding, NIPS 2016. There one quadruplet is taken
    per batch, the positive pair of the smallest S with its two negatives; here one per anchor.
    """

    def __init__(
        self,
        *,
        metric: PositionDependentMetric | None = None,
        margin: float = 0.5,
        distance_margin: float = 1.0,
        weight: float = 0.5,
        **options: Unpack[PairOptions],
    ) -> None:
        metric = PositionDependentMetric() if metric is None else metric
        require(
            isinstance(metric, PositionDependentMetric), f"metric={metric!r}", "tfdml.layers.PositionDependentMetric()"
        )
        settings = {"margin": margin, "distance_margin": distance_margin, "weight": weight}
        for name, value in settings.items():
            require(value >= 0, f"{name}={value}", "0 or more")
        super().__init__(pddm, metric=metric, **settings, **options)

    def blocks(self, comparison: Comparison, size: int) -> list[Blocks]:
        """The function in blocks of anchors, with the weights of the metric, which are made before the first block."""
        fixed = as_float(comparison.anchors[:1])
        self.settings["metric"](fixed, fixed)
        return super().blocks(comparison, size)
