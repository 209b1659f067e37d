"""Penalizing Negatives before Positives (PNP): only these negatives reduce average precision."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import count
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Tensor
from tfdml.pairs.positives import at, for_each_positive, put, with_gradient


def pnp(
    pairs: Pairs, *, variant: str = "original", temperature: float = 0.01, alpha: float = 1.0, b: float = 2.0
) -> Tensor:
    """Values of `PNPLoss`, one per anchor.

    mean_p f(R_p),  R_p = sum_n 1 / (1 + exp(-(s_an - s_ap) / temperature))
    """
    s = cosine(pairs)
    fixed, penalty = ops.stop_gradient(s), _penalties(alpha, b)[variant]

    def add(p, exists, sums, gradient):
        weight = exists[:, None] * at(p, pairs.positive)
        above = ops.sigmoid((fixed - at(p, fixed)) / temperature)
        values, derivatives = penalty(ops.sum(pairs.negative * above, axis=1, keepdims=True))
        by_score = weight * derivatives * pairs.negative * above * (1.0 - above) / temperature
        by_own_score = -ops.sum(by_score, axis=1, keepdims=True)
        return sums + (weight * values)[:, 0], gradient + by_score + put(p, by_own_score, fixed)

    sums, gradient = for_each_positive(pairs, add, (ops.zeros_like(fixed[:, 0]), ops.zeros_like(fixed)))
    return with_gradient(sums, gradient, s) / ops.maximum(count(pairs.positive), 1.0)


def _penalties(alpha, b):
    """Functions of the number of negatives before a positive that return a penalty and its derivative, by variant."""
    return {
        "original": lambda r: (r, ops.ones_like(r)),
        "decreasing_log": lambda r: (ops.log1p(r), 1.0 / (1.0 + r)),
        "decreasing_power": lambda r: (1.0 - ops.power(1.0 + r, -alpha), alpha * ops.power(1.0 + r, -alpha - 1.0)),
        "increasing_unbounded": lambda r: ((1.0 + r) * ops.log1p(r), 1.0 + ops.log1p(r)),
        "increasing_bounded": lambda r: ((b * r - ops.log1p(b * r)) / b**2, r / (1.0 + b * r)),
    }


@serializable
class PNPLoss(PairLoss, in_blocks=True):
    """Loss of the negatives before a positive (PNP): they alone lower average precision.

    mean_p f(R_p),  R_p = sum_n 1 / (1 + exp(-(s_an - s_ap) / temperature))

    R_p is the number of negatives that are more similar to the anchor than p. f, with the paper's letters in brackets,
    is R for "original" (O). It grows more slowly with R, which leaves outliers alone, for
    "decreasing_log" (Ds), log(1 + R), and "decreasing_power" (Dq), 1 - (1 + R)^-alpha. It grows faster, which pulls the
    farthest positives most, for "increasing_unbounded" (Iu), (1 + R) log(1 + R), and "increasing_bounded" (Ib),
    (b R - log(1 + b R)) / b^2.

    s is the cosine similarity; embeddings need not be normalized. An anchor without positives or without negatives
    gives 0. Time grows with A R K for up to K positives per anchor, memory with A R.

    Also called: PNP-O, PNP-D and PNP-I by `variant`.

    Example:

        >>> x = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.6, 0.8]])
        >>> loss = tfdml.losses.PNPLoss(temperature=0.1)
        >>> round(float(loss(np.array([0, 0, 1, 1]), x)), 4)  # the mean of R = 0.1195 and R = 0.9512
        0.5354

    See also: `SmoothAPLoss`, which also orders the positives among each other.

    Args:
        variant: name of f, as above.
        temperature: temperature of the sigmoid that replaces the step function, above 0.
        alpha: exponent of "decreasing_power", above 0.
        b: factor of "increasing_bounded", above 0.

    Source: Li, Min, Song, Rethinking the Optimization of Average Precision: Only Penalizing Negative Instances before
    Positive Ones is Enough, AAAI 2022. Here the anchor is not a positive of its own.
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
