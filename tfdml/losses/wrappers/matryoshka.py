"""Matryoshka loss: every prefix of the embedding is trained as an embedding."""

from collections.abc import Sequence
from typing import Unpack

from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.losses.base import LossOptions, PairLoss
from tfdml.losses.wrappers.base import LossOverBase, as_dims, columns, require_base
from tfdml.pairs import Pairs
from tfdml.pairs.base import Tensor


def matryoshka(
    pairs: Pairs, *, base: PairLoss, dims: Sequence[int] = (8, 16, 32, 64), weights: Sequence[float] | None = None
) -> Tensor:
    """Values of `MatryoshkaLoss`, one per anchor.

    sum_k weight_k base(a[:dim_k], r[:dim_k])
    """
    require(
        max(dims) <= pairs.anchors.shape[1],
        f"embeddings of dimension {pairs.anchors.shape[1]} with dims={tuple(dims)}",
        "dims up to the dimension of the embeddings",
    )
    prefixes = zip(dims, weights or [1.0] * len(dims), strict=True)
    return sum(weight * base.values(columns(pairs, 0, dim)) for dim, weight in prefixes)


@serializable
class MatryoshkaLoss(LossOverBase, in_blocks=True):
    """Matryoshka loss: the base loss of several prefixes of the embeddings.

    sum_k weight_k base(a[:dim_k], r[:dim_k])

    A base that does not normalize gets the first columns as they are. An anchor without pairs gives the base's value.

    Also called: MRL; nested embeddings.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[0.0, 0.0], [0.0, 0.5], [1.5, 2.0]]
        >>> loss = tfdml.losses.MatryoshkaLoss(tfdml.losses.ContrastiveLoss(negative_margin=2.0), dims=(1, 2))
        >>> round(float(loss(labels, embeddings)), 4)  # 0.125 + 0.125
        0.25

    See also: `tfdml.metrics.quantized_retrieval`, which measures short embeddings.

    Args:
        base: any loss over pairs, also over proxies or a memory. Its `pairing`, `miner`, `importance` and `match` are
            used; a miner sees all columns.
        dims: numbers of columns, in ascending order; the last is usually, and at most, the dimension of the embeddings.
        weights: weight of each, above 0; None for 1.

    Source: Kusupati et al., Matryoshka Representation Learning, NeurIPS 2022, where the base is a softmax with its own
    classifier per prefix, or one whose columns are shared, as proxies are here.
    """

    def __init__(
        self,
        base: PairLoss,
        *,
        dims: Sequence[int] = (8, 16, 32, 64),
        weights: Sequence[float] | None = None,
        **options: Unpack[LossOptions],
    ) -> None:
        require_base(base)
        dims = as_dims(dims)
        require(list(dims) == sorted(set(dims)), f"dims={dims}", "different numbers in ascending order")
        if weights is not None:
            weights = tuple(weights)
            require(len(weights) == len(dims), f"{len(weights)} weights for dims={dims}", "one weight for each")
            require(min(weights) > 0, f"weights={weights}", "numbers above 0")
        super().__init__(matryoshka, base, {"dims": dims, "weights": weights}, dict(options))
