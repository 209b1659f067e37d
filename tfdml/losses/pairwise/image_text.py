"""Losses of two towers with learned numbers: the symmetric softmax of CLIP, and the sigmoid loss of SigLIP."""

from collections.abc import Callable
from typing import TypeAlias, Unpack

from tfdml._core.backends import has_values, ops
from tfdml._core.checks import require, require_positive
from tfdml._core.serialization import serializable
from tfdml.layers.learned_scalar import LearnedScalar
from tfdml.losses.base import PairLoss, WeightOptions
from tfdml.losses.pairwise.nt_xent import one_positive_among_negatives
from tfdml.losses.reductions import log_sum_exp, require_shared_references, softplus
from tfdml.pairs import Pairs, cosine, two_towers
from tfdml.pairs.base import Tensor
from tfdml.pairs.batch_reductions import batch_log_add_exp, num_anchors_of_batch

Number: TypeAlias = float | Callable[[Pairs], Tensor]


def clip(pairs: Pairs, *, temperature: Number = 0.07) -> Tensor:
    """Values of `CLIPLoss`, one per anchor.

    (l(a_i, r) + sum_p l_i(p, a)) / 2,  l(a_i, r) = mean_p -log(exp(s_ip / t) / (exp(s_ip / t) + sum_n exp(s_in / t)))
    """
    require_shared_references(pairs, "the loss of CLIP")
    anchors, references = num_anchors_of_batch(pairs), pairs.positive.shape[1]
    require(
        not isinstance(anchors, int) or anchors == references,
        f"{anchors} anchors and {references} references",
        "as many of both: two towers",
    )
    s = cosine(pairs)
    logits = s / _number(temperature, pairs, s.dtype)
    return (one_positive_among_negatives(logits, pairs) + _from_references(logits, pairs)) / 2.0


def _from_references(logits, pairs):
    """The terms of each anchor in the direction from the references, `(A,)`, whose means are over columns.

    sum_p log(1 + sum_n exp(s_np - s_ap)) / (number of positives of p)
    """
    number = ops.log(ops.sum(ops.sign(pairs.positive), axis=0))
    sums = ops.stack([log_sum_exp(logits, pairs.negative, axis=0), ops.stop_gradient(number)])
    log_sum_negatives, log_number = ops.unstack(batch_log_add_exp(sums, pairs), 2)
    differences = ops.where(pairs.positive > 0, log_sum_negatives - logits, -float("inf"))
    shares = pairs.positive * ops.exp(-ops.stop_gradient(ops.maximum(log_number, 0.0)))

    def of_each():
        return ops.sum(shares * ops.softplus(differences), axis=1)

    def of_one():
        return ops.sum(shares, axis=1) * ops.softplus(ops.amax(differences, axis=1))

    at_most_one = ops.all(ops.sum(ops.sign(pairs.positive), axis=1) <= 1)
    return ops.cond(at_most_one, of_one, of_each) if has_values() else of_each()


def sigmoid(pairs: Pairs, *, scale: Number = 10.0, bias: Number = -10.0) -> Tensor:
    """Values of `SigmoidLoss`, one per anchor.

    sum_p -log sigmoid(scale s_ap + bias) + sum_n -log sigmoid(-(scale s_an + bias))
    """
    s = cosine(pairs)
    logits = _number(scale, pairs, s.dtype) * s + _number(bias, pairs, s.dtype)
    losses = softplus(ops.where(pairs.positive > 0, -logits, logits))
    return ops.sum((pairs.positive + pairs.negative) * losses, axis=1)


def _number(number, pairs, dtype):
    """A number, or that of a function of pairs as this type."""
    return ops.cast(number(pairs), dtype) if callable(number) else number


