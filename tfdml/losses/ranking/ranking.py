"""Losses over the ranking of all references: average precision, and ranked lists."""

from typing import Any, Self, Unpack

from keras import ops

from tfdml._core.checks import require
from tfdml._core.serialization import renamed, serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import count
from tfdml.pairs import Pairs, cosine, euclidean, normalized
from tfdml.pairs.base import Tensor
from tfdml.pairs.positives import at, for_each_positive, put, with_gradient


def smooth_ap(pairs: Pairs, *, temperature: float = 0.01) -> Tensor:
    """Smooth average precision, one value per anchor: 1 minus average precision, with sigmoids for comparisons.

    1 - mean_p (1 + sum_{q != p} g(s_aq - s_ap)) / (1 + sum_{q != p} g(s_aq - s_ap) + sum_n g(s_an - s_ap))
    g(x) = 1 / (1 + exp(-x / temperature)), q and p positives, n negatives

    Args:
        pairs: `Pairs` of A anchors and R references; cosine similarity, so embeddings need not be normalized.
        temperature: temperature of the sigmoid that replaces the step function.

    Returns:
        `(A,)`, in [0, 1). An anchor without positives gives 0.

    Time grows with A R K for up to K positives per anchor, memory with A R.

    Source: Brown, Xie, Kalogeiton, Zisserman, Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval, ECCV
    2020, eqs. 4 to 6. Here the anchor itself is excluded from the ranking.
    """
    s = cosine(pairs)
    fixed = ops.stop_gradient(s)

    def add(p, found, sums, gradient):
        weight = found[:, None] * at(p, pairs.positive)
        above = ops.sigmoid((fixed - at(p, fixed)) / temperature)
        others = pairs.positive - put(p, at(p, pairs.positive), fixed)
        rank_p = 1.0 + ops.sum(others * above, axis=1, keepdims=True)
        rank = rank_p + ops.sum(pairs.negative * above, axis=1, keepdims=True)
        by_rank = (others * (rank - rank_p) - pairs.negative * rank_p) / ops.square(rank)
        by_score = weight * by_rank * above * (1.0 - above) / temperature
        by_own_score = -ops.sum(by_score, axis=1, keepdims=True)
        return sums + (weight * rank_p / rank)[:, 0], gradient + by_score + put(p, by_own_score, fixed)

    sums, gradient = for_each_positive(pairs, add, (ops.zeros_like(fixed[:, 0]), ops.zeros_like(fixed)))
    positives = count(pairs.positive)
    precision = with_gradient(sums, gradient, s) / ops.maximum(positives, 1.0)
    return ops.where(positives > 0, 1.0 - precision, 0.0)


def pnp(
    pairs: Pairs, *, variant: str = "original", temperature: float = 0.01, alpha: float = 1.0, b: float = 2.0
) -> Tensor:
    """Loss of the negatives before a positive (PNP), one value per anchor: they alone lower average precision.

    mean_p f(R_p),  R_p = sum_n 1 / (1 + exp(-(s_an - s_ap) / temperature))

    R_p is the number of negatives that are more similar to the anchor than p. f is, with the
    paper's letters in brackets, R for "original" (O). It grows more slowly with R, which leaves outliers alone, for
    "decreasing_log" (Ds), log(1 + R), and "decreasing_power" (Dq), 1 - (1 + R)^-alpha. It grows faster, which pulls the
    farthest positives most, for "increasing_unbounded" (Iu), (1 + R) log(1 + R), and "increasing_bounded" (Ib),
    (b R - log(1 + b R)) / b^2.

    Args:
        pairs: `Pairs` of A anchors and R references; cosine similarity, so embeddings need not be normalized.
        variant: name of f, as above.
        temperature: temperature of the sigmoid that replaces the step function.
        alpha: exponent of "decreasing_power".
        b: factor of "increasing_bounded".

    Returns:
        `(A,)`. An anchor without positives or without negatives gives 0.

    Time grows with A R K for up to K positives per anchor, memory with A R.

    Source: Li, Min, Song, Rethinking the Optimization of Average Precision: Only Penalizing Negative Instances before
    Positive Ones is Enough, AAAI 2022. Here the anchor is not a positive of its own.
    """
    s = cosine(pairs)
    fixed, penalty = ops.stop_gradient(s), _penalties(alpha, b)[variant]

    def add(p, found, sums, gradient):
        weight = found[:, None] * at(p, pairs.positive)
        above = ops.sigmoid((fixed - at(p, fixed)) / temperature)
        values, derivatives = penalty(ops.sum(pairs.negative * above, axis=1, keepdims=True))
        by_score = weight * derivatives * pairs.negative * above * (1.0 - above) / temperature
        by_own_score = -ops.sum(by_score, axis=1, keepdims=True)
        return sums + (weight * values)[:, 0], gradient + by_score + put(p, by_own_score, fixed)

    sums, gradient = for_each_positive(pairs, add, (ops.zeros_like(fixed[:, 0]), ops.zeros_like(fixed)))
    return with_gradient(sums, gradient, s) / ops.maximum(count(pairs.positive), 1.0)


