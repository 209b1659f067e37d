"""Prototypical networks: softmax over the means of the classes."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import as_whole
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import count, log_sum_exp, over_batch, require_same_rows
from tfdml.pairs import Pairs, squared
from tfdml.pairs.base import Tensor
from tfdml.pairs.batch_reductions import BatchMean, batch_rows, rows_of_batch


@over_batch
def prototypical(pairs: Pairs, *, shots: int = 1) -> Tensor:
    """Values of `PrototypicalLoss`, one per anchor.

    (A / Q) (|q - c_own|^2 + log sum_classes exp(-|q - c|^2))
    """
    require_same_rows(pairs, "the prototypical loss")
    rows, columns = rows_of_batch(pairs)[:, None], ops.arange(ops.shape(pairs.positive)[1])
    member = (pairs.positive > 0) | (rows == columns)
    dtype = pairs.positive.dtype
    earlier = ops.sum(ops.cast(member & (rows > columns), dtype), axis=1)
    support = ops.cast(member & (batch_rows(earlier, pairs) < shots), dtype)
    anchors, references = (ops.cast(x, dtype) for x in (pairs.anchors, pairs.reference_embeddings))
    own_centers = ops.matmul(support, references) / ops.maximum(count(support), 1.0)[:, None]
    centers = batch_rows(own_centers, pairs)
    # The first row of each class represents its center.
    is_first = ops.cast(batch_rows(earlier, pairs) == 0, dtype) * ops.ones_like(support)
    log_sum_centers = log_sum_exp(-squared(pairs._replace(anchors=anchors, references=centers)), is_first)
    to_own_center = ops.sum(ops.square(anchors - own_centers), axis=1)
    is_query = ops.cast(earlier >= shots, dtype)
    return BatchMean(is_query * (to_own_center + log_sum_centers), is_query)


@serializable
class PrototypicalLoss(PairLoss, in_blocks=True):
    """Prototypical loss: cross-entropy of a softmax over distances from each query to the class centers.

    (A / Q) (|q - c_own|^2 + log sum_classes exp(-|q - c|^2))

    The first `shots` rows of each class in the batch are its support, c is their mean, and the other rows are the Q
    queries. With the factor A / Q, the mean over the A anchors is the paper's loss. A batch is compared with itself.
    Rows that are positive to each other form a class, so `match` must be an equivalence relation. Embeddings are not
    normalized. Embeddings of norm 1 give a nearly flat softmax, because their squared distances are at most 4: scale
    them. Only whether a weight is 0 matters. Support rows and batches without queries give 0.

    Also called: ProtoNet.

    Example:

        >>> x = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.6, 0.8]])
        >>> loss = tfdml.losses.PrototypicalLoss()
        >>> round(float(loss(np.array([0, 0, 1, 1]), x)), 4)  # log(1 + exp(0.4 - 0.8))
        0.513

    See also: `samplers.EpisodeSampler` draws its batches; `metrics.few_shot` measures it.

    Args:
        shots: support examples of each class in the batch, at least 1.

    Source: Snell, Swersky, Zemel, Prototypical Networks for Few-shot Learning, NIPS 2017, eqs. 1 and 2 and algorithm 1.
    """

    def __init__(self, *, shots: int = 1, **options: Unpack[PairOptions]) -> None:
        shots = as_whole("shots", shots, 1)
        super().__init__(prototypical, shots=shots, **options)