@serializable
class CLIPLoss(PairLoss, in_blocks=True):
    """Symmetric softmax loss with a learned temperature: NT-Xent of anchors to references, and the other way around.

    (l(a_i, r) + l(r_i, a)) / 2,  l(a_i, r) = mean_p -log(exp(s_ip / t) / (exp(s_ip / t) + sum_n exp(s_in / t)))

    This is the mean over anchors. Value i has the terms of the positive pairs of anchor i in both directions. Each
    positive is alone among the negatives: a caption that occurs twice is not a negative of its images.

    For `tfdml.models.TwoTowers`, such as pictures and texts. The default temperature is a `tfdml.layers.LearnedScalar`,
    which `EmbeddingModel` trains: 0.07 at first, and at least 0.01, as in the paper. s is the cosine similarity;
    embeddings need not be normalized. A direction without a positive or a negative gives 0.

    Also called: ConVIRT, symmetric InfoNCE, multiple negatives symmetric ranking loss.

    Example:

        >>> labels = np.arange(2)  # image i belongs to text i
        >>> towers = np.array([[[1.0, 0.0], [1.0, 0.0]], [[0.6, 0.8], [0.0, 1.0]]])  # cosines 1, 0, 0.6 and 0.8
        >>> loss = tfdml.losses.CLIPLoss(temperature=0.5)
        >>> round(float(loss(labels, towers)), 4)  # the mean of 0.249 and 0.3485
        0.2987

    See also: `SigmoidLoss`, of independent pairs. `NTXentLoss(pairing=tfdml.pairs.two_towers)`, one direction.

    Args:
        temperature: t, above 0; or a function `Pairs -> ()`, such as a `LearnedScalar`. None for a learned one.
        pairing: `two_towers`, or another pairing of as many references, which all anchors share, as anchors.

    Source: Radford et al., Learning Transferable Visual Models From Natural Language Supervision, ICML 2021, figure 3.
    """

    def __init__(
        self,
        *,
        temperature: Number | None = None,
        pairing: Callable[..., Pairs] = two_towers,
        **options: Unpack[WeightOptions],
    ) -> None:
        if temperature is None:
            temperature = LearnedScalar(0.07, log=True, minimum=0.01, name="temperature")
        if not callable(temperature):
            require_positive(temperature=temperature)
        super().__init__(clip, temperature=temperature, pairing=pairing, **options)


@serializable
class SigmoidLoss(PairLoss, in_blocks=True):
    """Sigmoid loss with learned scale and bias: the log-likelihood of a logistic classification of each pair.

    sum_p -log sigmoid(scale s_ap + bias) + sum_n -log sigmoid(-(scale s_an + bias))

    The mean over anchors is the paper's loss. Equal labels are positive: a repeated caption is not a negative.

    For `tfdml.models.TwoTowers`, such as pictures and texts. The default scale and bias are
    `tfdml.layers.LearnedScalar`, which `EmbeddingModel` trains: 10 and -10 at first, the scale by its logarithm. s is
    the cosine similarity; embeddings need not be normalized. An anchor without pairs gives 0.

    Also called: SigLIP loss, pairwise sigmoid loss.

    Example:

        >>> labels = np.arange(2)  # image i belongs to text i
        >>> towers = np.array([[[1.0, 0.0], [1.0, 0.0]], [[0.6, 0.8], [0.0, 1.0]]])  # cosines 1, 0, 0.6 and 0.8
        >>> loss = tfdml.losses.SigmoidLoss(scale=10.0, bias=-5.0)
        >>> round(float(loss(labels, towers)), 4)  # the mean of 2 log(1 + exp(-5)) and 1.3618
        0.6876

    See also: `BinomialDevianceLoss`, the same with a scale for each sign, and means in place of sums.

    Args:
        scale: the paper's t, above 0; or a function `Pairs -> ()`, such as a `LearnedScalar`. None for a learned one.
        bias: b, a number; or such a function. None for a learned one, below 0 at first, as most pairs are negative.
        pairing: `two_towers`, or any other.

    Source: Zhai, Mustafa, Kolesnikov, Beyer, Sigmoid Loss for Language Image Pre-Training, ICCV 2023, eq. 1.
    """

    def __init__(
        self,
        *,
        scale: Number | None = None,
        bias: Number | None = None,
        pairing: Callable[..., Pairs] = two_towers,
        **options: Unpack[WeightOptions],
    ) -> None:
        if scale is None:
            scale = LearnedScalar(10.0, log=True, name="scale")
        if bias is None:
            bias = LearnedScalar(-10.0, name="bias")
        if not callable(scale):
            require_positive(scale=scale)
        super().__init__(sigmoid, scale=scale, bias=bias, pairing=pairing, **options)