# Names in the paper and in files of earlier versions.
_VARIANTS = {
    "O": "original",
    "Ds": "decreasing_log",
    "Dq": "decreasing_power",
    "Iu": "increasing_unbounded",
    "Ib": "increasing_bounded",
}


def _penalties(alpha, b):
    """Functions of the number of negatives before a positive that return a penalty and its derivative, by variant."""
    return {
        "original": lambda r: (r, ops.ones_like(r)),
        "decreasing_log": lambda r: (ops.log1p(r), 1.0 / (1.0 + r)),
        "decreasing_power": lambda r: (1.0 - ops.power(1.0 + r, -alpha), alpha * ops.power(1.0 + r, -alpha - 1.0)),
        "increasing_unbounded": lambda r: ((1.0 + r) * ops.log1p(r), 1.0 + ops.log1p(r)),
        "increasing_bounded": lambda r: ((b * r - ops.log1p(b * r)) / b**2, r / (1.0 + b * r)),
    }


def ranked_list(
    pairs: Pairs,
    *,
    margin: float = 0.4,
    boundary: float = 1.2,
    scale: float = 10.0,
    positive_scale: float = 0.0,
    balance: float = 0.5,
) -> Tensor:
    """Ranked list loss, one value per anchor: positives inside a ball, negatives outside a boundary.

    (1 - balance) sum_p w_p (d_ap - boundary + margin) / sum_p w_p + balance sum_n w_n (boundary - d_an) / sum_n w_n

    over the pairs that violate, d_ap > boundary - margin and d_an < boundary. d is the euclidean distance of normalized
    embeddings, w_n = exp(scale (boundary - d_an)) and w_p = exp(positive_scale (d_ap - boundary + margin)),
    both constants in the gradient.

    Args:
        pairs: `Pairs` of A anchors and R references; embeddings are normalized here.
        margin: width between positives and negatives.
        boundary: negatives farther away than this have zero loss, in [0, 2].
        scale: sharpness of the weights of negatives; 0 for equal weights.
        positive_scale: sharpness of the weights of positives.
        balance: weight of negatives, in [0, 1].

    Returns:
        `(A,)`. An anchor without violating pairs gives 0.

    Source: Wang, Hua, Kodirov, Hu, Garnier, Robertson, Ranked List Loss for Deep Metric Learning, CVPR 2019, section 3,
    with its defaults; the paper also weights positives equally.
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
    weights = ops.stop_gradient(violating * ops.exp(exponents - ops.max(exponents, axis=1, keepdims=True)))
    total = ops.sum(weights, axis=1)
    return ops.sum(weights * violation, axis=1) / ops.where(total > 0, total, 1.0)


@serializable
class SmoothAPLoss(PairLoss):
    """Smooth average precision: see `tfdml.losses.smooth_ap` for the formula and its source.

    Example:

        loss = tfdml.losses.SmoothAPLoss(temperature=0.01)

    Args:
        temperature: above 0.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(self, *, temperature: float = 0.01, **options: Unpack[PairOptions]) -> None:
        require(temperature > 0, f"temperature={temperature}", "a number above 0")
        super().__init__(smooth_ap, temperature=temperature, **options)


@serializable
class PNPLoss(PairLoss):
    """Loss of the negatives before a positive (PNP): see `tfdml.losses.pnp` for the formula and its source.

    Example:

        loss = tfdml.losses.PNPLoss(variant="decreasing_power", alpha=2.0)

    Args:
        variant: "original", "decreasing_log", "decreasing_power", "increasing_unbounded" or "increasing_bounded".
        temperature: above 0.
        alpha: exponent of "decreasing_power", above 0.
        b: factor of "increasing_bounded", above 0.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(
        self,
        *,
        variant: str = "original",
        temperature: float = 0.01,
        alpha: float = 1.0,
        b: float = 2.0,
        **options: Unpack[PairOptions],
    ) -> None:
        variants = sorted(_penalties(alpha, b))
        require(variant in variants, f"variant={variant!r}", f"one of {variants}")
        for name, value in {"temperature": temperature, "alpha": alpha, "b": b}.items():
            require(value > 0, f"{name}={value}", "a number above 0")
        super().__init__(pnp, variant=variant, temperature=temperature, alpha=alpha, b=b, **options)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The loss that `get_config` describes."""
        return super().from_config({**config, "variant": _VARIANTS.get(config["variant"], config["variant"])})


@serializable
class RankedListLoss(PairLoss):
    """Ranked list loss: see `tfdml.losses.ranked_list` for the formula and its source.

    Example:

        loss = tfdml.losses.RankedListLoss(margin=0.4, boundary=1.2, scale=10.0)

    Args:
        margin: width between positives and negatives, from 0 to `boundary`.
        boundary: negatives farther away than this have zero loss, in [0, 2].
        scale: sharpness of the weights of negatives, 0 or more.
        positive_scale: sharpness of the weights of positives, 0 or more.
        balance: weight of negatives, in [0, 1].
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
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

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The loss that `get_config` describes; files of earlier versions have temperatures."""
        return super().from_config(renamed(config, temperature="scale", positive_temperature="positive_scale"))
