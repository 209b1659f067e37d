"""The clustering loss: facility location against the classes, with loss-augmented inference."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import as_whole, require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import broadcast_to_anchors, require_same_rows
from tfdml.pairs import Pairs, euclidean
from tfdml.pairs.base import Tensor
from tfdml.pairs.batch_reductions import require_whole_batch

# Scores whose relative difference is smaller are ties, such as those of the two members of a cluster after rounding.
_RELATIVE_TIE = 1e-5
# Entropies of at least two groups of a batch are larger: log(n) / n of n rows.
_NO_ENTROPY = 1e-5


def clustering(pairs: Pairs, *, margin: float = 1.0, refinements: int = 5) -> Tensor:
    """Values of `ClusteringLoss`, one per anchor.

    max(0, max_S (F(S) + margin (1 - NMI(S))) - F*)
    F(S) = -sum_i min_{j in S} d_ij,  F* = sum_classes max_{j in class} -sum_{i in class} d_ij
    """
    require_same_rows(pairs, "the clustering loss")
    require_whole_batch(pairs, "the clustering loss", "it clusters all rows of the batch")
    d, itself = euclidean(pairs), ops.eye(ops.shape(pairs.positive)[0], dtype="bool")
    same_class = (pairs.positive > 0) | itself
    fixed = ops.where(itself, 0.0, ops.stop_gradient(d))
    medoids = _augmented_medoids(fixed, same_class, margin, refinements)
    _, assigned = _nearest(fixed, medoids)
    score = -ops.sum(ops.amin(_to_medoids(d, medoids), axis=1))
    augmented = score + margin * ops.cast(_distance_to_classes(assigned[:, None] == assigned, same_class), d.dtype)
    return broadcast_to_anchors(ops.maximum(augmented - _class_score(d, same_class), 0.0), pairs)


def _augmented_medoids(d, same_class, margin, refinements):
    """The medoids of the clustering with the largest score plus margin, as `(A,)` row numbers followed by -1."""
    rows = ops.arange(ops.shape(d)[0], dtype="int32")
    classes = ops.cast(ops.round(ops.sum(1.0 / ops.sum(ops.cast(same_class, d.dtype), axis=1))), "int32")

    def margins(medoids):
        return margin * _distances_with_candidates(d, *_nearest(d, medoids), same_class)

    def add(k, medoids):
        nearest, _ = _nearest(d, medoids)
        scores = margins(medoids) - ops.sum(ops.minimum(nearest[:, None], d), axis=0)
        is_new = ops.logical_not(ops.any(medoids[:, None] == rows, axis=0))
        return ops.where(rows == k, _first_best(scores, is_new), medoids)

    def refine(_, medoids):
        _, assigned = _nearest(d, medoids)

        def swap(k, medoids):
            member, without = assigned == k, ops.where(rows == k, -1, medoids)
            scores = margins(without) - ops.sum(ops.where(member[:, None], d, 0.0), axis=0)
            return ops.where(rows == k, _first_best(scores, member), medoids)

        return ops.fori_loop(0, classes, swap, medoids)

    greedy = ops.fori_loop(0, classes, add, ops.full_like(rows, -1))
    return ops.fori_loop(0, refinements, refine, greedy)


def _to_medoids(d, medoids):
    """Distances to the medoids, `(A, A)`, infinite where there is none."""
    return ops.where(medoids >= 0, ops.take(d, ops.maximum(medoids, 0), axis=1), float("inf"))


def _nearest(d, medoids):
    """The distance of each row to its nearest medoid, and the place of that medoid."""
    to = _to_medoids(d, medoids)
    return ops.amin(to, axis=1), ops.cast(ops.argmin(to, axis=1), "int32")


def _first_best(scores, allowed):
    """The first allowed place with the largest score, up to rounding."""
    scores = ops.where(allowed, scores, -float("inf"))
    best = ops.amax(scores)
    return ops.cast(ops.argmax(scores >= best - _RELATIVE_TIE * (1.0 + ops.abs(best))), "int32")


def _distances_with_candidates(d, nearest, assigned, same_class):
    """1 - NMI of the classes and of the clusters that each row would make as a further medoid, `(A,)`.

    Rows that are nearer to the candidate than to their medoid move to its cluster. Counts are matrix products.
    """
    same_cluster, same_class = (ops.cast(same, d.dtype) for same in (assigned[:, None] == assigned, same_class))
    moves = ops.cast(d < nearest[:, None], d.dtype)
    stays = 1.0 - moves
    in_cluster = ops.where(moves > 0, ops.sum(moves, axis=0), ops.matmul(same_cluster, stays))
    unmoved_in_both = ops.matmul(same_cluster * same_class, stays)
    in_both = ops.where(moves > 0, ops.matmul(same_class, moves), unmoved_in_both)
    return _distance(ops.sum(same_class, axis=1, keepdims=True), in_cluster, in_both)


def _distance_to_classes(same_cluster, same_class):
    """1 - NMI of the classes and of clusters."""
    sizes = [same_class, same_cluster, ops.logical_and(same_class, same_cluster)]
    return _distance(*(ops.sum(ops.cast(same, "float32"), axis=1, keepdims=True) for same in sizes))[0]


def _distance(in_class, in_cluster, in_both):
    """1 - NMI from the number of rows in the class, in the cluster, and in both, of each row, `(A, candidates)`."""
    total = ops.log(ops.cast(ops.shape(in_class)[0], in_class.dtype))
    h_class, h_cluster, h_both = (total - ops.mean(ops.log(n), axis=0) for n in (in_class, in_cluster, in_both))
    # Either entropy is 0, up to rounding, for one class or one cluster: NMI is then 1 if both are, and 0 otherwise.
    one_class, one_cluster = h_class < _NO_ENTROPY, h_cluster < _NO_ENTROPY
    either = ops.logical_or(one_class, one_cluster)
    nmi = (h_class + h_cluster - h_both) / ops.sqrt(ops.where(either, 1.0, h_class * h_cluster))
    return 1.0 - ops.where(either, ops.cast(ops.logical_and(one_class, one_cluster), nmi.dtype), nmi)


def _class_score(d, same_class):
    """The negative sum of the distances of all rows to the medoids of their classes."""
    members = ops.cast(same_class, d.dtype)
    sums = ops.sum(members * d, axis=0)
    best = ops.amin(ops.where(same_class, sums, float("inf")), axis=1)
    return -ops.sum(best / ops.sum(members, axis=1))


@serializable
class ClusteringLoss(PairLoss):
    """Clustering loss by facility location, a value of the batch: its classes score higher than any other clustering.

    max(0, max_S (F(S) + margin (1 - NMI(S))) - F*)
    F(S) = -sum_i min_{j in S} d_ij,  F* = sum_classes max_{j in class} -sum_{i in class} d_ij

    S are as many rows, the medoids, as the batch has classes. NMI is the normalized mutual information of the classes
    and of the clusters: each row belongs to its nearest medoid. A greedy algorithm finds S, and swaps of medoids with
    members of their cluster refine it (PAM). The gradient flows through the distances to the medoids.

    A batch is compared with itself. Rows that are positive to each other form a class, so `match` must be an
    equivalence relation. d is the euclidean distance of embeddings that are not normalized; the paper scales them to
    norm 1. Only whether a weight is 0 matters. A batch of one class gives 0, and so does a batch without positives.
    Time grows with the number of classes times A^3, memory with A^2. `anchors_per_block` is an error, because each step
    of the greedy algorithm compares all rows with all candidates.

    Also called: facility location loss, structured clustering loss.

    Example:

        >>> x = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.6, 0.8]])
        >>> loss = tfdml.losses.ClusteringLoss()
        >>> round(float(loss(np.array([0, 0, 1, 1]), x)), 4)
        1.004

    See also: `PrototypicalLoss` compares with means of the classes; `metrics.clustering` measures NMI.

    Args:
        margin: the margin gamma of a clustering that shares no information with the classes, 0 or more.
        refinements: number of passes of swaps over all clusters, 0 or more.

    Source: Song, Jegelka, Rathod, Murphy, Deep Metric Learning via Facility Location, CVPR 2017, with 5 refinements as
    in the code of the authors. Ties are decided by the order of the rows.
    """

    def __init__(self, *, margin: float = 1.0, refinements: int = 5, **options: Unpack[PairOptions]) -> None:
        require(margin >= 0, f"margin={margin}", "0 or more")
        refinements = as_whole("refinements", refinements, 0)
        super().__init__(clustering, margin=margin, refinements=refinements, **options)
