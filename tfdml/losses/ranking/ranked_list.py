"""Ranked list loss: positives inside a sphere, negatives outside, weighted by their violation."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.pairs import Pairs, euclidean, normalized
from tfdml.pairs.base import Tensor


def ranked_list(
    pairs: Pairs,
    *,
    margin: float = 0.4,
    boundary: float = 1.2,
    scale: float = 10.0,
    positive_scale: float = 0.0,
    balance: float = 0.5,
) -> Tensor:
    """Values of `RankedListLoss`, one per anchor.

    (1 - balance) sum_p w_p (d_ap - boundary + margin) / sum_p w_p + balance sum_n w_n (boundary - d_an) / sum_n w_n
    """
    d = euclidean(normalized(pairs))
    pull, push = ops.maximum(d - (boundary - margin), 0.0), ops.maximum(boundary - d, 0.0)
    pull_mean = _mean_of_violations(pull, positive_scale, pairs.positive)
    push_mean = _mean_of_violations(push, scale, pairs.negative)
    return (1.0 - balance) * pull_mean + balance * push_mean


def _mean_of_violations(violation, scale, weights):
    """Mean of the violations above 0 of each row, weighted by exp(scale violation); 0 where there is none.

    The largest exponent of a row is subtracted from all, which changes no mean and lets none overflow.
    """
    violating = weights * ops.cast(violation > 0, weights.dtype)
    exponents = scale * ops.where(violating > 0, violation, 0.0)
    weights = ops.stop_gradient(violating * ops.exp(exponents - ops.amax(exponents, axis=1, keepdims=True)))
    total = ops.sum(weights, axis=1)
    return ops.sum(weights * violation, axis=1) / ops.where(total > 0, total, 1.0)


@serializable
class RankedListLoss(PairLoss, in_blocks=True):
    """Ranked list loss: positives inside a ball, negatives outside a boundary.

    (1 - balance) sum_p w_p (d_ap - boundary + margin) / sum_p w_p + balance sum_n w_n (boundary - d_an) / sum_n w_n

    over the pairs that violate, d_ap > boundary - margin and d_an < boundary. d is the euclidean distance of normalized
    embeddings, w_n = exp(scale (boundary - d_an)) and w_p = exp(positive_scale (d_ap - boundary + margin)), both
    constants in the gradient. An anchor without violating pairs gives 0.

    Also called: RLL.

    Example:

        >>> x = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.6, 0.8]])
        >>> loss = tfdml.losses.RankedListLoss()
        >>> round(float(loss(np.array([0, 0, 1, 1]), x)), 4)  # the mean of (1.2 - 0.8944) / 2 and 0.4579
        0.3053

    See also: `ContrastiveLoss` has the same two hinges with equal weights.

    Args:
        margin: width between positives and negatives, from 0 to `boundary`.
        boundary: negatives farther away than this have zero loss, in [0, 2].
        scale: sharpness of the weights of negatives, 0 or more; 0 for equal weights.
        positive_scale: sharpness of the weights of positives, 0 or more.
        balance: weight of negatives, in [0, 1].

    Source: Wang, Hua, Kodirov, Hu, Garnier, Robertson, Ranked List Loss for Deep Metric Learning, CVPR 2019, section 3,
    with its defaults; the paper also weights positives equally.
    """

    def __init__(
        self,
        *,
        margin: float = 0.4,
        boundary: float = 1.2,
        scale: float = 10.0,
        positive_scale: float = 0.0,
        balance: float = 0.5,
        **options: Unpack[PairOptions],
    ) -> None:
        require(0 <= boundary <= 2, f"boundary={boundary}", "a distance of normalized embeddings, in [0, 2]")
        require(0 <= margin <= boundary, f"margin={margin}", f"a distance from 0 to boundary={boundary}")
        require(scale >= 0, f"scale={scale}", "a number of 0 or more")
        require(positive_scale >= 0, f"positive_scale={positive_scale}", "a number of 0 or more")
        require(0 <= balance <= 1, f"balance={balance}", "a share in [0, 1]")
        super().__init__(
            ranked_list,
            margin=margin,
            boundary=boundary,
            scale=scale,
            positive_scale=positive_scale,
            balance=balance,
            **options,
        )
