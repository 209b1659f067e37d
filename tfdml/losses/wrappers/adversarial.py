"""Learners of an ensemble that cannot be predicted from each other."""

from collections.abc import Sequence
from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.layers.regressors import Regressors
from tfdml.losses.base import LossOptions, PairLoss
from tfdml.losses.reductions import count
from tfdml.losses.wrappers.base import LossOverBase, as_dims, by_learner, require_base
from tfdml.pairs import Pairs
from tfdml.pairs.base import Tensor


def adversarial(
    pairs: Pairs, *, base: PairLoss, dims: Sequence[int], regressors: Regressors, weight: float = 1.0
) -> Tensor:
    """Values of `AdversarialLoss`, one per anchor.

    base + weight sum_{k < m} mean over columns of (u_k g_km(u_m))^2
    """
    learners = [learner.anchors for learner in by_learner(pairs, dims)]
    seen = regressors.similarity([ops.stop_gradient(u) for u in learners], trained=True)
    term = regressors.similarity(learners, trained=False) + ops.stop_gradient(seen) - seen
    compared = ops.cast(count(pairs.positive + pairs.negative) > 0, pairs.positive.dtype)
    return base.values(pairs) + weight * compared * term


@serializable
class AdversarialLoss(LossOverBase, in_blocks=True):
    """A loss of learners with the adversarial term of A-BIER.

    base + weight sum_{k < m} mean over columns of (u_k g_km(u_m))^2

    u_m is the embedding of the anchor by learner m, scaled to norm 1, and g_km a small network. The gradient of the
    term is reversed at the networks: they increase it, by finding what u_m tells of u_k, while the learners decrease
    it. In training, the loss may therefore rise while all is well, also at the default weight: watch another metric.

    `EmbeddingModel` trains the regressors beside the network, by the same optimizer. An anchor without pairs gives 0.

    Also called: A-BIER, over `BoostedLoss`.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0, 1.0, 0.0], [0.6, 0.8, 0.6, 0.8], [0.0, 1.0, 0.0, 1.0]]
        >>> base = tfdml.losses.BoostedLoss(dims=(2, 2))
        >>> regressors = tfdml.layers.Regressors((2, 2), units=4, seed=0)
        >>> loss = tfdml.losses.AdversarialLoss(base, dims=(2, 2), regressors=regressors, weight=0.0)
        >>> round(float(loss(labels, embeddings)), 4)  # the value of the base
        7.7891

    See also: `BoostedLoss`, its usual base. `DivergenceLoss`, a push between learners without a network.

    Args:
        base: any loss over pairs, of the whole embedding. Its `pairing`, `miner`, `importance` and `match` are used.
        dims: numbers of columns of the learners, two or more; their sum is the dimension of the embeddings.
        regressors: the networks g, a `tfdml.layers.Regressors` of the same dims; None for the default settings.
        weight: weight of the term, 0 or more.

    Source: Opitz, Waltner, Possegger, Bischof, Deep Metric Learning with BIER: Boosting Independent Embeddings
    Robustly, TPAMI 2018 (A-BIER). The form of the term follows the code of its authors, where learners are not scaled
    to norm 1 and only their last layers receive its gradient.
    """

    def __init__(
        self,
        base: PairLoss,
        *,
        dims: Sequence[int] = (16, 32, 48),
        regressors: Regressors | None = None,
        weight: float = 1.0,
        **options: Unpack[LossOptions],
    ) -> None:
        require_base(base)
        dims = as_dims(dims)
        regressors = Regressors(dims) if regressors is None else regressors
        is_fitting = isinstance(regressors, Regressors) and regressors.dims == dims
        require(is_fitting, f"regressors={regressors!r} for dims={dims}", f"tfdml.layers.Regressors({dims})")
        require(weight >= 0, f"weight={weight}", "0 or more")
        settings = {"dims": dims, "regressors": regressors, "weight": weight}
        super().__init__(adversarial, base, settings, dict(options))
